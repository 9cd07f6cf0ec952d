"""Open the store, and the two ways to use it: write transactions and read snapshots.

How SQLite and PostgreSQL are opened is in :mod:`tallymark.sql`. On PostgreSQL writers that would
meet lock a row first (``positions.fence``), and a read is a REPEATABLE READ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from tallymark.errors import UserError
from tallymark.sql import READ_ONLY, open_engine
from tallymark_audit.store.preparing import prepare
from tallymark_audit.store.schema.upsert import dump_json, load_json
from tallymark_audit.store.trouble import is_full


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
        prepare(engine, address)
    except SQLAlchemyError as error:
        store.close()
        cause = getattr(error, "orig", None) or error
        raise UserError(
            f"the audit store {make_url(address)} cannot be used: {cause}", _what_to_do(cause)
        ) from error
    except UserError:
        store.close()
        raise
    return store


def _what_to_do(cause: BaseException) -> str:
    if is_full(str(cause)):
        return (
            "make room on its disk and start again: nothing was changed. To bring a store of an "
            "older version up to date takes as much room again as it has, until that is done"
        )
    if "is locked" in str(cause).lower():
        return "another process has held it for long: see which one does"
    return "see that the folder can be written or the database is reachable"
