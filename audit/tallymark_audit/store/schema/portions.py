"""Portions of what the store holds, bounded in rows and bytes: a writer of large values must not
make a response large. The reader gets the number of rows left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select

from tallymark_audit.store.schema.rows import Row

MOST_ROWS: Final = 1_000
MOST_BYTES: Final = 4 << 20
"""Of one list of an answer, about, as JSON; but its first row is always there."""
_NUMBER: Final = 8
"""Bytes of a number in JSON, about."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows, and how many there are besides."""

    rows: tuple[Row, ...]
    left_out: int = 0


def portion(
    connection: Connection, query: Select[Any], most: int = MOST_ROWS, most_bytes: int = MOST_BYTES
) -> Portion:
    """The first rows of a query."""
    found = connection.execute(query.limit(most + 1))
    names = tuple(found.keys())
    rows = (dict(zip(names, row, strict=True)) for row in found)
    kept, more = first_of(rows, most, most_bytes)
    found.close()
    if not more:
        return Portion(tuple(kept))
    everything = query.order_by(None).subquery()
    number = connection.scalar(select(func.count()).select_from(everything)) or 0
    return Portion(tuple(kept), max(0, number - len(kept)))


def portion_of(rows: Sequence[Row], most: int = MOST_ROWS, most_bytes: int = MOST_BYTES) -> Portion:
    """The first of these rows."""
    kept, _ = first_of(rows, most, most_bytes)
    return Portion(tuple(kept), len(rows) - len(kept))


def first_of(rows: Iterable[Row], most: int, most_bytes: int) -> tuple[list[Row], bool]:
    """So many rows of so many bytes at most, and whether there are more."""
    kept: list[Row] = []
    size = 0
    for row in rows:
        size += size_of(row)
        if len(kept) == most or (kept and size > most_bytes):
            return kept, True
        kept.append(row)
    return kept, False


def size_of(value: Any) -> int:
    """The bytes of a value as JSON, about."""
    if isinstance(value, str):
        return len(value) + 3
    if isinstance(value, Mapping):
        return sum(len(name) + 4 + size_of(one) for name, one in value.items())
    if isinstance(value, list | tuple):
        if value and isinstance(value[0], int):  # ranges: mostly all there is
            return _NUMBER * len(value) + 2
        return 2 + sum(map(size_of, value))
    return _NUMBER
