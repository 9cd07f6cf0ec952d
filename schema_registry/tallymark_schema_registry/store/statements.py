"""The SQL of the store, written once for SQLite and PostgreSQL, as the drivers take it.

SQLAlchemy's objects cost some 100 µs a statement to be built and compiled, these texts nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from sqlalchemy import Table
from sqlalchemy.engine.interfaces import DBAPICursor

from tallymark_schema_registry.store import layout
from tallymark_schema_registry.store.rows import Part, Rows

Run: TypeAlias = Callable[[str, list[Any]], object]

WRITER_LOCK = 0x7461_6C6C_7902
"""The lock that a writer holds on PostgreSQL as long as its transaction lasts."""


class Statements:
    """The texts for one kind of database."""

    def __init__(self, dialect: str) -> None:
        mark = "?" if dialect == "sqlite" else "%s"
        self.mark = mark
        if dialect == "sqlite":
            self.begin_writing, self.begin_snapshot = "BEGIN IMMEDIATE", "BEGIN"
        else:  # the driver sends BEGIN itself
            self.begin_writing = f"SELECT pg_advisory_xact_lock({WRITER_LOCK})"
            self.begin_snapshot = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
        self.number = "SELECT coalesce(max(number), 0) FROM changes"
        self.since = (
            "SELECT number, at_ms, made_by, record FROM changes "
            f"WHERE number > {mark} ORDER BY number LIMIT {mark}"
        )
        self.insert_change = self._insert(layout.changes)
        self.mark_version = (
            f"UPDATE versions SET deleted = {mark} "
            f"WHERE context = {mark} AND subject = {mark} AND version = {mark}"
        )
        self.raise_version = (
            f"{self._insert(layout.subjects)} ON CONFLICT (context, subject) DO UPDATE "
            f"SET last_version = {_higher('subjects', 'last_version')}"
        )
        raise_id = (
            f"{self._insert(layout.contexts)} ON CONFLICT (context) DO UPDATE "
            f"SET last_id = {_higher('contexts', 'last_id')}"
        )
        self.raise_id = raise_id
        self.raise_id_and_list = f"{raise_id}, listed = excluded.listed"
        self.parts = {
            table.name: (self._delete(table), self._insert(table))
            for table in (layout.schemas, layout.versions, layout.configs, layout.modes)
        }

    def texts(self, count: int) -> str:
        """The texts of ``count`` ids of one context; its values are the context and the ids."""
        marks = ", ".join([self.mark] * count)
        return f"SELECT id, text FROM schemas WHERE context = {self.mark} AND id IN ({marks})"

    def _insert(self, table: Table) -> str:
        columns = ", ".join(column.name for column in table.columns)
        marks = ", ".join([self.mark] * len(table.columns))
        return f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"

    def _delete(self, table: Table) -> str:
        key = " AND ".join(f"{column.name} = {self.mark}" for column in table.primary_key)
        return f"DELETE FROM {table.name} WHERE {key}"


def _higher(table: str, column: str) -> str:
    return (
        f"CASE WHEN excluded.{column} > {table}.{column} "
        f"THEN excluded.{column} ELSE {table}.{column} END"
    )


def write(cursor: DBAPICursor, statements: Statements, rows: Rows) -> None:
    """Write the rows, within the caller's transaction."""
    run = cursor.executemany
    # First, since it decides who was first.
    run(statements.insert_change, rows.changes)
    for table, part in _parts(rows):
        delete, insert = statements.parts[table.name]
        if part.deleted:
            run(delete, list(part.deleted))
        if part.inserted:
            run(insert, list(part.inserted.values()))
    if rows.marked:
        run(statements.mark_version, [(gone, *key) for key, gone in rows.marked.items()])
    if rows.last_versions:
        run(statements.raise_version, [(*key, last) for key, last in rows.last_versions.items()])
    _write_contexts(run, statements, rows)


def _parts(rows: Rows) -> tuple[tuple[Table, Part], ...]:
    return (
        (layout.schemas, rows.schemas),
        (layout.versions, rows.versions),
        (layout.configs, rows.configs),
        (layout.modes, rows.modes),
    )


def _write_contexts(run: Run, statements: Statements, rows: Rows) -> None:
    last_ids, listed = rows.last_ids, rows.listed
    both = [(name, last_ids.get(name, 0), is_listed) for name, is_listed in listed.items()]
    if both:
        run(statements.raise_id_and_list, both)
    silent = [(name, last, False) for name, last in last_ids.items() if name not in listed]
    if silent:
        run(statements.raise_id, silent)
