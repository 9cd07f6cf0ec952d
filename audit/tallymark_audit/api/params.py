"""The parameters of a request. All of them are bounded, and an error names what would be
accepted."""

from __future__ import annotations

import base64
import binascii
import json
import re
from contextlib import suppress
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, Path, Query
from pydantic import AfterValidator, BeforeValidator, StringConstraints, WithJsonSchema

from tallymark.errors import UserError
from tallymark_audit.api.problems import Problem
from tallymark_audit.model.time_format import LARGEST, TIME_FORMS, parse_time

LAST_MS: Final = 253_402_300_799_999
"""The last ms of the year 9999."""
LONGEST_WAIT_S: Final = 300.0
MAX_NAME: Final = 300
MAX_CURSOR: Final = 2000
MOST_SKIPPED: Final = 1_000_000
_WAIT: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|)", re.ASCII)
_SPAN: Final = re.compile(r"(\d{1,11})(ms|s|m|h|d|)", re.ASCII)
_SPANS: Final = {"ms": 1, "": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNITS: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0}


def moment(value: object) -> int:
    """A time as ms UTC. ValueError: it is none, or beyond the year 9999."""
    try:
        found = parse_time(str(value))
    except UserError as error:
        raise ValueError(str(error)) from None
    if found > LAST_MS:
        raise ValueError(f"{str(value)[:50]} is too late: give {TIME_FORMS}, or ms")
    return found


def name(value: str) -> str:
    """A name as it may be asked for: strangers choose names, so any text that a store can hold.
    ValueError: none can hold it."""
    if not is_storable(value):
        raise ValueError("no name has a NUL or a half of a surrogate pair in it")
    return value


def is_storable(value: str) -> bool:
    """Whether a store can hold the text: it has no NUL, and can be encoded."""
    return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)


def seconds(value: object) -> float:
    """``60s``, ``2m``, ``500ms`` or a number of seconds. ValueError: it is none, or too long."""
    found = _WAIT.fullmatch(str(value))
    if found is None:
        raise ValueError("give a duration such as 60s, 2m or 500ms")
    wait = float(found[1]) * _UNITS[found[2]]
    if wait > LONGEST_WAIT_S:
        raise ValueError(f"at most {LONGEST_WAIT_S:g}s; ask again after that")
    return wait


def span(value: object) -> int:
    """``10m``, ``1h``, ``1d``, ``500ms`` or a number of ms, as ms. ValueError: it is none, or not
    between 1 ms and 366 days."""
    found = _SPAN.fullmatch(str(value))
    if found is None:
        raise ValueError("give a duration such as 10m, 1h or 1d")
    length = int(found[1]) * _SPANS[found[2]]
    if not 0 < length <= 366 * _SPANS["d"]:
        raise ValueError("give a duration from 1ms to 366d")
    return length


Moment = Annotated[
    int,
    BeforeValidator(moment),
    WithJsonSchema({"type": "string", "examples": ["2026-01-31T12:40:00Z", "1769863200000"]}),
]
Wait = Annotated[
    float,
    BeforeValidator(seconds),
    WithJsonSchema({"type": "string", "examples": ["60s", "2m", "500ms"]}),
]
Text = Annotated[str, AfterValidator(name)]
Name = Annotated[Text, Query(min_length=1, max_length=MAX_NAME)]

_TIME = "ISO 8601, UTC where it names no zone; or ms since 1970."
From = Annotated[
    Moment | None, Query(alias="from", description=f"Windows that start then or later. {_TIME}")
]
To = Annotated[Moment | None, Query(alias="to", description=f"Windows that start before. {_TIME}")]
Bucket = Annotated[
    Annotated[
        int,
        BeforeValidator(span),
        WithJsonSchema({"type": "string", "examples": ["10m", "1h", "1d"]}),
    ]
    | None,
    Query(description="How long a bucket is; else so long that there are 200 of them at most."),
]
Since = Annotated[
    Moment | None, Query(alias="from", description=f"What began then or later. {_TIME}")
]
Until = Annotated[Moment | None, Query(alias="to", description=f"What began before. {_TIME}")]
Find = Annotated[
    Text,
    Query(max_length=MAX_NAME, description="Only with this in the name of the topic or the edge."),
]
Names = Annotated[
    list[Annotated[Text, StringConstraints(max_length=MAX_NAME)]],
    Query(max_length=20, description="Only these."),
]
EdgeName = Annotated[
    Text | None,
    Query(max_length=MAX_NAME, description="Only this edge, as in producer-to-dc1."),
]
TopicName = Annotated[
    Text | None,
    Query(max_length=MAX_NAME, description="Only this topic, as it is called upstream."),
]
ClusterName = Annotated[Text | None, Query(max_length=MAX_NAME, description="Only this cluster.")]
Limit = Annotated[
    int | None,
    Query(
        ge=1,
        le=1000,
        description="At most so many in one answer; else as JSON 100, as CSV all (100,000).",
    ),
]
Cursor = Annotated[
    str,
    Query(max_length=MAX_CURSOR, description="The next of the answer before, to go on after it."),
]


class Asked(NamedTuple):
    """Which part of a list."""

    limit: int | None = None
    cursor: str = ""


class Period(NamedTuple):
    """From ``start`` up to ``end`` (ms, excluded); None is without an end."""

    start: int | None = None
    end: int | None = None


async def _asked(limit: Limit = None, cursor: Cursor = "") -> Asked:
    return Asked(limit, cursor)


async def _windows(start: From = None, end: To = None) -> Period:
    return Period(start, end)


async def _times(start: Since = None, end: Until = None) -> Period:
    return Period(start, end)


Paged = Annotated[Asked, Depends(_asked)]
Windows = Annotated[Period, Depends(_windows)]
Times = Annotated[Period, Depends(_times)]
EdgePath = Annotated[
    str, Path(max_length=MAX_NAME, description="The edge, as in dc1-to-aggregate.")
]
TopicPath = Annotated[Text, Path(max_length=MAX_NAME, description="The topic, as upstream has it.")]


def cursor_of(key: list[Any]) -> str:
    """Where an answer ended, for the next request."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def cell_key_of(cursor: str) -> list[Any]:
    """Where a page of cells ended: behind a window, ``[window]``, or behind a cell of it."""
    for kinds in ((int,), (int, int, str, str, str, int)):
        with suppress(Problem):
            return key_of(cursor, *kinds) or []
    raise Problem(422, "the cursor is not one that was given here", "begin without a cursor")


def key_of(cursor: str, *kinds: type) -> list[Any] | None:
    """The inverse of :func:`cursor_of`, None for none; 422 where it is not one of ours."""
    if not cursor:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        key = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
    except (ValueError, binascii.Error, RecursionError):
        key = None
    if (
        isinstance(key, list)
        and len(key) == len(kinds)
        and all(type(part) is kind for part, kind in zip(key, kinds, strict=True))
        and all(abs(part) <= LARGEST for part in key if isinstance(part, int))
        and all(is_storable(part) for part in key if isinstance(part, str))
    ):
        return key
    raise Problem(422, "the cursor is not one that was given here", "begin without a cursor")
