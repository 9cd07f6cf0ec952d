"""Open the store's database by its SQLAlchemy address and create what is missing in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, func, select
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from tallymark.errors import UserError
from tallymark.private_files import make_private
from tallymark_schema_registry.store.tables import metadata

BUSY_TIMEOUT_MS = 10_000
CREATING = 0x7461_6C6C_7900
"""The lock of whoever makes tables on PostgreSQL."""


def open_engine(address: str) -> Engine:
    """An engine with the tables there. Raises UserError naming the address (without a password)."""
    try:
        url = make_url(address)
        if url.get_backend_name() == "sqlite":
            return _create_tables(_sqlite(address), address)
        return _create_tables(create_engine(url, pool_pre_ping=True), address)
    except (ArgumentError, NoSuchModuleError) as error:
        raise UserError(
            f"the registry's store {address!r} is not a database address",
            "write sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME",
        ) from error
    except ImportError as error:
        raise UserError(
            f"the registry's store needs the package {error.name}", f"install {error.name}"
        ) from error


def _create_tables(engine: Engine, address: str) -> Engine:
    shown = make_url(address).render_as_string(hide_password=True)
    try:
        with engine.execution_options(tallymark_write=True).begin() as connection:
            if connection.dialect.name == "postgresql":  # two at once would both make them
                connection.execute(select(func.pg_advisory_xact_lock(CREATING)))
            metadata.create_all(connection)
    except SQLAlchemyError as error:
        engine.dispose()
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise UserError(
            f"the registry's store {shown} cannot be opened: {reason}",
            "check that the folder or the server is there and may be written",
        ) from error
    return engine


def _sqlite(address: str) -> Engine:
    url = make_url(address)
    if url.database in (None, "", ":memory:"):
        raise UserError(
            "the registry's store cannot be in memory", "give a file: sqlite:///registry.db"
        )
    assert url.database is not None
    try:
        Path(url.database).absolute().parent.mkdir(parents=True, exist_ok=True)
        make_private(url.database)
    except OSError as error:
        raise UserError(f"cannot create the folder of {url.database}: {error.strerror}") from error
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    """Take transactions into our own hands; keep what was acknowledged through a power failure."""
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and writes later would fail with "database is locked" whatever
    # the timeout, if another one wrote in between; so a writer takes the lock at its start.
    write = connection.get_execution_options().get("tallymark_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
