"""One incident: what was lost, where it is still, who was notified, what was done, is it over."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tallymark_audit.alerts.about import fingerprints
from tallymark_audit.model.time_format import utc
from tallymark_audit.repair.repairable import repairability
from tallymark_audit.store.judged.graph import known_edges
from tallymark_audit.store.reading.incidents import (
    WhichIncidents,
    WindowIncident,
    incident_page,
    windows_of,
    wrong_windows_of,
)
from tallymark_audit.store.reading.incidents import incident as incident_of
from tallymark_audit.store.reading.timeline import Moment, timeline
from tallymark_audit.store.reading.window_evidence import edge_of, evidence
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.context import Context
from tallymark_dashboards.frame.missing import Near, missing
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.pages.gather import incident_rows, webhook_host
from tallymark_dashboards.view.charts.timeline import timeline as chart
from tallymark_dashboards.view.incidents.incident_line import entries, happenings
from tallymark_dashboards.view.incidents.incident_rows import IncidentRow
from tallymark_dashboards.view.incidents.mending import Mending, mending

WINDOWS: Final = 100
"""Windows on one page."""
NEAR: Final = 5
WEIGHED: Final = 3
"""Windows for which the page says how many messages can be repaired."""
CELLS: Final = 100
_PAGE_OF: Final = {"alert": "alerts", "told": "alerts", "log": "incidents", "run": "runs"}
_NUMBER: Final = re.compile(r"\d{1,18}", re.ASCII)


@page("/incident", name="incident", nav="Incidents", live=True, ranged=False)
def incident(ask: Ask) -> Page:
    """The incident of an id, or the one into which it was merged."""
    said = ask.text("id")
    found = None
    if _NUMBER.fullmatch(said):
        found = incident_of(ask.connection, int(said))
    if found is None:
        last = incident_page(ask.connection, WhichIncidents(), limit=NEAR)
        rows = incident_rows(ask, last)
        near = [_near(row) for row in rows]
        return missing("incident", said, near, "These are the last ones." if near else "")
    (row,) = incident_rows(ask, [found])
    after = ask.moment("after")
    windows = windows_of(ask.connection, found.id, after, WINDOWS + 1)
    moments = timeline(ask.connection, found, fingerprints(found.edge, found.topic))
    window_ms = ask.context.deployment.audit.window_ms
    values = {
        "row": row,
        "now_ms": ask.now,
        "one": found,
        "windows": windows[:WINDOWS],
        "next": windows[WINDOWS - 1].window if len(windows) > WINDOWS else None,
        "after": after,
        "entries": entries(moments),
        "chart": _drawn(found, moments, window_ms),
        "host": webhook_host(ask),
        "mending": _mending(ask, found),
        "repair": _repair(ask.context, found, row.end),
    }
    return Page(f"{row.what}: {found.topic}", "pages/incident.html", values, row.tone)


def _mending(ask: Ask, one: WindowIncident) -> Mending | None:
    """What can be repaired of the first windows that are wrong now."""
    if one.state != "OPEN":
        return None
    edge = edge_of([known.edge for known in known_edges(ask.connection)], one.edge)
    wrong = wrong_windows_of(ask.connection, one.id, WEIGHED)
    found = [
        (
            window,
            repairability(
                ask.connection,
                ask.context.deployment,
                edge,
                shown,
                ask.now,
                ask.context.settings,
                ask.context.snapshots.log_starts,
            ),
        )
        for window in wrong
        if (shown := evidence(ask.connection, one.edge, one.topic, window, CELLS)).verdicts
    ]
    return mending(found, one.bad)


def _repair(context: Context, one: WindowIncident, end: int) -> str:
    """The command that plans the repair of all of its windows."""
    times = {"from_": utc(one.first_window), "to": utc(end)}
    return context.command("tallymark audit repair", edge=one.edge, topic=one.topic, **times)


def _near(row: IncidentRow) -> Near:
    text = f"{row.what}: {row.incident.topic} on {row.incident.edge}"
    return Near(text, "incident", {"id": row.incident.id})


def _drawn(
    one: WindowIncident, moments: list[Moment], window_ms: int
) -> Callable[[Callable[..., str]], str]:
    """The chart, once the template says how a link is made."""

    def draw(link: Callable[..., str]) -> str:
        def address(moment: Moment) -> str:
            if moment.window is not None:
                return link("window", edge=one.edge, topic=one.topic, window=moment.window)
            return link(_PAGE_OF[moment.kind]) if moment.kind in _PAGE_OF else ""

        return chart(happenings(one, moments, window_ms, address))

    return draw
