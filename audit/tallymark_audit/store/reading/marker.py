"""Whether a page would look different now: :func:`store_marker`, a few numbers of the store that
are read once a second; and whether anything at all was written: :class:`StoreVersion`."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from typing import Any, Final

from sqlalchemy import Connection, Integer, Select, cast, func, select, text

from tallymark_audit.store.engine import Store
from tallymark_audit.store.judged.alerts import PAUSED
from tallymark_audit.store.judged.verdict_changes import last_change
from tallymark_audit.store.schema.tables import (
    alerts,
    collectors,
    incidents,
    meta,
    repairs,
    reporters,
    runs,
)


def _changes() -> Select[Any]:
    """All as one row. Nothing here grows while the same is to be seen: further events of
    reporters and commits of collectors are no change."""
    ended = cast(reporters.c.closed, Integer)
    columns = (
        func.count(reporters.c.reporter),
        func.sum(ended),
        func.max(reporters.c.retired_at),
        func.count(alerts.c.rule),
        func.max(alerts.c.starts_at),
        func.max(alerts.c.ends_at),
        func.max(alerts.c.told_at),
        func.max(incidents.c.id),
        func.max(runs.c.id),
        func.max(runs.c.finished_at),
        func.max(repairs.c.id),
        func.sum(collectors.c.generation),
    )
    paused = select(meta.c.value).where(meta.c.key == PAUSED)
    return select(*[select(one).scalar_subquery() for one in columns], paused.scalar_subquery())


_CHANGES: Final = _changes()


def store_marker(connection: Connection) -> str:
    """A text that differs after every change that may be seen, except for those that come with time
    (a window ends, the audit falls behind)."""
    rest = connection.execute(_CHANGES).one()
    return "-".join([last_change(connection), *(str(value or 0) for value in rest)])


class StoreVersion:
    """A text that differs after every commit to the store, whatever it changed, for the price of
    one small statement. On SQLite it is ``PRAGMA data_version``, which counts what *other*
    connections have written, so one connection is kept for it. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._own: sqlite3.Connection | None = None
        self._opened = 0

    def read(self) -> str:
        """The version now. SQLAlchemyError: the store cannot be reached."""
        if self._store.engine.dialect.name != "sqlite":
            with self._store.read() as connection:
                return str(connection.scalar(_POSTGRESQL))
        with self._lock:
            try:
                found = self._kept().execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error:  # the next read of the store raises the reason
                self._forget()
                return f"{self._opened}-unknown"
            return f"{self._opened}-{found}"

    def close(self) -> None:
        """Close the connection that is kept; it is made again when it is needed. Idempotent."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._opened += 1  # the count of another connection means nothing for this one
        if self._own is not None:
            self._own.close()
            self._own = None

    def _kept(self) -> sqlite3.Connection:
        if self._own is None:
            taken = self._store.engine.raw_connection()
            own = taken.driver_connection
            assert isinstance(own, sqlite3.Connection)
            taken.detach()  # the pool would close it, or lend it to others
            weakref.finalize(self, own.close)
            self._own = own
        return self._own


_POSTGRESQL: Final = text("SELECT pg_snapshot_xmax(pg_current_snapshot())")
"""The first transaction that has not begun; of all databases of the server, so it may differ more
often than needed."""
