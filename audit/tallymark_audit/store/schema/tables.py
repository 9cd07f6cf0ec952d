"""The tables of the audit store. SQLite for one machine, PostgreSQL for more: the same statements.

Times are ms UTC, offsets and sequences 64-bit. Sets of sequences are JSON lists of ranges, flat:
``[first, last, first, last, ...]``. "window" is the start of a window.

    progress       up to which offset a partition is counted          one row a partition
    observations   what the counter of a cluster saw                  one row a cell and partition
    claims         what reporters claim                               one row a cell, reporter, part
    reporters      the runs that reported, and how completely         one row a run
    verdicts       the present judgement                              one row a window and source
    watermarks     how far an edge is complete                        one row an edge and topic
    damage         offsets that cannot be read                        one row a range
    openings       what a partition may still open, and could not     one row a partition
    window_changes when a window last changed on a cluster            what the judge looks at
    recounts       what has to be counted again, and how far that is one row a job and partition
    copied         how far mirrors and groups report to be            one row a source partition
    lateness       how late records come                              one row an edge, topic, day
    archive        observations and claims of healthy windows, packed one row a window
    totals         how much archived windows hold, by tier            one row a window, hour, day
    alerts         alerts, and what was posted of them                one row an alert
    graph          the edges, whenever they changed                   one row a change
    verdict_sums, edge_sums, topic_sums   sums of the verdicts        10 minutes, hour, window, all
    window_incidents, incident_windows    runs of bad windows         one row a run, a window
    worst_cells    what was wrong with windows that are repaired        one row a window
    latency_sums   how late records came, by time                     one row a topic and hour
    verdict_history, incidents, runs, repairs, decisions              what happened, kept
"""

from __future__ import annotations

from tallymark_audit.store.schema.columns import metadata
from tallymark_audit.store.schema.counted_tables import (
    archive,
    claims,
    collectors,
    copied,
    damage,
    deleted,
    detached,
    lateness,
    meta,
    observations,
    openings,
    progress,
    recounts,
    reporter_topics,
    reporters,
    totals,
    window_changes,
)
from tallymark_audit.store.schema.judged_tables import (
    SUMS,
    alerts,
    decisions,
    graph,
    incidents,
    repairs,
    runs,
    verdict_history,
    verdicts,
    watermarks,
)
from tallymark_audit.store.schema.summed_tables import (
    edge_sums,
    incident_windows,
    latency_sums,
    topic_sums,
    verdict_sums,
    window_incidents,
    worst_cells,
)

SCHEMA_VERSION = 10

__all__ = [
    "SCHEMA_VERSION",
    "SUMS",
    "alerts",
    "archive",
    "claims",
    "collectors",
    "copied",
    "damage",
    "decisions",
    "deleted",
    "detached",
    "edge_sums",
    "graph",
    "incident_windows",
    "incidents",
    "latency_sums",
    "lateness",
    "meta",
    "metadata",
    "observations",
    "openings",
    "progress",
    "recounts",
    "repairs",
    "reporter_topics",
    "reporters",
    "runs",
    "topic_sums",
    "totals",
    "verdict_history",
    "verdict_sums",
    "verdicts",
    "watermarks",
    "window_changes",
    "window_incidents",
    "worst_cells",
]
