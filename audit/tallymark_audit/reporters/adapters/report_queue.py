"""Reports on their way to a producer of another library, whose ``send`` may wait; the interceptor
must not.

What the interceptor publishes is put in a queue, from which the run's thread sends it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

_LOOK_SECONDS: Final = 0.02


class OutgoingReport(NamedTuple):
    """A record to send; ``timestamp`` in ms, None: now."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    future: Future[Any]


class WantedTopic(NamedTuple):
    """A topic to make."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    future: Future[bool]


class ReportQueue:
    """``send`` hands one record to the producer, ``make`` makes a topic, ``serve`` does what else
    is due; one thread at a time calls them. An error of ``send`` or ``make`` is the error of the
    future."""

    def __init__(
        self,
        send: Callable[[OutgoingReport], None],
        make: Callable[[WantedTopic], None],
        serve: Callable[[], None],
    ) -> None:
        self._send = send
        self._make = make
        self._serve = serve
        self._outgoing: deque[OutgoingReport] = deque()
        self._wanted: deque[WantedTopic] = deque()
        self._under_way: list[Future[Any]] = []

    def publish(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int | None
    ) -> Future[Any]:
        """See
        :class:`~tallymark.client.producing.interceptors.producer_interceptor.ProducerContext`."""
        future: Future[Any] = Future()
        self._outgoing.append(OutgoingReport(topic, key, value, timestamp, future))
        return future

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> Future[bool]:
        """See the same class."""
        future: Future[bool] = Future()
        self._wanted.append(WantedTopic(name, partitions, configs, future))
        return future

    def serve(self) -> None:
        """Send what is waiting."""
        while self._wanted:
            wanted = self._wanted.popleft()
            _try(self._make, wanted, wanted.future)
        while self._outgoing:
            outgoing = self._outgoing.popleft()
            self._under_way.append(outgoing.future)
            _try(self._send, outgoing, outgoing.future)
        self._serve()
        self._under_way = [future for future in self._under_way if not future.done()]

    def close(self, seconds: float) -> None:
        """Wait at most so long until all of it is acknowledged."""
        deadline = time.monotonic() + seconds
        self.serve()
        while self._under_way and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
            self.serve()


def _try(call: Callable[[Any], None], what: object, future: Future[Any]) -> None:
    try:
        call(what)
    except Exception as error:
        future.set_exception(error)
