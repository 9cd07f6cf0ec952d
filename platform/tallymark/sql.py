"""Open a SQL database by its SQLAlchemy address: SQLite for one machine, PostgreSQL for more.

On SQLite several processes share one file. WAL lets readers go on while one writes. A write takes
the lock at once (BEGIN IMMEDIATE), so that two writers queue instead of failing half-way: one that
reads first and writes later would fail with "database is locked", whatever the time-out, if
another one wrote in between.

An open file stays readable after it was moved away or deleted, and SQLite makes a missing one anew.
So without a check half of a process would use the moved file and the other half an empty one. Here
each use of a connection looks whether the file is still the one that it has opened.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any, Final, Literal

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from tallymark.private_files import make_private

BUSY_TIMEOUT_S: Final = 15.0
"""How long a statement waits for the lock of a SQLite file."""
READ_ONLY: Final = "tallymark_read"
"""The execution option of a connection that only reads: its transactions take no lock."""
AGAIN_S: Final = 0.02
"""Between two attempts to switch a SQLite file to WAL."""
_OPENED: Final = "tallymark_file"
"""Which file a connection has opened."""


def open_engine(address: str, *, synchronous: Literal["NORMAL", "FULL"], **options: Any) -> Engine:
    """An engine for the address; ``options`` go to SQLAlchemy's ``create_engine``. The file of a
    SQLite database, and its folder, are made if they do not exist.

    ``synchronous``: what a SQLite database survives. NORMAL: the end of the process; FULL: the end
    of power, too, which costs a flush a transaction.

    While the file of a SQLite database is gone, each use is an OperationalError; one that was put
    in its place is opened at the next use.

    ArgumentError, NoSuchModuleError: no such address; ImportError: its driver is not installed;
    OSError: the file cannot be made. Nothing is connected yet."""
    url = make_url(address)
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True, **options)
    if url.database and url.database != ":memory:":
        Path(url.database).absolute().parent.mkdir(parents=True, exist_ok=True)
        make_private(url.database)
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S}, **options)

    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver's own BEGIN comes too late
        _use_wal(connection)
        connection.execute(f"PRAGMA synchronous={synchronous}").close()

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", _begin)
    if url.database and url.database != ":memory:":
        _never_another_file(engine, url.database)
    return engine


def _never_another_file(engine: Engine, path: str) -> None:
    def connecting(*_: object) -> None:
        if _file_at(path) is None:
            text = f"its file {os.path.basename(path)} is gone: it was moved or deleted"
            raise sqlite3.OperationalError(text)

    def connected(_connection: object, record: ConnectionPoolEntry) -> None:
        record.info[_OPENED] = _file_at(path)

    def taken(_connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
        if record.info.get(_OPENED) != _file_at(path):
            raise DisconnectionError("another file is there")  # the pool connects again

    event.listen(engine, "do_connect", connecting)
    event.listen(engine, "connect", connected)
    event.listen(engine, "checkout", taken)


def _file_at(path: str) -> tuple[int, int] | None:
    """Which file this is; None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _use_wal(connection: sqlite3.Connection) -> None:
    """SQLite does not wait for its lock here, whatever the time-out: where several processes open a
    new file at once, all but one get "database is locked" immediately."""
    end = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            return
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(AGAIN_S)


def _begin(connection: Connection) -> None:
    reading = connection.get_execution_options().get(READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
