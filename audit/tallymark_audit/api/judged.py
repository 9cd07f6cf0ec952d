"""What was judged: topics, verdicts, the cells and the evidence of a window, and what of it can be
repaired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from tallymark.clock import now_ms
from tallymark_audit.api import counted_fields, happened_fields, lists, params
from tallymark_audit.api.fields import (
    REPORTER,
    SUMMARY,
    VERDICT,
    Fields,
    listed,
    number,
    row_schema,
    rows_schema,
    text,
    time,
)
from tallymark_audit.api.lists import Listing, Page
from tallymark_audit.api.problems import Answer, AuditRoute, Problem
from tallymark_audit.api.state import api_of
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.time_format import LARGEST
from tallymark_audit.repair import repairable
from tallymark_audit.store.judged.graph import known_edges
from tallymark_audit.store.reading import paging, queries, window_evidence
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.shown import shown_verdict

MAX_WINDOWS: Final = 100
"""Windows of cells in one answer ..."""
MAX_CELLS: Final = 5_000
"""... and cells."""
MAX_TOPICS: Final = 10_000
MAX_EVIDENCE: Final = 1_000
"""Cells that are looked at for what can be repaired."""
router = APIRouter(route_class=AuditRoute, default_response_class=Answer)
OVERVIEW = Listing("overview", SUMMARY, {"edge": str, "topic": str})
VERDICTS = Listing("verdicts", VERDICT, {"window": int, "edge": str, "topic": str})


@lists.register(router, "/overview", rows_schema(SUMMARY))
def overview(
    request: Request,
    start: params.From = None,
    limit: Annotated[
        int, Query(ge=1, le=MAX_TOPICS, description="At most so many in one answer.")
    ] = MAX_TOPICS,
    cursor: params.Cursor = "",
) -> Response:
    """Every topic on every edge: windows by state, sums in messages, how far it is complete (ms).

    ``through`` and ``horizon`` are -1 where there is no watermark yet. Where there is more than
    ``limit``, the header ``Link`` names the next page (``rel="next"``)."""
    key = params.key_of(cursor, str, str)
    after = (key[0], key[1]) if key else None
    with api_of(request).store.read() as connection:
        found = queries.overview(connection, start, now_ms(), after, limit + 1)
    rows = [asdict(one) for one in found[:limit]]
    more = [found[limit - 1].edge, found[limit - 1].topic] if len(found) > limit else None
    if lists.wants_csv(request):
        return lists.as_csv(request, OVERVIEW, lambda *_: Page(rows, more), None, limit)
    answer = lists.varying(Answer(rows))
    if more:
        url = request.url.include_query_params(cursor=params.cursor_of(more), limit=limit)
        answer.headers["Link"] = f'<?{url.query}>; rel="next"'
    return answer


@lists.route(router, "/verdicts", VERDICTS)
def verdicts(
    request: Request,
    asked: params.Paged,
    period: params.Windows,
    edge: params.EdgeName = None,
    topic: params.TopicName = None,
    state: Annotated[list[State], Query(description="Only these states.")] = [],  # noqa: B006
) -> Response:
    """The effective verdict of each window, newest window first, in ``verdicts``; ``next`` is the
    cursor of the next page, null on the last. Counts are messages, times ms. While a window is not
    decided, messages that have not arrived are ``pending``, and none is ``missing``."""
    which = paging.Which(edge, topic, [str(one) for one in state], *period)

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        return [shown_verdict(row) for row in paging.verdict_page(connection, which, key, most)]

    return lists.answer(request, VERDICTS, read, asked)


Tier = Literal["producer", "cluster", "consumer", "lake"]
_CELLS: Final = {
    "cells": rows_schema(
        counted_fields.CELL, "What was counted, or claimed.", counted_fields.EITHER
    ),
    "next": {"type": ["string", "null"], "description": "The cursor of the next page, or null."},
}


@lists.register(router, "/cells", row_schema({}, _CELLS))
def cells(
    request: Request,
    cluster: Annotated[params.Name, Query(description="Where it was counted or reported.")],
    topic: Annotated[params.Name, Query(description="The topic.")],
    period: params.Windows,
    tier: Annotated[
        Tier, Query(description="Who counted: producers, the collector, consumers, loads.")
    ] = "cluster",
    windows: Annotated[
        int, Query(ge=1, le=MAX_WINDOWS, description="At most so many windows in one answer.")
    ] = 10,
    cursor: params.Cursor = "",
) -> Response:
    """What was counted of each producer run in each window, oldest window first, so many cells a
    page. ``ranges``, ``accepted`` and the like are sequences as flat ranges: first, last, first,
    last. Latencies are sketches of ms, hashes of 64 bits may need more than a double holds."""
    key = params.cell_key_of(cursor)

    def read(connection: Connection, after: Sequence[Any], most: int) -> Page:
        first = after[0] + (len(after) == 1) if after else period.start or -LARGEST
        last = LARGEST if period.end is None else period.end
        found = paging.cell_windows(connection, cluster, topic, tier, first, last, windows)
        page = paging.cell_page(
            connection, cluster, topic, tier, found, list(after or ())[1:], most
        )
        return Page(page.rows, page.after or ([found[-1]] if len(found) == windows else None))

    if lists.wants_csv(request):
        fields = counted_fields.OBSERVED if tier == "cluster" else counted_fields.CLAIMED
        return lists.as_csv(request, Listing("cells", fields, {}), read, key, None)
    with api_of(request).store.read() as connection:
        page = read(connection, key, MAX_CELLS)
    more = params.cursor_of(list(page.after)) if page.after else None
    return lists.varying(Answer({"cells": page.rows, "next": more}))


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
    "history": rows_schema(
        {name: one for name, one in VERDICT.items() if name != "accepted_by"}, "The revisions."
    ),
    "incidents": rows_schema(happened_fields.LOG_EVENT, "What happened to the logs."),
    "repairs": rows_schema(happened_fields.REPAIR, "What repairs did."),
    "left_out": {"type": "object", "description": "How many rows are left out, by list."},
    "was": {**_WAS, "type": ["object", "null"], "description": "What was wrong, if it is better."},
    "other_hops": {"type": "integer", "description": "Cells left out: they are of other hops."},
}


@lists.register(router, "/evidence", row_schema({}, _EVIDENCE), csv=False)
def evidence(
    request: Request,
    edge: Annotated[params.Name, Query(description="The edge, as in producer-to-dc1.")],
    topic: Annotated[params.Name, Query(description="The topic, as it is called upstream.")],
    window: Annotated[params.Moment, Query(description="The start of the window.")],
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


def _evidence(
    connection: Connection, edge: str, topic: str, window: int, limit: int
) -> window_evidence.Evidence:
    found = window_evidence.evidence(connection, edge, topic, window, limit)
    if not found.verdicts:
        raise Problem(
            404,
            f"there is no verdict on {edge}, topic {topic}, window {window}",
            "list them: /api/v1/audit/verdicts",
        )
    return found


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
    edge: Annotated[params.Name, Query(description="The edge, as in producer-to-dc1.")],
    topic: Annotated[params.Name, Query(description="The topic, as it is called upstream.")],
    window: Annotated[params.Moment, Query(description="The start of the window.")],
) -> Response:
    """How many of the missing messages of a window can be repaired, why the others cannot, the
    commands, and who has to know: from the store, and from where the logs upstream began when the
    dashboards last asked (``starts_at``). The plan (the first command) asks the clusters."""
    api = api_of(request)
    with api.store.read() as connection:
        found = _evidence(connection, edge, topic, window, MAX_EVIDENCE)
        edges = [one.edge for one in known_edges(connection)]
        hop = window_evidence.edge_of(edges, edge)
        told = repairable.repairability(
            connection, api.deployment, hop, found, now_ms(), api.settings, api.log_starts
        )
    return Answer(asdict(told))
