"""Open the store, and the two ways to use it: write transactions and read snapshots.

On SQLite several processes share one file. WAL lets readers go on while one writes; a write takes
the lock at once (BEGIN IMMEDIATE), so that two of them queue instead of failing half-way.
On PostgreSQL writers that would meet lock a row first (``counts.fence``), and a read is a
REPEATABLE READ.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from tallymark.errors import UserError
from tallymark.private_files import make_private
from tallymark_audit.store.schema import tables
from tallymark_audit.store.schema.migrations import OLDEST, migrate
from tallymark_audit.store.schema.upsert import dump_json, load_json

BUSY_TIMEOUT_S = 15
READ_ONLY = "tallymark_read"
PREPARING = 0x7461_6C6C_7901
"""The lock of whoever makes or changes tables on PostgreSQL."""


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
        engine = _engine(address)
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


def _engine(address: str) -> Engine:
    url = make_url(address)
    coding = {"json_serializer": dump_json, "json_deserializer": load_json}
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True, **coding)
    if url.database and url.database != ":memory:":
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        make_private(url.database)
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S}, **coding)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves: the driver's own comes too late
    _use_wal(connection)
    connection.execute("PRAGMA synchronous=NORMAL")  # in WAL mode safe against a process's death


def _use_wal(connection: Any) -> None:
    """SQLite does not wait for its lock here, whatever the time-out: when several processes open a
    new store at once, all but one are told at once that it is locked."""
    end = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def _begin_sqlite(connection: Connection) -> None:
    reading = connection.get_execution_options().get(READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


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
        connection.execute(
            update(table).where(table.c.key == "schema").values(value=str(tables.SCHEMA_VERSION))
        )
