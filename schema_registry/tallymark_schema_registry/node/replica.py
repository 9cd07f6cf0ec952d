"""The catalog of this process, kept equal to the store's by the changes of all processes.

A request that asks for what can change (the latest version, a list, a mode) is answered from
memory if the store's last change was read after the request had come, and is applied: so no
process contradicts an answer that another one gave before. All requests that wait share one
such reading.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final, Protocol

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.store.changes import Change, NewText, StoreFailed

POLL_S: Final = 0.2
"""How often changes of other processes are looked for where no request asks."""
WAIT_S: Final = 3.0
"""How long a request waits for the store before it is answered from memory."""
_PAGE: Final = 1_000

Listener = Callable[[Sequence[Change]], None]

_log = logging.getLogger(__name__)


class Store(Protocol):
    """What a node needs of a store: see :class:`~tallymark_schema_registry.store.SqlStore`."""

    is_watched_cheaply: bool

    def load(self) -> Catalog: ...
    def append(
        self, after: int, changes: Sequence[Change], texts: Sequence[NewText] = ()
    ) -> None: ...
    def fence(self, after: int) -> Sequence[Change]: ...
    def since(self, number: int, limit: int = ...) -> list[Change]: ...
    def texts(self, context: str, ids: Sequence[int]) -> dict[int, str]: ...
    def unchanged(self, number: int) -> bool: ...
    def close(self) -> None: ...


class Replica:
    """Belongs to one event loop. ``threads`` is where the store is asked if that may take long."""

    def __init__(self, store: Store, threads: Executor) -> None:
        self.catalog = Catalog()
        self.is_down = False
        """Whether the store could not be asked the last time."""
        self._store = store
        self._threads = threads
        self._listeners: list[Listener] = []
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self._poll: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the catalog, and follow the store from then on. Raises StoreFailed."""
        loop = asyncio.get_running_loop()
        self.catalog = await loop.run_in_executor(self._threads, self._store.load)
        self._poll = loop.create_task(self._poll_changes())

    async def close(self) -> None:
        """Follow no more."""
        for task in (self._poll, self._running, self._next):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def on_change(self, listener: Listener) -> None:
        """``listener`` is called with changes right after they were applied, on the event loop and
        before anything is answered by them."""
        self._listeners.append(listener)

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply what is new of the changes, which come in order. All at once: between two calls the
        catalog is what whole transactions have made it, but for very long ones."""
        number = self.catalog.number
        new = [change for change in changes if change.number > number]
        if not new:
            return
        if new[0].number != number + 1:
            raise AssertionError(f"change {new[0].number} came after change {number}")
        for change in new:
            self.catalog.apply(change.number, change.record)
        for listener in self._listeners:
            try:
                listener(new)
            except Exception:
                _log.exception("changes %d to %d were not followed", number + 1, new[-1].number)

    async def current(self) -> None:
        """When it returns, all that any process had committed before the call is applied; or the
        store cannot be asked, which was logged."""
        if self.is_current():
            return
        if self._next is None:
            self._next = asyncio.create_task(self._catch_up_after(self._running))
        _, waiting = await asyncio.wait((self._next,), timeout=WAIT_S)
        if waiting:
            self.went_down(StoreFailed(f"no answer in {WAIT_S:.0f} s"))

    def is_current(self) -> bool:
        """Whether :meth:`current` would return at once. Costs some microseconds."""
        if self.is_down:
            return True  # the poll finds out when it is back
        try:
            return self._store.is_watched_cheaply and self._store.unchanged(self.catalog.number)
        except StoreFailed:
            return False  # a thread asks again, and may wait

    def check_up(self) -> None:
        """Raises the 503 error while the store cannot be asked."""
        if self.is_down:
            raise errors.store_failed()

    def went_down(self, error: BaseException) -> None:
        """The store has failed: reads are answered from memory until it is back."""
        if not self.is_down:
            _log.error(
                "the registry's store failed; reads are answered from memory, writes are "
                "refused until it is back: %s",
                error,
            )
        self.is_down = True

    async def _catch_up_after(self, before: asyncio.Task[None] | None) -> None:
        """Requests that come while ``before`` runs cannot share it: it may have read already."""
        if before is not None:
            await asyncio.wait((before,))
        self._running, self._next = self._next, None
        await self._catch_up()

    async def _catch_up(self) -> None:
        loop = asyncio.get_running_loop()
        more = True
        try:
            while more:
                number = self.catalog.number
                changes = await loop.run_in_executor(self._threads, self._newer, number)
                more = len(changes) >= _PAGE
                self.apply(changes)
        except StoreFailed as error:
            self.went_down(error)
            return
        if self.is_down:
            self.is_down = False
            _log.warning("the registry's store is back")

    def _newer(self, number: int) -> list[Change]:
        """In a thread."""
        if not self._store.is_watched_cheaply and self._store.unchanged(number):
            return []
        return self._store.since(number, _PAGE)

    async def _poll_changes(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                if self.is_down:
                    await self._catch_up()
                else:
                    await self.current()
            except Exception:
                # A fault of ours must not end it: others' deletions would never be seen.
                _log.exception("changes of other processes could not be applied")
