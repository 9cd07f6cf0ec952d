"""Producers that wait until records are exposed: with ``flush.before.expose``, when they are
flushed (section 3.1 of the Kafka paper: "a message is only exposed to the consumers after it is
flushed").

A waiting producer requests a flush at once. There is one flush of a partition at a time, so all
producers that arrive during one flush share the next one: a group commit.
"""

from __future__ import annotations

import asyncio

from tallymark.errors import KafkaError


class FlushWaiters:
    """The waiters of one partition. Belongs to the event loop."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def wait_for(self, offset: int) -> asyncio.Future[None]:
        """A future that is done when the record at ``offset`` is exposed; it fails with the error
        of :meth:`fail`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        return future

    def shown(self, high_watermark: int) -> None:
        """Records below ``high_watermark`` are exposed now."""
        waiting, self._waiting = self._waiting, []
        for offset, future in waiting:
            if future.done():  # its request no longer waits
                continue
            if offset < high_watermark:
                future.set_result(None)
            else:
                self._waiting.append((offset, future))

    def fail(self, error: KafkaError) -> None:
        """The records will not be exposed: all waiters get an error."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as retrieved, if its request no longer waits
