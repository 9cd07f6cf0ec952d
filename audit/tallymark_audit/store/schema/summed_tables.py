"""The tables of sums and incidents: what pages read instead of all verdicts; see :mod:`.tables`.

They follow from ``verdicts`` and are written in the same transaction
(:mod:`tallymark_audit.store.judged.sums`, :mod:`tallymark_audit.store.judged.window_incidents`).
They are kept longer than the verdicts they were made of.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Column, Index, PrimaryKeyConstraint, Table, literal_column

from tallymark_audit.judge.states import State
from tallymark_audit.store.schema.columns import big, flag, json, metadata, numbered, text

BALANCED: Final = ("claimed", "observed", "pending", "missing", "explained")
"""Messages of which the first number is always the sum of the others: of those that were claimed,
how many are there, may still come, are lost, and are absent for a stated reason."""
BESIDE: Final = ("duplicates", "unclaimed", "excused")
"""Messages beside these: copies beyond the first; seen, but never claimed; and refused or in doubt,
so never claimed, and absent."""
IN_STATE: Final = {state: f"in_{state.lower()}" for state in State}
"""The column that counts the windows in a state."""
BAD: Final = "bad"
"""Windows that are wrong or UNKNOWN, and not accepted."""
ACCEPTED: Final = "accepted"
"""Windows that are wrong or UNKNOWN, and were accepted by a person."""
SUMMED: Final = (*BALANCED, *BESIDE, *IN_STATE.values(), BAD, ACCEPTED)
"""The columns that all tables of sums have."""


def _summed() -> list[Column[Any]]:
    return [big(name) for name in SUMMED]


verdict_sums = Table(
    "verdict_sums",
    metadata,
    text("edge"),
    text("topic"),
    big("span"),
    big("start"),
    *_summed(),
    PrimaryKeyConstraint("edge", "topic", "span", "start"),
)
"""The effective verdicts of the windows that begin within ``span`` (ten minutes or an hour, ms)
from ``start`` on."""
IS_BAD: Final = verdict_sums.c.bad > literal_column("0")
"""Spelled like that, databases see that the index has all such rows."""
Index(
    "verdict_sums_bad",
    verdict_sums.c.span,
    verdict_sums.c.start,
    sqlite_where=IS_BAD,
    postgresql_where=IS_BAD,
)

edge_sums = Table(
    "edge_sums",
    metadata,
    text("edge"),
    big("window"),
    *_summed(),
    PrimaryKeyConstraint("edge", "window"),
    Index("edge_sums_by_window", "window"),
)
"""The effective verdicts of a window, of all topics of an edge."""

topic_sums = Table(
    "topic_sums",
    metadata,
    text("edge"),
    text("topic"),
    *_summed(),
    big("first_window"),
    big("last_window"),
    big("bad_windows"),
    PrimaryKeyConstraint("edge", "topic"),
    Index("topic_sums_by_topic", "topic", "edge"),
)
"""The effective verdicts that are kept, of a topic on an edge, and the first and last of them. The
topic "" is the edge itself: a process locks its row before it changes sums or incidents of the
edge, and ``bad_windows`` of it counts those of :data:`incident_windows` that are not good now."""


def _wrong() -> list[Column[int]]:
    """How many messages are wrong now, and how many were when there were most."""
    counts = "missing", "duplicates", "unclaimed"
    return [big(name) for name in (*counts, *(f"worst_{one}" for one in counts))]


window_incidents = Table(
    "window_incidents",
    metadata,
    numbered(),
    text("edge"),
    text("topic"),
    text("kind"),
    text("state"),
    big("first_window"),
    big("last_window"),
    big("opened_at"),
    big("last_change"),
    big("closed_at"),
    big("windows"),
    big("bad"),
    big("accepted"),
    big("explained"),
    *_wrong(),
    text("repaired_by"),
    big("merged_into"),
    Index("window_incidents_by_place", "edge", "topic", "last_window"),
    Index("window_incidents_by_state", "state", "opened_at"),
    Index("window_incidents_by_time", "opened_at"),
)
"""A run of bad windows of a topic on an edge, from first sight to its end
(:mod:`tallymark_audit.judge.incidents`). ``windows`` were bad at some time, ``bad`` are so now,
``accepted`` and ``explained`` ended like that. ``missing`` and the like are of now, ``worst_...``
the sum of the most that each window ever had. ``merged_into``: the row of the incident
that this one became a part of; 0 for all others."""

incident_windows = Table(
    "incident_windows",
    metadata,
    text("edge"),
    text("topic"),
    big("window"),
    big("incident"),
    text("state"),
    flag("accepted"),
    *_wrong(),
    text("worst_state"),
    big("opened_at"),
    big("closed_at"),
    PrimaryKeyConstraint("edge", "topic", "window"),
    Index("incident_windows_by_incident", "incident", "window"),
    Index("incident_windows_by_window", "window"),
)
"""The windows of incidents: ``state`` is the last one that was decided, ``closed_at`` 0 while that
is bad."""

worst_cells = Table(
    "worst_cells",
    metadata,
    text("edge"),
    text("topic"),
    big("window"),
    text("state"),
    big("until"),
    json("cells"),
    PrimaryKeyConstraint("edge", "topic", "window"),
)
"""The cells of windows that are better now, as they were at their worst, ``until`` (ms): which
messages were wrong, and where they were. A verdict that is good has no cells."""

latency_sums = Table(
    "latency_sums",
    metadata,
    text("cluster"),
    text("topic"),
    big("start"),
    json("sketch"),
    PrimaryKeyConstraint("cluster", "topic", "start"),
    Index("latency_sums_by_start", "start"),
)
"""How long after their stamp records were counted on a cluster, by when they were counted: a flat
sketch of ms, of a topic an hour; of all topics together (topic "") ten minutes."""
