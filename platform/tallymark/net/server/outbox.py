"""The answers of one connection: puts them in the order of the requests and writes them.

::

    handler ─► place (request order) ─► ready ─► out ─► transport       bytes: one write a turn
                                          └────► a task ─► sendfile     what the socket does not
                                                                        take at once
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from tallymark.net.server.handler import Answer
from tallymark.net.server.responses import PayloadWriter

WRITE_AT: Final = 64 * 1024
"""When so many bytes of answers are ready, they are written before more requests are handled."""


class Place:
    """The place of one answer in the queue. ``answer`` is valid once ``ready``; ``size`` is that of
    the request; ``task`` is the handler while it runs."""

    __slots__ = ("answer", "api_key", "ready", "size", "task")

    def __init__(self, api_key: int, size: int) -> None:
        self.api_key = api_key
        self.size = size
        self.answer: Answer = None
        self.ready = False
        self.task: asyncio.Future[Answer] | None = None


class AnswerQueue(deque[Place]):
    """The places of all answers that are not sent, in the order of their requests. Pure.
    ``request_bytes``: bytes of those requests."""

    def __init__(self) -> None:
        super().__init__()
        self.request_bytes = 0

    def add(self, api_key: int, size: int) -> Place:
        """A new place after all others."""
        place = Place(api_key, size)
        self.append(place)
        self.request_bytes += size
        return place

    @property
    def has_next(self) -> bool:
        """Whether the first answer is ready."""
        return bool(self) and self[0].ready

    def take(self) -> Answer:
        """Remove and return the first answer."""
        place = self.popleft()
        self.request_bytes -= place.size
        return place.answer


class Outbox:
    """Writes the answers of ``queue`` to ``transport``. ``writable`` is set while the transport has
    room. Answers that cannot be written at once are written by a task, which calls
    ``drained(error)`` at its end: with None, or with the error that broke the connection
    (CancelledError after :meth:`cancel`)."""

    def __init__(
        self,
        queue: AnswerQueue,
        transport: asyncio.Transport,
        writable: asyncio.Event,
        drained: Callable[[BaseException | None], None],
    ) -> None:
        self.sent_at = 0.0
        """Loop time at which an answer was last taken from the queue."""
        self.out_bytes = 0
        """Bytes of answers that :meth:`flush` will write."""
        self._queue = queue
        self._transport = transport
        self._writable = writable
        self._when_drained = drained
        self._loop = asyncio.get_running_loop()
        self._writer = PayloadWriter(transport, writable.wait)
        self._out: list[bytes] = []
        self._drain_task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no answer waits in the queue, and no task writes one."""
        return not self._queue and self._drain_task is None

    @property
    def has_socket(self) -> bool:
        """Whether the kernel is sending a file: the transport must not be used then."""
        return self._writer.busy

    def put(self, answer: bytes) -> None:
        """Add an answer with no others before it (:attr:`is_idle`)."""
        self._out.append(answer)
        self.out_bytes += len(answer)

    def collect(self) -> None:
        """Take the answers that may be sent now. Those that cannot be written at once are left to a
        task, which then owns the transport until it has written all of them."""
        queue = self._queue
        while self._drain_task is None and queue.has_next:
            answer = queue[0].answer
            if answer is None:
                self._take()
            elif isinstance(answer, bytes) and self._writable.is_set():
                self._take()
                self.put(answer)
            else:
                self.flush()
                rest = self._writer.write_now(answer) if self._writable.is_set() else answer
                if rest:
                    queue[0].answer = rest
                    self._drain_task = self._loop.create_task(self._drain())
                    self._drain_task.add_done_callback(self._drained)
                    return
                self._take()

    def flush(self) -> None:
        """Write the answers that are ready, with one write, since each is a system call."""
        out = self._out
        if out:
            data = out[0] if len(out) == 1 else b"".join(out)
            self._out = []
            self.out_bytes = 0
            if not self._transport.is_closing():
                self._transport.write(data)

    def cancel(self) -> bool:
        """Cancel the task that writes; False where there is none.

        The socket must not be closed while the kernel sends a file: asyncio would keep the
        descriptor registered, and break the next connection that gets the same descriptor."""
        if self._drain_task is None:
            return False
        self._drain_task.cancel()
        return True

    async def _drain(self) -> None:
        while self._queue.has_next:
            answer = self._take()
            if answer is not None:
                await self._writer.write(answer)

    def _drained(self, task: asyncio.Task[None]) -> None:
        self._drain_task = None
        self._when_drained(asyncio.CancelledError() if task.cancelled() else task.exception())

    def _take(self) -> Answer:
        self.sent_at = self._loop.time()
        return self._queue.take()
