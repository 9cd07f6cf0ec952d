"""Bring the tables of an older version up to date. Columns and tables are only ever added, so what
an older program wrote is kept, with the values that say "not known"."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Column, Connection, Table, inspect, literal
from sqlalchemy.schema import ColumnDefault, CreateColumn

from tallymark_audit.store import tables

OLDEST = 1
"""The oldest version that can be brought up to date."""


def migrate(connection: Connection) -> None:
    """Add the columns that the tables of version :data:`OLDEST` or later lack. New tables are made
    by ``create_all`` before."""
    found = inspect(connection)
    for table in tables.metadata.sorted_tables:
        there = {column["name"] for column in found.get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                _add(connection, table, column)


def _add(connection: Connection, table: Table, column: Column[Any]) -> None:
    """With a default of the database's own: the rows that are there need a value."""
    dialect = connection.dialect
    default = column.default.arg if isinstance(column.default, ColumnDefault) else ""
    value = "[]" if isinstance(column.type, JSON) else default
    shown = literal(value).compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    name = dialect.identifier_preparer.format_table(table)
    described = CreateColumn(column).compile(dialect=dialect)
    connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {described} DEFAULT {shown}")
