"""INSERT ... ON CONFLICT DO UPDATE, which SQLite and PostgreSQL spell alike but SQLAlchemy does
not offer in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

Row = dict[str, Any]


def upsert(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    """Write the rows, each new or in place of the one with its primary key. All rows have the same
    columns."""
    rows = list(rows)
    if not rows:
        return
    connection.execute(statement_for(connection.dialect.name, table, list(rows[0])), rows)


def statement_for(dialect: str, table: Table, columns: Sequence[str]) -> Any:
    """The statement that writes these columns, in the words of a dialect."""
    keys = [column.name for column in table.primary_key.columns]
    values = [name for name in columns if name not in keys]
    statement = (postgresql if dialect == "postgresql" else sqlite).insert(table)
    if not values:
        return statement.on_conflict_do_nothing(index_elements=keys)
    return statement.on_conflict_do_update(
        index_elements=keys, set_={name: statement.excluded[name] for name in values}
    )
