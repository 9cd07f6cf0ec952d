"""What was judged: topics, verdicts, and the cells that were counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from tallymark.clock import now_ms
from tallymark_audit.api import counted_fields, lists, params
from tallymark_audit.api.fields import (
    SUMMARY,
    VERDICT,
    row_schema,
    rows_schema,
)
from tallymark_audit.api.lists import Listing, Page
from tallymark_audit.api.problems import Answer, AuditRoute
from tallymark_audit.api.state import api_of
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.time_format import LARGEST
from tallymark_audit.store.reading import paging, queries
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.shown import shown_verdict

MAX_WINDOWS: Final = 100
"""Windows of cells in one answer ..."""
MAX_CELLS: Final = 5_000
"""... and cells."""
MAX_TOPICS: Final = 10_000
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
