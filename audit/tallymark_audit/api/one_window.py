"""One window: the evidence as a whole and list by list, and what of it can be repaired."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from tallymark.clock import now_ms
from tallymark_audit.api import counted_fields, happened_fields, lists, params
from tallymark_audit.api.fields import (
    REPORTER,
    VERDICT,
    Fields,
    listed,
    number,
    row_schema,
    rows_schema,
    text,
    time,
)
from tallymark_audit.api.lists import Listing
from tallymark_audit.api.problems import Answer, AuditRoute, Problem
from tallymark_audit.api.state import api_of
from tallymark_audit.repair import repairable
from tallymark_audit.store.judged.graph import known_edges
from tallymark_audit.store.reading import window_evidence
from tallymark_audit.store.reading.window_evidence import Evidence
from tallymark_audit.store.schema.rows import Row

MAX_EVIDENCE: Final = 1_000
"""Rows of one list of the evidence, and cells that are looked at for what can be repaired."""
router = APIRouter(route_class=AuditRoute, default_response_class=Answer)
EdgeOf = Annotated[params.Name, Query(description="The edge, as in producer-to-dc1.")]
TopicOf = Annotated[params.Name, Query(description="The topic, as it is called upstream.")]
WindowOf = Annotated[params.Moment, Query(description="The start of the window.")]
REVISION: Final[Fields] = {name: one for name, one in VERDICT.items() if name != "accepted_by"}
_CELLS_JUDGED: Final = rows_schema({}, "Not simply complete.", counted_fields.JUDGED_CELL)
_VERDICTS: Final = {
    "type": "array",
    "description": "The effective one first.",
    "items": row_schema(VERDICT, {"cells": _CELLS_JUDGED}),
}
_WAS: Final = row_schema(
    {
        "state": text("The worst state that it had."),
        "until": time("Since when it is better,"),
    },
    {"cells": rows_schema({}, "The cells that were named then.", counted_fields.JUDGED_CELL)},
)
_EVENTS: Final[Fields] = {
    "seen": listed("The numbers of its events that have come, as flat ranges."),
    "ahead": listed("Events that came before others."),
}
_EVIDENCE: Final = {
    "verdicts": _VERDICTS,
    "upstream": rows_schema({}, "Counted or claimed upstream.", counted_fields.EITHER),
    "downstream": rows_schema({}, "Counted or reported downstream.", counted_fields.EITHER),
    "reporters": rows_schema(REPORTER, "Those that report on the topic.", _EVENTS),
    "history": rows_schema(REVISION, "The revisions."),
    "incidents": rows_schema(happened_fields.LOG_EVENT, "What happened to the logs."),
    "repairs": rows_schema(happened_fields.REPAIR, "What repairs did."),
    "left_out": {"type": "object", "description": "How many rows are left out, by list."},
    "was": {**_WAS, "type": ["object", "null"], "description": "What was wrong, if it is better."},
    "other_hops": {"type": "integer", "description": "Cells left out: they are of other hops."},
}


@lists.register(router, "/evidence", row_schema({}, _EVIDENCE), csv=False)
def evidence(
    request: Request,
    edge: EdgeOf,
    topic: TopicOf,
    window: WindowOf,
    limit: Annotated[int, Query(ge=1, le=1000, description="Rows of each list.")] = 500,
) -> Response:
    """About one window: ``verdicts`` (the effective one first) whose ``cells`` name what is
    missing, where it is ``located``, the ``copies`` and blocks; both sides; ``reporters``; what
    happened (``incidents``), the revisions (``history``), and ``repairs``. Each list has ``limit``
    rows at most, and is bounded in bytes; ``left_out`` says how many there are besides, and
    ``/cells`` gives all cells of a window in pages."""
    with api_of(request).store.read() as connection:
        found = _evidence(connection, edge, topic, window, limit)
    return Answer(asdict(window_evidence.shown_evidence(found)))


def _evidence(connection: Connection, edge: str, topic: str, window: int, limit: int) -> Evidence:
    found = window_evidence.evidence(connection, edge, topic, window, limit)
    if not found.verdicts:
        raise Problem(
            404,
            f"there is no verdict on {edge}, topic {topic}, window {window}",
            "list them: /api/v1/audit/verdicts",
        )
    return found


def _verdicts(found: Evidence) -> Sequence[Row]:
    return found.verdicts


def _cells(found: Evidence) -> Sequence[Row]:
    """Those of the verdicts, then those of before."""
    named = [(row["source"], cell) for row in found.verdicts for cell in row["cells"] or ()]
    named += [("then", cell) for cell in (found.was.cells if found.was is not None else ())]
    return [{"source": source, **cell} for source, cell in named]


def _lacking(fields: Fields) -> Fields:
    """The same fields, each of which may be null."""
    return {name: replace(one, may_lack=True) for name, one in fields.items()}


@dataclass(frozen=True, slots=True)
class Part:
    """A list of the evidence: what it is, the fields of a row, its name in ``left_out`` ("": it is
    whole), and its rows."""

    told: str
    fields: Fields
    left_out: str
    rows: Callable[[Evidence], Sequence[Row]]


_SOURCE: Final[Fields] = {
    "source": text("Who judged: collector or spark; then: as it was at its worst.")
}
_COUNTED: Final = _lacking(counted_fields.EITHER)
PARTS: Final[Mapping[str, Part]] = {
    "verdicts": Part("its verdicts, the effective one first", VERDICT, "", _verdicts),
    "cells": Part(
        "the runs that its verdicts name, the worst first, then those of its worst time",
        {**_SOURCE, **_lacking(counted_fields.JUDGED_CELL)},
        "cells",
        _cells,
    ),
    "upstream": Part(
        "what was counted or claimed upstream", _COUNTED, "upstream", lambda it: it.upstream
    ),
    "downstream": Part(
        "what was counted or reported downstream", _COUNTED, "downstream", lambda it: it.downstream
    ),
    "history": Part(
        "the revisions of its verdicts, the earliest first",
        REVISION,
        "history",
        lambda it: it.history,
    ),
    "log-events": Part(
        "what happened to the logs of its topic, the earliest first",
        happened_fields.LOG_EVENT,
        "incidents",
        lambda it: it.incidents,
    ),
    "repairs": Part(
        "what repairs did, the earliest first",
        happened_fields.REPAIR,
        "repairs",
        lambda it: it.repairs,
    ),
    "reporters": Part("who reports on its topic", REPORTER, "reporters", lambda it: it.reporters),
}
"""The lists of the evidence, by the end of their path."""
_LEFT_OUT: Final[Fields] = {"left_out": number("How many rows are left out.")}


def _add(name: str, part: Part) -> None:
    """The route of one list, as JSON and as CSV."""
    listing = Listing(f"window_{name.replace('-', '_')}", part.fields, {})

    def answer(request: Request, edge: EdgeOf, topic: TopicOf, window: WindowOf) -> Response:
        with api_of(request).store.read() as connection:
            found = _evidence(connection, edge, topic, window, MAX_EVIDENCE)
        shown = window_evidence.shown_evidence(found)
        more = shown.left_out.get(part.left_out, 0)
        rows = [{each: row.get(each) for each in part.fields} for row in part.rows(shown)]
        return lists.answer_whole(request, listing, rows, {"left_out": more}, more)

    answer.__name__ = listing.name
    answer.__doc__ = f"Of one window: {part.told}. At most {MAX_EVIDENCE:,} rows."
    lists.route(router, f"/evidence/{name}", listing, _LEFT_OUT)(answer)


for _name, _part in PARTS.items():
    _add(_name, _part)


_STEP: Final[Fields] = {
    "text": text("What to do."),
    "command": text("A line for a shell that does it; empty: there is none."),
}
_WHY: Final[Fields] = {
    "count": number("So many messages."),
    "reason": text("Why they cannot be repaired."),
}
_REPAIRABILITY: Final = row_schema(
    {
        "of": number("Messages that are missing."),
        "repairable": number("Those that can be repaired, as far as is known."),
        "unsure": number("Those of them for which upstream was not searched yet."),
        "saved": number("Those of them that are among what brokers saved before they cut it."),
        "left": listed("What else is wrong with the window, and why it stays as it is."),
        "tell": listed("Messages to send, each with its addressee."),
        "starts_of": text("The cluster whose logs have to hold them yet; empty: none."),
        "starts_at": time("When it was read where these logs begin (0: never, so not known),"),
    },
    {"others": rows_schema(_WHY, "The rest."), "steps": rows_schema(_STEP, "In this order.")},
)


@lists.register(router, "/repairability", _REPAIRABILITY, csv=False)
def repairability(
    request: Request,
    edge: EdgeOf,
    topic: TopicOf,
    window: WindowOf,
) -> Response:
    """How many of the missing messages of a window can be repaired, why the others cannot, the
    commands, and the readers to notify: from the store, and from where the logs upstream began when
    the dashboards last asked (``starts_at``). The plan (the first command) asks the clusters."""
    api = api_of(request)
    with api.store.read() as connection:
        found = _evidence(connection, edge, topic, window, MAX_EVIDENCE)
        edges = [one.edge for one in known_edges(connection)]
        hop = window_evidence.edge_of(edges, edge)
        told = repairable.repairability(
            connection, api.deployment, hop, found, now_ms(), api.settings, api.log_starts
        )
    return Answer(asdict(told))
