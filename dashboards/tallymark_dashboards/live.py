"""Server-sent events: the server reports that the store has changed, and the page fetches its
fragment again.

The marker is the result of a few ``max()`` over the store, read once for all pages and at most
every :data:`POLL_SECONDS`. An event's id is the marker: a page that reconnects with the newest
marker gets no event until the store changes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

from fastapi.sse import ServerSentEvent
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from tallymark_audit.store import Store
from tallymark_audit.store.schema.tables import incidents, repairs, reporters, runs, verdicts

POLL_SECONDS = 1.0
KEEPALIVE_SECONDS = 15.0


class Changes:
    """The marker of the store: a text that differs after every change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._read_at = 0.0
        self._marker = ""
        self.stopping = asyncio.Event()

    async def marker(self) -> str:
        """The present marker, at most :data:`POLL_SECONDS` old."""
        async with self._lock:
            if time.monotonic() - self._read_at >= POLL_SECONDS:
                with suppress(SQLAlchemyError):  # no store now: the page shows its age meanwhile
                    self._marker = await asyncio.to_thread(self._read)
                self._read_at = time.monotonic()
            return self._marker

    async def events(self, last_id: str) -> AsyncIterator[ServerSentEvent]:
        """The event ``changed`` whenever the marker changes; a comment at intervals keeps proxies
        from closing the connection."""
        yield ServerSentEvent(comment="live", retry=2000)
        quiet_since = time.monotonic()
        while not self.stopping.is_set():
            marker = await self.marker()
            if marker != last_id:
                last_id, quiet_since = marker, time.monotonic()
                yield ServerSentEvent(event="changed", id=marker, raw_data=marker)
            elif time.monotonic() - quiet_since > KEEPALIVE_SECONDS:
                quiet_since = time.monotonic()
                yield ServerSentEvent(comment="still here")
            try:
                await asyncio.wait_for(self.stopping.wait(), POLL_SECONDS)
            except TimeoutError:
                continue

    def _read(self) -> str:
        query = select(
            select(func.max(verdicts.c.judged_at)).scalar_subquery(),
            select(func.max(reporters.c.last_heard)).scalar_subquery(),
            select(func.max(incidents.c.id)).scalar_subquery(),
            select(func.max(runs.c.finished_at)).scalar_subquery(),
            select(func.max(repairs.c.id)).scalar_subquery(),
        )
        with self._store.read() as connection:
            return "-".join(str(value or 0) for value in connection.execute(query).one())
