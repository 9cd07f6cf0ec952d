"""Lists: as JSON a page with a cursor, as CSV all of it up to a bound.

CSV is asked for by ``Accept: text/csv`` or by ``.csv`` behind the path. It is read page after page,
each in a snapshot of its own, and sent as it is read, so its length does not matter to the server.
What is beyond :data:`MOST_LINES` is left out, and a last line that begins with ``#`` says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from sqlalchemy import Connection

from tallymark_audit.api import csv_text, params
from tallymark_audit.api.fields import Fields, rows_schema
from tallymark_audit.api.problems import PROBLEMS, Answer
from tallymark_audit.api.state import api_of
from tallymark_audit.store.schema.rows import Row

ROWS: Final = 100
"""Rows of a page where none are asked for ..."""
AT_ONCE: Final = 1000
"""... and of a page that CSV reads."""
MOST_LINES: Final = 100_000
"""Rows of one answer in CSV."""
CSV: Final = "text/csv"
_CSV_TYPE: Final = f"{CSV}; charset=utf-8"
Key = Sequence[Any]
F = TypeVar("F", bound=Callable[..., Any])
W = TypeVar("W")


class Page(NamedTuple):
    """Rows, and the key behind which the next page begins; None: there is none."""

    rows: list[Row]
    after: Key | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A list: its name in JSON, the fields of a row, and those of them that a cursor holds, with
    their types."""

    name: str
    fields: Fields
    key: Mapping[str, type]

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """What a cursor holds of a row."""
        return tuple(row[name] for name in self.key)

    def page(self, rows: list[Row], limit: int) -> Page:
        """Rows in the order of the key, ``limit`` of them at most; where there are as many, there
        may be more."""
        more = limit and len(rows) >= limit
        return Page(rows, self.key_of(rows[-1]) if more else None)


Read = Callable[[Connection, Any, int], Page]
"""Reads the page behind a key (None: the first), with a limit."""
Rows = Callable[[Connection, Any, int], list[Row]]
"""Reads so many rows at most behind a key (a tuple; None: from the first row on), in its order."""
Source = Callable[[], AbstractContextManager[Any]]
"""Opens what a page is read from."""


def route(
    router: APIRouter, path: str, listing: Listing, extra: Fields | None = None
) -> Callable[[F], F]:
    """Registers a function for the path and for the path with ``.csv``. ``extra``: what the answer
    has beside the list."""
    beside = {name: one.schema() for name, one in (extra or {}).items()}
    cursor = {"type": ["string", "null"], "description": "The cursor of the next page, or null."}
    properties = {listing.name: rows_schema(listing.fields), "next": cursor, **beside}
    schema = {"type": "object", "required": sorted(properties), "properties": properties}
    return register(router, path, schema)


def register(
    router: APIRouter, path: str, schema: Mapping[str, Any], csv: bool = True
) -> Callable[[F], F]:
    """The same, for an answer of that schema; ``csv`` False: it is no list."""
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if csv:
        content[CSV] = {"schema": {"type": "string"}}
    told: dict[int | str, dict[str, Any]] = {
        200: {"description": "What was asked for.", "content": content},
        304: {"description": "As the ETag says that the client has it."},
        **PROBLEMS,
    }

    def decorate(function: F) -> F:
        router.add_api_route(path, function, methods=["GET"], responses=told)
        if csv:
            router.add_api_route(f"{path}.csv", function, include_in_schema=False)
        return function

    return decorate


def answer(
    request: Request,
    listing: Listing,
    rows: Rows,
    asked: params.Asked,
    beside: Callable[[Connection], Mapping[str, Any]] = lambda _: {},
    limit: int = ROWS,
) -> Response:
    """The rows that were asked for, as many as ``limit`` where that is not said. ``beside``: what
    JSON has beside the list."""

    def read(connection: Connection, after: Key | None, most: int) -> Page:
        key = tuple(after) if after is not None else None
        return listing.page(rows(connection, key, most), most)

    return answer_page(request, listing, read, asked, beside, limit)


def by_number(page: Callable[[Connection, W, int | None, int], list[Row]], which: W) -> Rows:
    """Reads rows whose key is their number."""

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        return page(connection, which, key[0] if key else None, most)

    return read


def answer_rows(
    request: Request, listing: Listing, rows: Sequence[Row], asked: params.Asked
) -> Response:
    """The same for rows that are in memory: the store is not read."""
    ordered = sorted(rows, key=listing.key_of)

    def read(_: Any, after: Key | None, most: int) -> Page:
        begin = bisect_right(ordered, tuple(after), key=listing.key_of) if after else 0
        return listing.page(ordered[begin : begin + most], most)

    return answer_page(request, listing, read, asked, source=nullcontext)


def answer_whole(
    request: Request,
    listing: Listing,
    rows: Sequence[Row],
    beside: Mapping[str, Any] | None = None,
    left_out: int = 0,
) -> Response:
    """The same for a list that was read whole, within bounds of its own: there is one page.
    ``left_out``: how many rows are beyond these bounds; CSV says it in a last line."""
    if not wants_csv(request):
        return varying(Answer({listing.name: rows, "next": None, **(beside or {})}))
    text = csv_text.head(listing.fields) + csv_text.lines(listing.fields, rows)
    if left_out:
        text += csv_text.note(f"the first {len(rows):,} rows; {left_out:,} more are left out")
    return varying(Response(text, headers=_attached(listing), media_type=_CSV_TYPE))


def answer_page(
    request: Request,
    listing: Listing,
    read: Read,
    asked: params.Asked,
    beside: Callable[[Connection], Mapping[str, Any]] = lambda _: {},
    limit: int = ROWS,
    source: Source | None = None,
) -> Response:
    """The same for a list that says itself where its next page begins. ``source``: what it is read
    from, else the store."""
    after = params.key_of(asked.cursor, *listing.key.values())
    opened = source or api_of(request).store.read
    if wants_csv(request):
        return as_csv(request, listing, read, after, asked.limit, opened)
    with opened() as connection:
        page = read(connection, after, asked.limit or limit)
        extra = beside(connection)
    more = params.cursor_of(list(page.after)) if page.after is not None else None
    return varying(Answer({listing.name: page.rows, "next": more, **extra}))


def as_csv(
    request: Request,
    listing: Listing,
    read: Read,
    after: Key | None,
    limit: int | None,
    source: Source | None = None,
) -> Response:
    """All rows from there on, or ``limit`` of them: then the header ``Link`` names the next page.
    Whatever is one page is sent at once, with a tag."""
    opened = source or api_of(request).store.read
    most = limit or MOST_LINES
    with opened() as connection:
        first = read(connection, after, min(AT_ONCE, most))
    headers = _attached(listing)
    start = csv_text.head(listing.fields) + csv_text.lines(listing.fields, first.rows)
    if first.after is not None and limit:
        headers["Link"] = f'<?{following(request, first.after)}>; rel="next"'
    if first.after is None or limit:
        return varying(Response(start, headers=headers, media_type=_CSV_TYPE))
    rest = _rest(opened, listing, read, first, most)
    return varying(StreamingResponse(_chain(start, rest), headers=headers, media_type=_CSV_TYPE))


def wants_csv(request: Request) -> bool:
    """Whether the answer is to be CSV: by the path, or by a preference over JSON."""
    if request.url.path.endswith(".csv"):
        return True
    wanted = dict(_accepted(request.headers.get("accept", "")))
    return wanted.get(CSV, 0.0) > wanted.get("application/json", 0.0)


def following(request: Request, after: Key) -> str:
    """The query of the page behind a key."""
    return request.url.include_query_params(cursor=params.cursor_of(list(after))).query


def varying(response: Response) -> Response:
    """The same address has two forms."""
    response.headers["Vary"] = "Accept"
    return response


def _attached(listing: Listing) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="tallymark-{listing.name}.csv"'}


def _chain(start: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield start
    yield from rest


def _rest(opened: Source, listing: Listing, read: Read, page: Page, most: int) -> Iterator[bytes]:
    count = len(page.rows)
    while page.after is not None and count < most:
        with opened() as connection:
            page = read(connection, page.after, min(AT_ONCE, most - count))
        count += len(page.rows)
        yield csv_text.lines(listing.fields, page.rows)
    if page.after is not None:
        more = params.cursor_of(list(page.after))
        yield csv_text.note(f"the first {count:,} rows; the others: cursor={more}")


def _accepted(header: str) -> Iterator[tuple[str, float]]:
    """Media types and how much each is wanted; what makes no sense is not wanted."""
    for part in header.lower().split(","):
        kind, *options = (one.strip() for one in part.split(";"))
        share = 1.0
        for option in options:
            if option.startswith("q="):
                share = _share(option[2:])
        yield kind, share


def _share(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 0.0
