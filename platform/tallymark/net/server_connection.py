"""One accepted connection: frames in, responses out in the order of their requests.

::

    bytes ─► FrameBuffer ─► backlog ─► handler ─► slots (request order) ─► transport
                              ▲                     │
                              └── stops while ◄─────┘  too many requests are unanswered, or their
                                                       bytes are too many, or the peer does not read

Handlers are started in the order of arrival and may finish in any order; a response waits in its
slot for those before it. A request that fails takes its own connection down, with a line in the
log, and nothing else.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from tallymark.errors import ProtocolError
from tallymark.net.responses import CutFileError, Payload, PayloadWriter, is_plain, join_plain
from tallymark.protocol import frames
from tallymark.protocol.frames import RequestHeader

if TYPE_CHECKING:
    from tallymark.net.server import Server

log: Final = logging.getLogger(__name__)

_IN_MEMORY: Final = (bytes, bytearray, memoryview, list, tuple)

Answer: TypeAlias = Payload | None
"""None: the request has no response (Produce with acks=0)."""


class Handler(Protocol):
    """Answers one request. ``body`` is the frame behind its header: give it to ``decode(cls,
    header.api_version, body)``. May return the answer or an awaitable of it.

    Handlers of one connection are called in the order of its requests. A coroutine runs up to its
    first ``await`` before the next request is handed over (on Python 3.11: before the next
    coroutine). What a handler raises closes the connection; errors meant for the client are
    responses.
    """

    def __call__(
        self, header: RequestHeader, body: memoryview, connection: ServerConnection, /
    ) -> Answer | Awaitable[Answer]: ...


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one peer may ask of the server. Sizes in bytes, times in seconds."""

    max_frame_bytes: int = 100 * 1024 * 1024
    """Largest request (Kafka's socket.request.max.bytes)."""
    max_connections: int = 10_000
    max_unanswered: int = 128
    """Requests of one connection that are handled at the same time."""
    max_unanswered_bytes: int = 32 * 1024 * 1024
    """Their bytes; one request alone may be larger."""
    write_buffer_bytes: int = 1024 * 1024
    """Reading stops while more than this waits to be sent."""
    idle_timeout: float = 600.0
    """A connection on which nothing moved for so long is closed (connections.max.idle.ms)."""


class _Slot:
    """The place of one response. ``answer`` counts once ``ready``."""

    __slots__ = ("answer", "api_key", "ready", "size", "task")

    def __init__(self, api_key: int, size: int) -> None:
        self.api_key = api_key
        self.size = size
        self.answer: Answer = None
        self.ready = False
        self.task: asyncio.Task[Answer] | None = None


class ServerConnection(asyncio.Protocol):
    """One client of a :class:`~tallymark.net.server.Server`."""

    def __init__(self, server: Server) -> None:
        self.peer = "?"
        """``host:port`` of the client."""
        self.host = "?"
        """The address of the client."""
        self.principal = "User:ANONYMOUS"
        """Who it is: what TLS or SASL found out."""
        self.closed = False
        self.last_activity = 0.0
        """Loop time at which bytes last came in or a response last left."""
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._frames = frames.FrameBuffer(server.limits.max_frame_bytes)
        self._backlog: deque[memoryview] = deque()
        self._slots: deque[_Slot] = deque()
        self._unanswered_bytes = 0
        self._advancing = False
        self._stopping = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._drain_task: asyncio.Task[None] | None = None

    @property
    def unanswered(self) -> int:
        """Requests whose response has not left yet."""
        return len(self._slots) + len(self._backlog)

    def finish(self) -> None:
        """Read no more; close once every request taken so far is answered."""
        self._stopping = True
        self._backlog.clear()
        self._advance()

    @property
    def resting(self) -> bool:
        """Whether nothing moves unless the peer does: no handler is at work for it, or it does
        not read what it asked for."""
        return not self.unanswered or not self._writable.is_set()

    def abort(self) -> None:
        """Close at once; what the handlers that still run answer is dropped."""
        self._stopping = True
        self._backlog.clear()
        if self._drain_task is not None:
            # While the kernel sends a file the socket must not be closed under it: asyncio would
            # keep its descriptor registered and break the next connection that is given it.
            self._drain_task.cancel()
        elif not self.closed:
            self._transport.abort()

    # --- asyncio.Protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        self._writer = PayloadWriter(transport, self._writable.wait)
        name = transport.get_extra_info("peername")
        self.host = str(name[0]) if isinstance(name, tuple) else str(name or "local")
        self.peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else self.host
        self.last_activity = self._loop.time()
        if not self._server.admit(self, transport):
            self._stopping = True
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._stopping:
            return
        self.last_activity = self._loop.time()
        try:
            self._backlog.extend(self._frames.receive(data))
        except ProtocolError as error:
            self._give_up(f"bad frame: {error}")
            return
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._stopping = True
        self._writable.set()
        self._backlog.clear()
        for slot in self._slots:
            if slot.task is not None and slot.api_key in self._server.abandon:
                slot.task.cancel()
        self._server.forget(self)

    def pause_writing(self) -> None:
        self._writable.clear()
        self._set_reading()

    def resume_writing(self) -> None:
        self._writable.set()
        self.last_activity = self._loop.time()
        self._advance()

    # --- requests ---------------------------------------------------------------------------

    def _advance(self) -> None:
        """Hand over what may be handed over and write what may be written, until neither can."""
        if self._advancing or self.closed:
            return
        self._advancing = True
        try:
            self._write_ready()
            while self._backlog and self._has_room():
                self._hand_over(self._backlog.popleft())
                self._write_ready()
        finally:
            self._advancing = False
        if self._stopping and not self._slots and self._drain_task is None:
            self._transport.close()
        self._set_reading()

    def _has_room(self) -> bool:
        return (
            not self._stopping
            and self._writable.is_set()
            and len(self._slots) < self._limits.max_unanswered
            and (not self._slots or self._unanswered_bytes < self._limits.max_unanswered_bytes)
        )

    def _set_reading(self) -> None:
        if self.closed or self._writer.busy or self._transport.is_closing():
            return  # a running sendfile sets reading back as it was; the drain task comes by here
        wanted = not self._backlog and self._has_room()
        if wanted and not self._transport.is_reading():
            self._transport.resume_reading()
        elif not wanted and self._transport.is_reading():
            self._transport.pause_reading()

    def _hand_over(self, frame: memoryview) -> None:
        try:
            header, body_offset = frames.decode_request_header(frame)
        except ProtocolError as error:
            self._give_up(f"bad request header: {error}")
            return
        slot = _Slot(header.api_key, len(frame))
        self._slots.append(slot)
        self._unanswered_bytes += slot.size
        try:
            answer = self._server.handler(header, frame[body_offset:], self)
        except Exception as error:
            self._failed(slot, error)
            return
        if answer is None or isinstance(answer, _IN_MEMORY) or not inspect.isawaitable(answer):
            slot.answer, slot.ready = answer, True
            return
        slot.task = _start(answer if inspect.iscoroutine(answer) else _await(answer))
        if slot.task.done():
            self._finished(slot, slot.task)
        else:
            self._server.working.add(slot.task)
            slot.task.add_done_callback(lambda task: self._finished(slot, task))

    def _finished(self, slot: _Slot, task: asyncio.Task[Answer]) -> None:
        slot.task = None
        self._server.working.discard(task)
        if task.cancelled():
            if not self.closed:
                self.abort()
            return
        error = task.exception()
        if error is not None:
            self._failed(slot, error)
            return
        slot.answer, slot.ready = task.result(), True
        self._advance()

    def _failed(self, slot: _Slot, error: BaseException) -> None:
        if isinstance(error, ProtocolError):
            self._give_up(f"bad request (api key {slot.api_key}): {error}")
            return
        log.error(
            "api key %d of %s failed, its connection is closed",
            slot.api_key,
            self.peer,
            exc_info=error,
        )
        self.abort()

    def _give_up(self, why: str) -> None:
        log.warning("%s: %s; the connection is closed", self.peer, why)
        self.abort()

    # --- responses --------------------------------------------------------------------------

    def _write_ready(self) -> None:
        """Write the answers whose turn it is. What needs waiting is left to a task, which then
        owns the transport until it has nothing left to write."""
        while self._drain_task is None and self._slots and self._slots[0].ready:
            answer = self._slots[0].answer
            if answer is not None and not (self._writable.is_set() and is_plain(answer)):
                self._drain_task = self._loop.create_task(self._drain())
                self._drain_task.add_done_callback(self._drained)
                return
            self._take_slot()
            if answer is not None and not self._transport.is_closing():
                self._transport.write(join_plain(answer))

    async def _drain(self) -> None:
        while self._slots and self._slots[0].ready:
            answer = self._take_slot()
            if answer is not None:
                await self._writer.write(answer)

    def _drained(self, task: asyncio.Task[None]) -> None:
        self._drain_task = None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, OSError):
            log.info("%s went away: %s", self.peer, error)
        elif isinstance(error, CutFileError):
            log.error("%s: a response was cut short: %s", self.peer, error)
        elif error is not None:
            log.error("writing to %s failed", self.peer, exc_info=error)
        if task.cancelled() or error is not None:
            self.abort()
        else:
            self._advance()

    def _take_slot(self) -> Answer:
        slot = self._slots.popleft()
        self._unanswered_bytes -= slot.size
        self.last_activity = self._loop.time()
        return slot.answer


async def _await(answer: Awaitable[Answer]) -> Answer:
    return await answer


def _start(work: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
    """A task that has run up to its first suspension, where Python can do that."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
    return asyncio.get_running_loop().create_task(work)


OnClose: TypeAlias = Callable[[ServerConnection], None]
