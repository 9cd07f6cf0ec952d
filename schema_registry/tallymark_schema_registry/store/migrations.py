"""Make the tables, or bring those of an older version up to date. Within the caller's transaction.

A process of version 1 that still runs, or is started, on a store of version 2 must not write beside
it, since that would not be noticed. The tables keep their names and have columns that it does not
know and must fill, so it fails: it answers 500 until it is updated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Table, insert, inspect, select

from tallymark.errors import UserError
from tallymark_schema_registry.catalog.content import AVRO
from tallymark_schema_registry.catalog.records import ConfigSet, Record, SchemaAdded, VersionAdded
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT
from tallymark_schema_registry.store import layout
from tallymark_schema_registry.store.changes import Change, row_of

_FIRST = ("schemas", "versions", "levels")
"""The tables of version 1, which did not say its version."""
_ROWS = 1_000
"""Rows that are copied at a time."""


def prepare(connection: Connection, shown: str) -> None:
    """The tables of version :data:`~.layout.NEWEST` are there afterwards. ``shown`` is the store in
    a UserError: a newer program has written it."""
    there = set(inspect(connection).get_table_names())
    if layout.store_version.name in there:
        found = connection.scalar(select(layout.store_version.c.version))
        if found != layout.NEWEST:
            raise UserError(
                f"the registry's store {shown} has tables of version {found}, "
                f"this program knows {layout.NEWEST}",
                "use the Tallymark that wrote it, or name another store",
            )
        return
    old = there.intersection(_FIRST)
    for name in sorted(old):
        connection.exec_driver_sql(f"ALTER TABLE {name} RENAME TO {_before(name)}")
        if connection.dialect.name == "postgresql":  # its key keeps its name, which is needed
            connection.exec_driver_sql(f"ALTER INDEX {name}_pkey RENAME TO {_before(name)}_pkey")
    layout.metadata.create_all(connection)
    if old:
        _Copy(connection).all()
        for name in sorted(old):
            connection.exec_driver_sql(f"DROP TABLE {_before(name)}")
    else:
        first = {"context": DEFAULT_CONTEXT, "last_id": 0, "listed": True}
        connection.execute(insert(layout.contexts).values(first))
    connection.execute(insert(layout.store_version).values(version=layout.NEWEST))


def _before(name: str) -> str:
    return f"{name}_of_version_1"


class _Copy:
    """Rows of version 1 to rows of version 2. The changes say all of it too, so that what follows
    the changes from the first one on gets everything."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._number = 0

    def all(self) -> None:
        self._schemas()
        self._versions()
        self._levels()

    def _schemas(self) -> None:
        last: dict[str, int] = {}
        for rows in self._portions("schemas", "context, id, md5, text", "context, id"):
            for context, schema_id, _, _ in rows:
                last[context] = max(last.get(context, 0), schema_id)
            self._add(layout.schemas, [(*row[:3], 0, AVRO, "", "", "", row[3]) for row in rows])
            self._say([(0, SchemaAdded(row[0], row[1], row[2])) for row in rows])
        last.setdefault(DEFAULT_CONTEXT, 0)
        self._add(layout.contexts, [(context, number, True) for context, number in last.items()])

    def _versions(self) -> None:
        last: dict[tuple[str, str], int] = {}
        columns = "context, subject, version, schema_id, deleted, registered_ms"
        for rows in self._portions("versions", columns, "context, subject, version"):
            for context, subject, version, *_ in rows:
                last[context, subject] = version
            self._add(layout.versions, [(*row[:4], bool(row[4]), row[5], "") for row in rows])
            self._say([(row[5], _version_added(*row)) for row in rows])
        self._add(layout.subjects, [(*key, number) for key, number in last.items()])

    def _levels(self) -> None:
        for rows in self._portions("levels", "context, subject, level", "context, subject"):
            configs = [
                (context, subject, {"compatibilityLevel": level})
                for context, subject, level in rows
            ]
            self._add(layout.configs, [(*config[:2], json.dumps(config[2])) for config in configs])
            self._say([(0, ConfigSet(*config)) for config in configs])

    def _portions(self, table: str, columns: str, order: str) -> Iterator[Sequence[Any]]:
        query = f"SELECT {columns} FROM {_before(table)} ORDER BY {order}"
        yield from self._connection.exec_driver_sql(query).partitions(_ROWS)

    def _add(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        names = [column.name for column in table.columns]
        if rows:
            values = [dict(zip(names, row, strict=True)) for row in rows]
            self._connection.execute(insert(table), values)

    def _say(self, records: Sequence[tuple[int, Record]]) -> None:
        changes = list[Change]()
        for at_ms, record in records:
            self._number += 1
            changes.append(Change(self._number, at_ms, "", record))
        self._add(layout.changes, [row_of(change) for change in changes])


def _version_added(
    context: str, subject: str, version: int, schema_id: int, deleted: object, at_ms: int
) -> VersionAdded:
    return VersionAdded(context, subject, version, schema_id, at_ms, deleted=bool(deleted))
