"""Bring the tables of an older version up to date. Columns and tables are only ever added, so what
an older program wrote is kept, with the values that say "not known". A table whose key has changed
is made anew and filled from the old one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Column, Connection, Table, inspect, literal
from sqlalchemy.schema import ColumnDefault, CreateColumn

from tallymark_audit.store.schema import tables

OLDEST = 1
"""The oldest version that can be brought up to date."""


def migrate(connection: Connection) -> None:
    """Add the columns and indexes that the tables of version :data:`OLDEST` or later lack. New
    tables are made by ``create_all`` before. All within the caller's transaction: it is done or it
    is not."""
    for table in tables.metadata.sorted_tables:
        there = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                _add(connection, table, column)
        key = inspect(connection).get_pk_constraint(table.name)["constrained_columns"]
        if set(key) != {column.name for column in table.primary_key.columns}:
            _make_anew(connection, table)
        for index in table.indexes:
            index.create(connection, checkfirst=True)


def _add(connection: Connection, table: Table, column: Column[Any]) -> None:
    """With a default of the database's own: the rows that are there need a value."""
    dialect = connection.dialect
    default = column.default.arg if isinstance(column.default, ColumnDefault) else ""
    value = "[]" if isinstance(column.type, JSON) else default
    shown = literal(value).compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    name = dialect.identifier_preparer.format_table(table)
    described = CreateColumn(column).compile(dialect=dialect)
    connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {described} DEFAULT {shown}")


def _make_anew(connection: Connection, table: Table) -> None:
    name = connection.dialect.identifier_preparer.format_table(table)
    for index in table.indexes:
        index.drop(connection, checkfirst=True)
    old = f"{table.name}_before"
    connection.exec_driver_sql(f"ALTER TABLE {name} RENAME TO {old}")
    if connection.dialect.name == "postgresql":  # the key keeps its name, which the new one needs
        connection.exec_driver_sql(f"ALTER INDEX {table.name}_pkey RENAME TO {old}_pkey")
    table.create(connection)
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    connection.exec_driver_sql(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {old}")
    connection.exec_driver_sql(f"DROP TABLE {old}")
