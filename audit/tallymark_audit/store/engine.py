"""Open the store, and the two ways to use it: write transactions and read snapshots.

How SQLite and PostgreSQL are opened is in :mod:`tallymark.sql`. On PostgreSQL writers that would
meet lock a row first (``positions.fence``), and a read is a REPEATABLE READ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, func, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from tallymark.errors import UserError
from tallymark.sql import READ_ONLY, open_engine
from tallymark_audit.store.judged.filling import fill
from tallymark_audit.store.schema import tables
from tallymark_audit.store.schema.migrations import OLDEST, migrate
from tallymark_audit.store.schema.upsert import dump_json, load_json

SUMS_SINCE = 8
"""The version of the tables from which on sums and incidents are kept."""
PREPARING = 0x7461_6C6C_7901
"""The lock under which tables are made or changed on PostgreSQL."""


class Store:
    """The audit store at one SQLAlchemy address. Threads may share it; a fork may not."""

    def __init__(self, engine: Engine, address: str) -> None:
        self.engine = engine
        self.address = address

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One write transaction: all of it, or on any exception nothing."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent snapshot to read from."""
        with self.engine.connect() as connection:
            options: dict[str, Any] = {READ_ONLY: True}
            if self.engine.dialect.name == "postgresql":
                options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            reader = connection.execution_options(**options)
            with reader.begin():
                yield reader

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(address: str) -> Store:
    """Open the store, and make its tables where there are none. UserError: the address makes no
    sense, the store cannot be reached, or its tables are of another version."""
    try:
        engine = open_engine(
            address, synchronous="NORMAL", json_serializer=dump_json, json_deserializer=load_json
        )
    except (ArgumentError, NoSuchModuleError, ImportError, OSError) as error:
        raise UserError(
            f"the audit store {address!r} cannot be opened: {error}", "mend [audit] store"
        ) from error
    store = Store(engine, address)
    try:
        _prepare(store)
    except SQLAlchemyError as error:
        store.close()
        cause = getattr(error, "orig", None) or error
        raise UserError(
            f"the audit store {make_url(address)} cannot be used: {cause}",
            "see that the folder can be written or the database is reachable",
        ) from error
    except UserError:
        store.close()
        raise
    return store


def _prepare(store: Store) -> None:
    with store.write() as connection:
        if connection.dialect.name == "postgresql":  # two at once would both make the tables
            connection.execute(select(func.pg_advisory_xact_lock(PREPARING)))
        tables.metadata.create_all(connection)
        _check_version(connection, store.address)


def _check_version(connection: Connection, address: str) -> None:
    table = tables.meta
    found = connection.scalar(select(table.c.value).where(table.c.key == "schema"))
    if found is None:
        value = str(tables.SCHEMA_VERSION)
        connection.execute(table.insert().values(key="schema", value=value))
    elif found != str(tables.SCHEMA_VERSION):
        if not found.isdecimal() or not OLDEST <= int(found) < tables.SCHEMA_VERSION:
            raise UserError(
                f"the audit store {address} has tables of version {found}, "
                f"this program knows {tables.SCHEMA_VERSION}",
                "use the Tallymark that wrote it, or name another store",
            )
        migrate(connection)
        if int(found) < SUMS_SINCE:
            fill(connection)
        connection.execute(
            update(table).where(table.c.key == "schema").values(value=str(tables.SCHEMA_VERSION))
        )
