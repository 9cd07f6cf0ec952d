"""The parameters of a request. All of them are bounded, and an error names what would be
accepted."""

from __future__ import annotations

import base64
import binascii
import json
import re
from contextlib import suppress
from typing import Annotated, Any, Final

from fastapi import Path, Query
from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from tallymark.errors import UserError
from tallymark_audit.api.problems import Problem
from tallymark_audit.model.time_format import LARGEST, TIME_FORMS, parse_time

LAST_MS: Final = 253_402_300_799_999
"""The last ms of the year 9999."""
LONGEST_WAIT_S: Final = 300.0
MAX_NAME: Final = 300
MAX_CURSOR: Final = 2000
_WAIT: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|)", re.ASCII)
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
    """A name as it may be asked for. ValueError: no store can hold it."""
    if not value.isprintable():
        raise ValueError("a name has no control characters")
    return value


def seconds(value: object) -> float:
    """``60s``, ``2m``, ``500ms`` or a number of seconds. ValueError: it is none, or too long."""
    found = _WAIT.fullmatch(str(value))
    if found is None:
        raise ValueError("give a duration such as 60s, 2m or 500ms")
    wait = float(found[1]) * _UNITS[found[2]]
    if wait > LONGEST_WAIT_S:
        raise ValueError(f"at most {LONGEST_WAIT_S:g}s; ask again after that")
    return wait


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
_Text = Annotated[str, AfterValidator(name)]
Name = Annotated[_Text, Query(min_length=1, max_length=MAX_NAME)]

_TIME = "ISO 8601, UTC where it names no zone; or ms since 1970."
From = Annotated[
    Moment | None, Query(alias="from", description=f"Windows that start then or later. {_TIME}")
]
To = Annotated[Moment | None, Query(alias="to", description=f"Windows that start before. {_TIME}")]
EdgeName = Annotated[
    _Text | None,
    Query(max_length=MAX_NAME, description="Only this edge, as in producer-to-dc1."),
]
TopicName = Annotated[
    _Text | None,
    Query(max_length=MAX_NAME, description="Only this topic, as it is called upstream."),
]
ClusterName = Annotated[_Text | None, Query(max_length=MAX_NAME, description="Only this cluster.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many in one answer.")]
Cursor = Annotated[
    str,
    Query(max_length=MAX_CURSOR, description="The next of the answer before, to go on after it."),
]
EdgePath = Annotated[
    str, Path(max_length=MAX_NAME, description="The edge, as in dc1-to-aggregate.")
]
TopicPath = Annotated[
    _Text, Path(max_length=MAX_NAME, description="The topic, as upstream has it.")
]


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
        and all(part.isprintable() for part in key if isinstance(part, str))
    ):
        return key
    raise Problem(422, "the cursor is not one that was given here", "begin without a cursor")
