"""A row that makes no sense, for any table of the audit store.

The columns that say what a row is about name the place that a test gives; all others hold what
their type can hold and nobody would write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Connection, Integer, LargeBinary, Table
from sqlalchemy.dialects.sqlite import insert

HUGE = 1 << 62
NUMBERS = (-HUGE, HUGE, -7)
LISTS: tuple[Any, ...] = (
    [9, 3, 1],
    {"absurd": [7, 3]},
    [[9, 3], "x", None],
    "no list",
    [[1, 2, 3, 4, 5, 6, 7]],
    [7, 3],
)


def absurd_row(table: Table, place: Mapping[str, Any], turn: int) -> dict[str, Any]:
    """A row about ``place``; ``turn`` 0, 1, 2, ... gives others."""
    row: dict[str, Any] = {}
    for at, column in enumerate(table.columns):
        if column.name in place:
            row[column.name] = place[column.name]
        elif column.name == "id":
            continue
        elif isinstance(column.type, JSON):
            row[column.name] = LISTS[(at + turn) % len(LISTS)]
        elif isinstance(column.type, Boolean):
            row[column.name] = bool(turn % 2)
        elif isinstance(column.type, BigInteger | Integer):
            row[column.name] = NUMBERS[(at + turn) % len(NUMBERS)]
        elif isinstance(column.type, LargeBinary):
            row[column.name] = b"\x00no archive"
        else:
            row[column.name] = "absurd \N{SNOWMAN} \\ %s"
    return row


def put(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    """Write it, in place of the row with its key if there is one."""
    keys = [column.name for column in table.primary_key.columns]
    statement = insert(table).values(**row)
    rest = {name: value for name, value in row.items() if name not in keys}
    if rest and all(key in row for key in keys):
        statement = statement.on_conflict_do_update(index_elements=keys, set_=rest)
    else:
        statement = statement.on_conflict_do_nothing()
    connection.execute(statement)
