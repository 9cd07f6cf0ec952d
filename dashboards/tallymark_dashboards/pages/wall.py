"""The wall: what a room sees from five metres. Numbers, open incidents, the worst topics, and how
old all of it is."""

from __future__ import annotations

from typing import Final

from tallymark_audit.store.reading.incidents import WhichIncidents, incident_count
from tallymark_audit.store.reading.worst import worst
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.pages.gather import cards, incident_rows, open_incidents, topic_rows
from tallymark_dashboards.view.clock import clock_of
from tallymark_dashboards.view.wall_verdict import wall_verdict

TOPICS: Final = 6
INCIDENTS: Final = 5
CELLS: Final = 12
"""Cells of a strip, so that each can be seen."""
SHOWN: Final = (
    "missing",
    "duplicated",
    "complete",
    "complete through",
    "delivery latency",
    "audit",
)


@page("/wall", name="wall", nav="Wall", live=True)
def wall(ask: Ask) -> Page:
    """The most urgent, in large letters."""
    rows = incident_rows(ask, open_incidents(ask, INCIDENTS))
    count = incident_count(ask.connection, WhichIncidents(states=("OPEN",)))
    window_ms = ask.context.deployment.audit.window_ms
    clock = clock_of(ask.range.start, ask.range.end, window_ms, CELLS)
    found = worst(ask.connection, ask.range.start, ask.range.end, TOPICS)
    numbers = {one.name: one for one in cards(ask)}
    verdict = wall_verdict(rows, count, numbers.values(), found.bad, found.topics)
    values = {
        "verdict": verdict,
        "tone": verdict.tone,
        "cards": [numbers[name] for name in SHOWN],
        "incidents": rows,
        "count": count,
        "rows": topic_rows(ask, found.rows, clock),
        "bad": found.bad,
        "topics": found.topics,
        "clock": clock,
    }
    return Page("Wall", "pages/wall.html", values, verdict.tone, count or found.bad)
