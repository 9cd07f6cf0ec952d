"""Incidents: one line each, from first sight to the end; and what happened to the logs."""

from __future__ import annotations

from typing import Final

from tallymark_audit.store.reading import queries
from tallymark_audit.store.reading.alarms.disagreeing import disagreements_between
from tallymark_audit.store.reading.incidents import (
    WhichIncidents,
    incident_count,
    incident_page,
)
from tallymark_audit.store.reading.neighbours import edges_known
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.pages.gather import incident_rows
from tallymark_dashboards.view.incidents.incident_rows import KINDS, OVER, worst_tone

ROWS: Final = 50
LOG_EVENTS: Final = 20
DISAGREE: Final = 20
STATES: Final = {"all": (), "open": ("OPEN",), "closed": OVER}


@page("/incidents", name="incidents", nav="Incidents", live=True)
def incidents(ask: Ask) -> Page:
    """Incidents of a period, the newest first."""
    state = ask.one_of("state", tuple(STATES), "all")
    kind = ask.one_of("kind", ("", *KINDS), "")
    which = WhichIncidents(
        states=STATES[state],
        kinds=(kind,) if kind else (),
        topic=ask.text("topic") or None,
        edge=ask.text("edge") or None,
        start=ask.range.start,
        end=ask.range.end,
        find=ask.text("q"),
    )
    count = incident_count(ask.connection, which)
    paging = ask.paging(count, ROWS)
    found = incident_page(ask.connection, which, limit=ROWS, skip=paging.skip)
    rows = incident_rows(ask, found)
    values = {
        "rows": rows,
        "count": count,
        "number": paging.number,
        "pages": paging.pages,
        "state": state,
        "chosen": which.states,
        "kind": kind,
        "topic": which.topic or "",
        "edge": which.edge or "",
        "q": which.find,
        "states": tuple(STATES),
        "kinds": KINDS,
        "filtered": state != "all" or bool(kind or which.topic or which.edge or which.find),
        "known": incident_count(ask.connection, WhichIncidents()),
        "events": queries.all_incidents(ask.connection, LOG_EVENTS),
        "disagreements": disagreements_between(
            ask.connection, edges_known(ask.connection), ask.range.start, ask.range.end, DISAGREE
        ),
    }
    open_count = incident_count(ask.connection, WhichIncidents(states=("OPEN",)))
    tone = worst_tone(rows)[0] or ("bad" if open_count else "")
    return Page("Incidents", "pages/incidents.html", values, tone, open_count)
