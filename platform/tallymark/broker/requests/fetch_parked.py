"""A fetch under way: it looks, and while there is not enough it is parked until something changes.

A parked fetch is no task: it is a future, a timer and a place among the watchers of its partitions.
(Measured: 15 us instead of 20 to park and wake one; a consumer at the end of a log is woken by
every append.)
"""

from __future__ import annotations

import asyncio
from typing import Final

from tallymark.broker.fetch_sessions import FetchSession, grouped
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.requests.fetch_response import answer
from tallymark.broker.requests.fetch_round import FetchRound, Wanted, length_of, resolve
from tallymark.broker.state import BrokerState
from tallymark.net.server.handler import Answer, Connection
from tallymark.protocol.api import ApiKey
from tallymark.protocol.frames import RequestHeader
from tallymark.protocol.wire.fetch import PlainFetch

_MOST_WAIT_MS: Final = 300_000
"""A reader that names a longer wait is answered after this one; it asks again."""


class Fetching:
    """One request. ``session`` is the one it goes on with; ``new_id`` is the id of the session that
    it is to get, 0 for none."""

    def __init__(
        self,
        state: BrokerState,
        connection: Connection,
        header: RequestHeader,
        request: PlainFetch,
        session: FetchSession | None,
        new_id: int,
    ) -> None:
        self.state = state
        self.request = request
        self.partitions: list[Partition] = []
        """Those that the last look has found here."""
        self._connection = connection
        self._header = header
        self._session = session
        self._new_id = new_id
        self._wanted: list[Wanted] = []
        if session is None:
            self._asked = [(topic, ask) for topic, asks in request.topics for ask in asks]
        else:
            self._asked = [(key[0], each.ask) for key, each in session.partitions.items()]

    def look(self, *, wait: bool = True) -> FetchRound:
        """Read. Partitions are looked up anew each time: one may have been deleted, or its topic
        made again. ``wait`` is that of :class:`FetchRound`."""
        wanted = self._wanted = resolve(self.state, self._connection, self._asked)
        self.partitions = [each.found for each in wanted if isinstance(each.found, Partition)]
        return FetchRound(
            self.state,
            self.request,
            self._header.api_version,
            wanted,
            self._connection.listener,
            wait,
        )

    def answer(self, found: FetchRound) -> Answer:
        """The frame that tells of ``found``."""
        self._count(found)
        session, told = self._session, found.found
        if session is not None:
            told = session.told(told)
        elif self._new_id:
            state = self.state
            session = state.fetch_sessions.open(
                self.request, self._header.api_version, state.now_ms(), self._new_id
            )
            if session is not None:
                session.told(told)
        session_id = 0 if session is None else session.session_id
        return answer(self._header, self.request, session_id, grouped(told), found)

    def _count(self, found: FetchRound) -> None:
        for wanted, (_, each) in zip(self._wanted, found.found, strict=True):
            if isinstance(wanted.found, Partition):
                wanted.found.traffic.sent_bytes += length_of(each)
            if each.error_code:
                self.state.metrics.api(ApiKey.FETCH).failed(each.error_code)


def park(fetching: Fetching) -> asyncio.Future[Answer]:
    """The answer, when there is enough, when something failed, when the time is up, or when the
    broker stops. Whoever cancels it ends the fetch."""
    return _Parked(fetching).future


class _Parked:
    def __init__(self, fetching: Fetching) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._fetching = fetching
        self._watched = fetching.partitions
        self._woken = False
        self.future: asyncio.Future[Answer] = loop.create_future()
        self.future.add_done_callback(self._end)
        wait_ms = min(fetching.request.max_wait_ms, _MOST_WAIT_MS)
        self._timer = loop.call_later(wait_ms / 1000, self._look, True)
        for partition in self._watched:
            partition.watch(self)

    def set(self) -> None:
        """Something changed (:meth:`tallymark.broker.partitions.partition.Partition.watch`).
        Appends of one turn of the event loop wake once."""
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._look)

    def _look(self, last: bool = False) -> None:
        self._woken = False
        if self.future.done():
            return
        fetching = self._fetching
        try:
            found = fetching.look()
            if found.complete or last or fetching.state.stopping.is_set():
                self.future.set_result(fetching.answer(found))
                return
        except Exception as error:  # the connection logs it and closes
            self.future.set_exception(error)
            return
        if fetching.partitions != self._watched:
            self._unwatch()
            self._watched = fetching.partitions
            for partition in self._watched:
                partition.watch(self)

    def _unwatch(self) -> None:
        for partition in self._watched:
            partition.unwatch(self)

    def _end(self, _: asyncio.Future[Answer]) -> None:
        self._timer.cancel()
        self._unwatch()
