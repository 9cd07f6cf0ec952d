"""INSERT ... ON CONFLICT DO UPDATE, which SQLite and PostgreSQL spell alike but SQLAlchemy does
not offer in common, and in portions that each is quick with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, LargeBinary, Table, TextClause, text
from sqlalchemy.schema import ColumnDefault

from tallymark_audit.store.schema.rows import Row

MANY: Final = 4
"""From so many rows on it is worth it to write them with one statement."""
AT_ONCE: Final = 5_000
"""Rows of one statement, some 2 MB."""
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


def upsert(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    """Write the rows, each new or in place of the one with its primary key. All rows have the same
    columns; of two with one key the later counts."""
    _write(connection, table, list(rows), replacing=True)


def add_up(
    connection: Connection,
    table: Table,
    rows: Iterable[Row],
    least: str = "",
    most: str = "",
) -> None:
    """Write the rows, or add their numbers to those of the rows that have their primary keys, which
    are different ones. All rows have every column. In the columns ``least`` and ``most`` the lower
    or greater number stays."""
    rows = list(rows)
    if connection.dialect.name == "postgresql":
        for start in range(0, len(rows), AT_ONCE):
            some = {"rows": dump_json(rows[start : start + AT_ONCE])}
            connection.execute(text(_adding(table, _records(table), least, most)), some)
    elif rows:  # past SQLAlchemy, which takes three times as long as the database
        names = [column.name for column in table.columns]
        marks = f"VALUES ({', '.join('?' * len(names))})"
        values = [tuple([row[name] for name in names]) for row in rows]
        connection.exec_driver_sql(_adding(table, marks, least, most), values)


@cache
def _adding(table: Table, values: str, least: str, most: str) -> str:
    keys = [column.name for column in table.primary_key.columns]

    def whole(name: str) -> str:
        mine, new = f'"{table.name}"."{name}"', f'excluded."{name}"'
        if name in (least, most):
            sign = "<" if name == least else ">"
            return f"CASE WHEN {new} {sign} {mine} THEN {new} ELSE {mine} END"
        return f"{mine} + {new}"

    others = [column.name for column in table.columns if column.name not in keys]
    return (
        f'INSERT INTO "{table.name}" ({_every(table)}) {values} '
        f"ON CONFLICT ({', '.join(map(_quoted, keys))}) "
        f"DO UPDATE SET {', '.join(f'{_quoted(name)} = {whole(name)}' for name in others)}"
    )


def insert_from(connection: Connection, table: Table, query: Any) -> None:
    """Write the rows of a query, whose columns have the names of the table's."""
    connection.execute(_from(connection.dialect.name, table, query))


def add_up_from(connection: Connection, table: Table, query: Any) -> None:
    """Write the rows of a query, or add their numbers to those of the rows that have their primary
    keys."""
    statement = _from(connection.dialect.name, table, query)
    keys = [column.name for column in table.primary_key.columns]
    values = [column.name for column in table.columns if column.name not in keys]
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=keys,
            set_={name: table.c[name] + statement.excluded[name] for name in values},
        )
    )


def _from(dialect: str, table: Table, query: Any) -> Any:
    names = [column.name for column in query.selected_columns]
    return _insert_of(dialect, table).from_select(names, query, include_defaults=False)


def insert_new(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    """Write those of the rows whose primary key is not there yet."""
    _write(connection, table, list(rows), replacing=False)


def dump_json(value: Any) -> str:
    """A value of a JSON column. Of ten in a row of a healthy cell nine are empty."""
    return "[]" if value == [] else _ENCODER.encode(value)


def load_json(text: str | bytes) -> Any:
    """The inverse of :func:`dump_json`."""
    return [] if text in ("[]", b"[]") else json.loads(text)


def _write(connection: Connection, table: Table, rows: list[Row], replacing: bool) -> None:
    if not rows:
        return
    columns, dialect = tuple(rows[0]), connection.dialect.name
    if dialect == "postgresql" and len(rows) >= MANY and not _has_bytes(table):
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            told = dump_json(_complete(table, columns, some))
            connection.execute(_recordset(table, columns, replacing), {"rows": told})
    else:
        connection.execute(statement_for(dialect, table, columns, replacing), rows)


def _complete(table: Table, columns: Sequence[str], rows: list[Row]) -> list[Row]:
    """The rows with every column, and each key once: one statement must not write it twice."""
    keys = [column.name for column in table.primary_key.columns]
    lacking = {
        column.name: column.default.arg if column.default.is_scalar else []
        for column in table.columns
        if column.name not in columns and isinstance(column.default, ColumnDefault)
    }
    last = {tuple(row[name] for name in keys): row for row in rows}
    return [{**lacking, **row} for row in last.values()]


@cache
def _recordset(table: Table, columns: Sequence[str], replacing: bool) -> TextClause:
    """One statement for many rows, which come as one JSON text: PostgreSQL takes it several times
    as fast as a statement a row."""
    keys = [column.name for column in table.primary_key.columns]
    values = [name for name in columns if name not in keys] if replacing else []
    setting = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in values)
    return text(
        f'INSERT INTO "{table.name}" ({_every(table)}) {_records(table)} '
        f"ON CONFLICT ({', '.join(map(_quoted, keys))}) "
        + (f"DO UPDATE SET {setting}" if values else "DO NOTHING")
    )


@cache
def _records(table: Table) -> str:
    """The rows of a statement, from one JSON text."""
    return (
        f"SELECT {_every(table)} "
        f'FROM json_populate_recordset(NULL::"{table.name}", CAST(:rows AS json))'
    )


@cache
def _every(table: Table) -> str:
    return ", ".join(_quoted(column.name) for column in table.columns)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _has_bytes(table: Table) -> bool:
    return any(isinstance(column.type, LargeBinary) for column in table.columns)


@cache
def statement_for(
    dialect: str, table: Table, columns: Sequence[str], replacing: bool = True
) -> Any:
    """The statement that writes these columns, in the dialect of the database."""
    keys = [column.name for column in table.primary_key.columns]
    values = [name for name in columns if name not in keys]
    statement = _insert_of(dialect, table)
    if not values or not replacing:
        return statement.on_conflict_do_nothing(index_elements=keys)
    return statement.on_conflict_do_update(
        index_elements=keys, set_={name: statement.excluded[name] for name in values}
    )


def _insert_of(dialect: str, table: Table) -> Any:
    """Each dialect has a class of its own, with the same methods."""
    if dialect == "postgresql":  # 0.03 s to import
        from sqlalchemy.dialects.postgresql import insert as insert_postgresql

        return insert_postgresql(table)
    from sqlalchemy.dialects.sqlite import insert as insert_sqlite

    return insert_sqlite(table)
