"""How far an edge is complete, and waiting until it is."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import WATERMARK, row_schema
from tallymark_audit.api.lists import Listing
from tallymark_audit.api.problems import Answer, AuditRoute, Problem, away
from tallymark_audit.api.state import AuditApi, api_of
from tallymark_audit.api.waiting import TooManyWaitError
from tallymark_audit.store.reading import paging
from tallymark_audit.store.schema.rows import Row, holes_of

HOLE: Final = ("window", "state", "accepted")
MOST: Final = 1000
WATERMARKS = Listing("watermarks", WATERMARK, {"edge": str, "topic": str})
router = APIRouter(route_class=AuditRoute, default_response_class=Answer)


@lists.route(router, "/watermarks", WATERMARKS)
def watermarks(
    request: Request,
    asked: params.Paged,
    edge: params.EdgeName = None,
    topic: params.TopicName = None,
) -> Response:
    """Every watermark, by edge and topic, in ``watermarks``: all stamped before ``through`` (ms) is
    accounted for; up to ``horizon`` the absence of records can be trusted; ``holes`` are the
    windows below it that are not good. ``next`` is the cursor of the page after, or null."""

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        return [told(row) for row in paging.watermark_page(connection, edge, topic, key, most)]

    return lists.answer(request, WATERMARKS, read, asked, limit=MOST)


@lists.register(router, "/watermarks/{edge:path}/{topic}", row_schema(WATERMARK), csv=False)
async def watermark(
    request: Request,
    edge: params.EdgePath,
    topic: params.TopicPath,
    complete_through: Annotated[
        params.Moment | None, Query(description="The time that it has to be complete through.")
    ] = None,
    wait: Annotated[params.Wait, Query(description="Wait for that as long, at most 300s.")] = 0.0,
) -> Answer:
    """The watermark of a topic on an edge. With ``complete_through`` the answer says whether it is
    ``complete`` through that time, as soon as it is or when ``wait`` is over, whichever is first.

    For a scheduler: ask with ``wait=60s`` until ``complete`` is true."""
    api = api_of(request)
    row = await _read(api, edge, topic)
    if complete_through is not None and wait and not _is_complete(row, complete_through):
        await _wait(request, api, (edge, topic), complete_through, wait)
        row = await _read(api, edge, topic)
    if row is None:
        raise Problem(
            404,
            f"nothing is known of topic {topic} on edge {edge}",
            "see which there are: /api/v1/audit/watermarks",
        )
    answer = told(row)
    if complete_through is not None:
        answer["complete_through"] = complete_through
        answer["complete"] = _is_complete(row, complete_through)
    return Answer(answer)


def told(row: Row) -> dict[str, Any]:
    """A watermark as an answer has it."""
    return {**row, "holes": [dict(zip(HOLE, hole, strict=True)) for hole in holes_of(row)]}


async def _wait(
    request: Request, api: AuditApi, place: tuple[str, str], through: int, seconds: float
) -> None:
    gone = asyncio.ensure_future(_gone(request))
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(api.waits.until(place, through, gone), seconds)
    except TooManyWaitError:
        raise away("too many wait already") from None
    finally:
        gone.cancel()


async def _gone(request: Request) -> None:
    """Return when the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read(api: AuditApi, edge: str, topic: str) -> Row | None:
    def read() -> list[Row]:
        with api.store.read() as connection:
            return paging.watermarks_of(connection, [(edge, topic)])

    rows = await asyncio.to_thread(read)
    return rows[0] if rows else None


def _is_complete(row: Row | None, through: int) -> bool:
    return row is not None and row["through"] >= through
