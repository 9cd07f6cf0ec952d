"""Long polls: any number of clients wait for watermarks. The store is read once a second for all of
them together, and only while a client waits."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark_audit.model.cells import EdgeTopic
from tallymark_audit.store import Store
from tallymark_audit.store.reading import paging
from tallymark_audit.store.schema.rows import Row

log: Final = logging.getLogger(__name__)
POLL_SECONDS: Final = 1.0
MOST: Final = 1000
"""Clients that may wait at once."""


class TooManyWaitError(Exception):
    """No more clients may wait now."""


@dataclass(eq=False, slots=True)
class _Waiter:
    place: EdgeTopic
    through: int
    done: asyncio.Future[None]


class Waits:
    """The clients that wait, by watermark. All but :meth:`stop` belongs to one event loop."""

    def __init__(self, store: Store, most: int = MOST, poll_seconds: float = POLL_SECONDS) -> None:
        self._store = store
        self._most = most
        self._poll_seconds = poll_seconds
        self._waiters: set[_Waiter] = set()
        self._poller: asyncio.Task[None] | None = None
        self._stopping = threading.Event()
        self.looks = 0
        """How often the store was looked at."""

    def __len__(self) -> int:
        return len(self._waiters)

    async def until(self, place: EdgeTopic, through: int, gone: asyncio.Future[None]) -> None:
        """Return when the watermark has reached ``through`` (ms), when the client is ``gone`` or
        when the server stops. TooManyWaitError: there are too many already."""
        if len(self._waiters) >= self._most:
            raise TooManyWaitError
        if self._stopping.is_set():
            return
        waiter = _Waiter(place, through, asyncio.get_running_loop().create_future())
        self._waiters.add(waiter)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            await asyncio.wait({waiter.done, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiters.discard(waiter)

    def stop(self) -> None:
        """Let all go, within a poll. From any thread."""
        self._stopping.set()

    async def _poll(self) -> None:
        while self._waiters:
            places = {waiter.place for waiter in self._waiters}
            try:
                rows = await asyncio.to_thread(self._read, places)
            except SQLAlchemyError as error:
                log.info("watermarks cannot be read now, %d wait: %s", len(self), error)
            else:
                self._wake(rows)
            if self._stopping.is_set():
                for waiter in self._waiters:
                    _end(waiter)
                return
            await asyncio.sleep(self._poll_seconds)

    def _read(self, places: Collection[EdgeTopic]) -> list[Row]:
        self.looks += 1
        with self._store.read() as connection:
            return paging.watermarks_of(connection, places)

    def _wake(self, rows: Iterable[Row]) -> None:
        through = {(row["edge"], row["topic"]): row["through"] for row in rows}
        for waiter in self._waiters:
            if through.get(waiter.place, -1) >= waiter.through:
                _end(waiter)


def _end(waiter: _Waiter) -> None:
    if not waiter.done.done():
        waiter.done.set_result(None)
