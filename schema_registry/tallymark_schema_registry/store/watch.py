"""Has anything been written since? Asked before every answer that another process could change."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.pool import PoolProxiedConnection

from tallymark_schema_registry.store.statements import Statements


class Watch:
    """A connection of its own. Threads wait for each other.

    A SQLite connection reports, without reading the file, whether another connection has committed
    since it was asked the last time (``PRAGMA data_version``), so that this costs some 3 µs. On
    PostgreSQL it is a query."""

    def __init__(self, engine: Engine, statements: Statements) -> None:
        self._engine = engine
        self._sql = statements
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._held: PoolProxiedConnection | None = None
        self._connection: Any = None
        self._seen: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def last_number(self) -> int:
        """The number of the store's last change, committed by any process before this call."""
        with self._lock:
            if self._connection is not None:
                try:
                    return self._ask()
                except Exception:
                    # The server was restarted, perhaps; a new connection will tell.
                    self._close()
            self._connect()
            try:
                return self._ask()
            except BaseException:
                self._close()
                raise

    def close(self) -> None:
        """The next question connects again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        held, self._held, self._connection, self._seen = self._held, None, None, None
        if held is not None:
            with suppress(Exception):
                held.close()

    def _connect(self) -> None:
        self._held = self._engine.raw_connection()
        # Not the pool's any more: it commits by itself, and is held as long as the store.
        self._held.detach()
        self._connection = self._held.dbapi_connection
        if self._is_sqlite:
            # It is asked on the event loop, which must not wait for a lock.
            self._connection.execute("PRAGMA busy_timeout = 0").close()
        else:
            self._connection.autocommit = True

    def _ask(self) -> int:
        version = 0
        if self._is_sqlite:
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
            if self._seen and self._seen[0] == version:
                return self._seen[1]
        number: int = self._connection.execute(self._sql.number).fetchone()[0]
        # The version was read first: what is committed in between is seen the next time.
        self._seen = version, number
        return number
