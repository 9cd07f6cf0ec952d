"""The overview: did every message arrive, and where not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from tallymark_audit.model.time_format import LARGEST
from tallymark_audit.store.reading import queries
from tallymark_audit.store.reading.alarms import watching
from tallymark_audit.store.reading.alarms.alert_log import WhichAlerts, alert_log
from tallymark_audit.store.reading.incidents import (
    WhichIncidents,
    incident_count,
    incident_page,
)
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.pages.gather import (
    cards,
    incident_rows,
    open_incidents,
    topic_rows,
    worst_page,
)
from tallymark_dashboards.view.clock import clock_of
from tallymark_dashboards.view.incidents.alert_rows import alert_row
from tallymark_dashboards.view.incidents.incident_rows import OVER, IncidentRow, worst_tone
from tallymark_dashboards.view.marks import Tone
from tallymark_dashboards.view.overview_rows import OverviewRow
from tallymark_dashboards.view.reporters import ReporterRow, reporter_rows

TOPICS: Final = 50
"""Topics on one page."""
INCIDENTS: Final = 8
CLOSED: Final = 4
"""Incidents that are over, the last ones: what was wrong yesterday stays findable."""
REPORTERS: Final = 10
ALERTS: Final = 5


@page("/", name="overview", nav="Overview", live=True)
def overview(ask: Ask) -> Page:
    """Every topic, the worst first, and all that needs attention."""
    connection = ask.connection
    over = incident_page(connection, WhichIncidents(states=OVER), limit=CLOSED)
    incidents = incident_rows(ask, [*open_incidents(ask, INCIDENTS), *over])
    open_count = incident_count(connection, WhichIncidents(states=("OPEN",)))
    rows, found = _topics(ask)
    silent = _silent(ask)
    firing = alert_log(connection, WhichAlerts(statuses=("firing",)), ALERTS)
    values = {
        **found,
        "cards": cards(ask),
        "incidents": incidents,
        "open_count": open_count,
        "alerts": [alert_row(row) for row in firing],
        "rows": rows,
        "lags": any(row.lag for row in rows),
        "reporters": [*silent, *_others(ask, silent)][:REPORTERS],
        "silent": len(silent),
    }
    tone, count = _told(incidents, open_count, rows, not ask.age.ok)
    return Page("Overview", "pages/overview.html", values, tone, count)


def _topics(ask: Ask) -> tuple[list[OverviewRow], Mapping[str, Any]]:
    """A page of topics, the worst first, and how many there are."""
    q, period = ask.text("q"), (ask.range.start, ask.range.end)
    found, paging = worst_page(ask, *period, TOPICS, q)
    clock = clock_of(*period, ask.context.deployment.audit.window_ms)
    counted = {"topics": found.topics, "bad_topics": found.bad}
    paged = {"q": q, "number": paging.number, "pages": paging.pages, "clock": clock}
    return topic_rows(ask, found.rows, clock), {**paged, **counted}


def _silent(ask: Ask) -> list[ReporterRow]:
    """Silent reporters of all clusters, as far as reports have been read: a collector that lags is
    no reason to blame them."""
    silence = ask.context.deployment.audit.silence_ms
    found = [
        {**asdict(one), "closed": False, "retired_at": 0}
        for cluster in ask.context.deployment.clusters
        for one in watching.silent_reporters(ask.connection, cluster.name, silence)
    ]
    return reporter_rows(found, silent_before=LARGEST)


def _others(ask: Ask, silent: Sequence[ReporterRow]) -> list[ReporterRow]:
    """Other reporters that have neither closed nor been retired."""
    named = {(one.cluster, one.reporter) for one in silent}
    found = queries.all_reporters(ask.connection, live_only=True, limit=REPORTERS)
    rest = [one for one in found if (one["cluster"], one["reporter"]) not in named]
    return reporter_rows(rest, ask.now - ask.context.deployment.audit.silence_ms)


def _told(
    incidents: Sequence[IncidentRow], count: int, rows: Sequence[OverviewRow], behind: bool
) -> tuple[Tone, int]:
    """What the tab says: the open incidents, else topics that are not well, else the audit."""
    tone, _ = worst_tone(incidents)
    if tone:
        return tone, count
    wrong = [row for row in rows if row.tone in ("bad", "warn")]
    if wrong:
        return ("bad" if any(row.tone == "bad" for row in wrong) else "warn"), len(wrong)
    return ("warn", 0) if behind else ("", 0)
