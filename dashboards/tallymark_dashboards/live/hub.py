"""The feeds in an event loop: looks at the store once a second for all viewers together, renders in
a thread, wakes the streams for which there is an event. Without viewers nothing is done."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark.net.limits.log_rate import LogRate
from tallymark_dashboards.frame.registry import needs_store
from tallymark_dashboards.live import wire
from tallymark_dashboards.live.feeds import Address, Feeds, Fragment, Viewer

log: Final = logging.getLogger(__name__)
POLL_S: Final = 1.0
"""Between two looks at the store."""
AWAY: Final = "away"
"""The marker of a store that cannot be read."""
SOON_S: Final = 0.05
"""A viewer that has just come waits no longer for the next look."""

Marker = Callable[[], str]
"""A text that differs after every change that may be seen. SQLAlchemyError: the store is away."""
Render = Callable[[Address], Fragment]
"""The fragment of a page now. SQLAlchemyError: the store is away."""


class Hub:
    """The viewers of one application. All but :meth:`stop` belongs to one event loop."""

    def __init__(
        self,
        marker: Marker,
        render: Render,
        feeds: Feeds | None = None,
        poll_s: float = POLL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._marker = marker
        self._render = render
        self._feeds = Feeds() if feeds is None else feeds
        self._poll_s = poll_s
        self._clock = clock
        self._asleep: dict[Viewer, asyncio.Future[None]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._come: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._limit = LogRate()
        self.renderings = 0
        """How many were made."""

    def __len__(self) -> int:
        """How many viewers there are."""
        return len(self._feeds)

    def join(self, address: Address, has: str) -> Viewer:
        """A viewer, to be given to :meth:`stream`. TooManyViewersError: the limit is reached."""
        viewer = self._feeds.join(address, has)
        self._loop = asyncio.get_running_loop()
        if self._come is None:
            self._come = asyncio.Event()
        self._come.set()
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        return viewer

    async def stream(
        self, viewer: Viewer, compressed: bool, gone: asyncio.Future[None]
    ) -> AsyncGenerator[bytes, None]:
        """What is written to the viewer, until it is ``gone`` or the server stops."""
        yield wire.beginning(compressed)
        while not self._stopping.is_set() and not gone.done():
            found = self._feeds.next_event(viewer, self._clock())
            if found is None:
                await self._sleep(viewer, gone)
            else:
                yield wire.event_bytes(found, compressed)

    def leave(self, viewer: Viewer) -> None:
        """Forget a viewer. Idempotent."""
        self._feeds.leave(viewer)

    def stop(self) -> None:
        """End all streams. From any thread; idempotent."""
        self._stopping.set()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and all streams with it
                self._loop.call_soon_threadsafe(self._end_all)

    async def _sleep(self, viewer: Viewer, gone: asyncio.Future[None]) -> None:
        awake = asyncio.get_running_loop().create_future()
        self._asleep[viewer] = awake
        wake = _waker(awake)
        gone.add_done_callback(wake)
        try:
            await awake
        finally:
            gone.remove_done_callback(wake)
            self._asleep.pop(viewer, None)

    async def _poll(self) -> None:
        assert self._come is not None
        while len(self._feeds) and not self._stopping.is_set():
            self._come.clear()
            await self._look()
            with suppress(TimeoutError):
                await asyncio.sleep(SOON_S)  # so that viewers who come together are served together
                await asyncio.wait_for(self._come.wait(), max(0.0, self._poll_s - SOON_S))

    async def _look(self) -> None:
        try:
            marker = await asyncio.to_thread(self._marker)
        except Exception as error:
            marker = AWAY
            self._feeds.all_failed(self._reason(error), self._clock(), needs_store)
            self._wake()
        for address in self._feeds.due(marker, self._clock()):
            await self._render_one(address, marker)
            if self._stopping.is_set():
                return
        self._wake()

    async def _render_one(self, address: Address, marker: str) -> None:
        self.renderings += 1
        try:
            fragment, cost_s = await asyncio.to_thread(self._timed, address)
        except Exception as error:
            self._feeds.failed(address, self._reason(error), self._clock())
        else:
            self._feeds.rendered(address, fragment, marker, self._clock(), cost_s)
        self._wake()

    def _timed(self, address: Address) -> tuple[Fragment, float]:
        began = time.thread_time()
        fragment = self._render(address)
        return fragment, time.thread_time() - began

    def _reason(self, error: Exception) -> str:
        """For the viewers; the log has the rest. A page that fails must not end the others."""
        if isinstance(error, SQLAlchemyError):
            return f"the audit store cannot be read now: {getattr(error, 'orig', None) or error}"
        if self._limit.passes(str(error)) is not None:
            log.error("a live page cannot be rendered", exc_info=error)
        return "this page cannot be made now; the log of the dashboards says why"

    def _wake(self) -> None:
        for viewer in self._feeds.waiting(self._clock()):
            awake = self._asleep.get(viewer)
            if awake is not None and not awake.done():
                awake.set_result(None)

    def _end_all(self) -> None:
        if self._come is not None:
            self._come.set()
        for awake in self._asleep.values():
            if not awake.done():
                awake.set_result(None)


def _waker(awake: asyncio.Future[None]) -> Callable[[asyncio.Future[None]], None]:
    def wake(_gone: asyncio.Future[None]) -> None:
        if not awake.done():
            awake.set_result(None)

    return wake
