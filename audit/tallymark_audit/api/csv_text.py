"""Rows as CSV (RFC 4180): lines end in CR LF, the first has the names of the columns. Pure.

Names were chosen by strangers, and a spreadsheet computes a cell that begins like a formula: such a
text gets an apostrophe in front (OWASP, "CSV injection"). Characters that do not print are escaped,
so a text is one line. Times are ISO 8601 in UTC, empty where there is none; lists are JSON.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from tallymark.untrusted import escaped
from tallymark_audit.api.fields import Field

FORMULAS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""What a formula begins with; spreadsheets also take the wide forms."""


def head(fields: Mapping[str, Field]) -> bytes:
    """The line of the names."""
    return _lines([list(fields)])


def lines(fields: Mapping[str, Field], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """A line a row; a column that a row does not have is empty."""
    return _lines([shown(row.get(name), one) for name, one in fields.items()] for row in rows)


def note(text: str) -> bytes:
    """A line that is no row."""
    return _lines([[f"# {text}"]])


def shown(value: Any, field: Field) -> str:
    """A value as the text of its cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return moment(value) if field.kind == "time" else str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return harmless(value)
    return harmless(json.dumps(value, separators=(",", ":"), default=str))


def harmless(text: str) -> str:
    """The text, which no spreadsheet takes for a formula."""
    told = escaped(text)
    return f"'{told}" if told.lstrip().startswith(FORMULAS) else told


def moment(ms: int) -> str:
    """``2026-01-31T12:40:05Z``, with ms where there are any; empty for 0 and less; a time beyond
    the calendar stays a number."""
    if ms <= 0:
        return ""
    try:
        at = datetime.fromtimestamp(ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(ms)
    rest = f".{ms % 1000:03}" if ms % 1000 else ""
    return f"{at:%Y-%m-%dT%H:%M:%S}{rest}Z"


def _lines(rows: Iterable[list[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode(errors="backslashreplace")
