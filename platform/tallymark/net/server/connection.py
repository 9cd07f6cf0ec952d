"""One accepted connection: frames in, responses out in the order of their requests.

::

    bytes ─► Inbox ─► backlog ─► handler ─► slots (request order) ─► out ─► transport
                        ▲                     │
                        └── stops while ◄─────┘  too many requests are unanswered, or their
                                                 bytes are too many, or the peer does not read

Handlers are started in the order of arrival and may finish in any order; a response waits in its
slot for those before it. What is ready in one turn of the event loop leaves with one write. A
request that fails takes its own connection down, with a line in the log, and nothing else.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Coroutine
from typing import Any, Final, Protocol, cast

from tallymark.errors import ProtocolError
from tallymark.net.inbox import Inbox
from tallymark.net.limits.log_rate import RateLimit
from tallymark.net.limits.request_memory import RequestMemory
from tallymark.net.sasl.server_session import SaslSession
from tallymark.net.server.handler import BARE, Answer, Handler
from tallymark.net.server.limits import ServerLimits
from tallymark.net.server.responses import CutFileError, Payload, PayloadWriter
from tallymark.net.tls.contexts import peer_name
from tallymark.net.tls.handshake import names_of
from tallymark.net.tls.principals import PrincipalRules
from tallymark.protocol.frames import decode_request_header

log: Final = logging.getLogger(__name__)

_TURN: Final = 128
"""Requests handled in one turn of the event loop: what comes behind them lets others go first."""
_TURN_SECONDS: Final = 0.002
"""Nor does another request begin in that turn when so much of it has passed."""
_LAST_ANSWERS_SECONDS: Final = 5.0
_WRITE_AT: Final = 64 * 1024
"""Bytes of answers that are written before more requests are looked at."""


class Owner(Protocol):
    """The server that accepted a connection, as the connection sees it."""

    handler: Handler
    listener: str
    """Its name."""
    limits: ServerLimits
    principals: PrincipalRules
    """From the name in a certificate to a user."""
    abandon: frozenset[int]
    """API keys whose handlers are cancelled when their client goes away."""
    request_memory: RequestMemory
    scratch: memoryview
    """Memory that all connections receive into, one at a time."""
    working: set[asyncio.Future[Answer]]
    """Handlers that have not ended; a connection adds its own and removes them."""
    log_rate: RateLimit
    """Which log lines of each host were written of late."""

    def admit(self, connection: ServerConnection, transport: asyncio.Transport) -> bool:
        """Count a new connection. False: there are too many, and it is to be closed."""
        ...

    def forget(self, connection: ServerConnection) -> None:
        """A connection has ended."""


class Slot:
    """The place of one response. ``answer`` counts once ``ready``."""

    __slots__ = ("answer", "api_key", "ready", "size", "task")

    def __init__(self, api_key: int, size: int) -> None:
        self.api_key = api_key
        self.size = size
        self.answer: Answer = None
        self.ready = False
        self.task: asyncio.Future[Answer] | None = None


class ServerConnection(asyncio.BufferedProtocol):
    """One client of ``owner``; its handler sees it as a
    :class:`~tallymark.net.server.handler.Connection`."""

    def __init__(self, owner: Owner) -> None:
        self.peer = "?"
        """``host:port`` of the client."""
        self.host = "?"
        """The address of the client."""
        self.principal = "User:ANONYMOUS"
        """Who it is: what TLS or SASL found out."""
        self.sasl: SaslSession | None = None
        """Its log-in, on listeners that ask for one."""
        self.listener = owner.listener
        """The name of the listener it came in by."""
        self.bare_frames = False
        """Whether frames are no requests but go to the handler whole, under :data:`BARE` (the
        oldest form of SASL)."""
        self.closed = False
        self.accepted_at = 0.0
        """Loop time at which it began."""
        self.last_activity = 0.0
        """Loop time at which bytes last came in or a response last left."""
        self.partial_since: float | None = None
        """Loop time since which a request has been arriving and is not whole."""
        self._owner = owner
        self._limits = limits = owner.limits
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox(
            self,
            owner.scratch,
            owner.request_memory,
            limits.max_frame_bytes,
            limits.max_small_bytes,
            limits.large_keys,
        )
        self._backlog: deque[memoryview] = deque()
        self._slots: deque[Slot] = deque()
        self._out: list[Any] = []
        self._out_bytes = 0
        self._unanswered_bytes = 0
        self._advancing = False
        self._stopping = False
        self._muted = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._drain_task: asyncio.Task[None] | None = None
        self._end: asyncio.TimerHandle | None = None

    @property
    def unanswered(self) -> int:
        """Requests whose response has not left yet."""
        return len(self._slots) + len(self._backlog)

    def finish(self) -> None:
        """Read no more; close once every request taken so far is answered."""
        self._stopping = True
        self._backlog.clear()
        self._advance()

    def allow_frames(self, max_bytes: int) -> None:
        """From here on requests may have so many bytes."""
        self._inbox.allow(max_bytes)

    def end_in(self, seconds: float | None) -> None:
        """Read no more after so long, unless it is called again before, and close: what was taken
        has a moment to be answered. None: the connection goes on."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if seconds is not None and not self.closed:
            self._end = self._loop.call_later(seconds, self._ended)

    def _ended(self) -> None:
        log.debug("%s: its session has ended; the connection is closed", self.peer)
        self._end = self._loop.call_later(_LAST_ANSWERS_SECONDS, self.abort)
        self.finish()

    def mute(self, seconds: float) -> None:
        """Hand over and read nothing more for so long; what is answered leaves (KIP-219)."""
        self._muted += 1
        self._loop.call_later(seconds, self._unmute)

    def _unmute(self) -> None:
        self._muted -= 1
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

    # --- asyncio.BufferedProtocol -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: the transports of other loops (uvloop) have the methods, not the class.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        self._writer = PayloadWriter(transport, self._writable.wait)
        if self.host == "?":
            self.host, self.peer = names_of(transport)
        if name := peer_name(transport.get_extra_info("ssl_object")):
            self.principal = f"User:{self._owner.principals.user(name)}"
        self.accepted_at = self.last_activity = self._loop.time()
        if not self._owner.admit(self, transport):
            self._stopping = True
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.space()

    def buffer_updated(self, nbytes: int) -> None:
        if self._stopping:
            return
        inbox = self._inbox
        self.last_activity = self._loop.time()
        try:
            self._backlog.extend(inbox.take(nbytes))
        except ProtocolError as error:
            self._give_up(f"bad frame: {error}")
            return
        if not inbox.partial:
            self.partial_since = None
        elif self._backlog or self.partial_since is None:
            self.partial_since = self.last_activity
        if self._backlog:
            self._advance()
        elif inbox.starved:
            self._set_reading()

    def data_received(self, data: bytes) -> None:
        """Bytes that somebody else has read from the socket: the last ones of a TLS handshake."""
        rest = memoryview(data)
        while rest and not self._stopping:
            if self._inbox.starved:
                self._give_up("no memory for what came with the handshake")
                return
            space = self._inbox.space()
            size = min(len(space), len(rest))
            space[:size] = rest[:size]
            rest = rest[size:]
            self.buffer_updated(size)

    def memory_granted(self) -> None:
        """There is room for the request that is arriving (:class:`RequestMemory`)."""
        self._inbox.memory_granted()
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._end is not None:
            self._end.cancel()  # it would keep the connection in memory
        self._stopping = True
        self._writable.set()
        self._backlog.clear()
        self._inbox.release(all_of_it=True)
        for slot in self._slots:
            if slot.task is not None and slot.api_key in self._owner.abandon:
                slot.task.cancel()
        self._owner.forget(self)

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
        turn = _TURN
        try:
            self._collect_ready()
            others_at = self._loop.time() + _TURN_SECONDS if len(self._backlog) > 1 else 0.0
            while self._backlog and self._has_room() and turn:
                turn -= 1
                self._hand_over(self._backlog.popleft())
                if turn and self._backlog and self._loop.time() > others_at:
                    turn = 0
                if self._out_bytes >= _WRITE_AT:
                    self._flush()
            self._flush()
        finally:
            self._advancing = False
        if not self._backlog:
            self._inbox.release()
        elif not turn:
            self._loop.call_soon(self._advance)
        ended = self._stopping and not self._slots and self._drain_task is None
        if ended and not self._transport.is_closing():
            # Only once: on TLS a second close() makes asyncio's abort() do nothing from then on.
            self._transport.close()
        self._set_reading()

    def _has_room(self) -> bool:
        return (
            not self._stopping
            and not self._muted
            and self._writable.is_set()
            and len(self._slots) < self._limits.max_unanswered
            and (not self._slots or self._unanswered_bytes < self._limits.max_unanswered_bytes)
        )

    def _set_reading(self) -> None:
        if self.closed or self._writer.busy or self._transport.is_closing():
            return  # a running sendfile sets reading back as it was; the drain task comes by here
        wanted = not self._backlog and self._has_room() and not self._inbox.starved
        if wanted and not self._transport.is_reading():
            self._transport.resume_reading()
            self.partial_since = self._loop.time() if self._inbox.partial else None
        elif not wanted and self._transport.is_reading():
            self._transport.pause_reading()
            self.partial_since = None  # now it is we who make the request wait

    def _hand_over(self, frame: memoryview) -> None:
        header, body_offset = BARE, 0
        if not self.bare_frames:
            try:
                header, body_offset = decode_request_header(frame)
            except ProtocolError as error:
                self._give_up(f"bad request header: {error}")
                return
        try:
            answer = self._owner.handler(header, frame[body_offset:], self)
        except Exception as error:
            self._failed(header.api_key, error)
            return
        if not self._slots and self._drain_task is None:
            # By far the most answers have nothing before them and nothing to wait for.
            if isinstance(answer, bytes):
                self._out.append(answer)
                self._out_bytes += len(answer)
                return
            if answer is None:
                return
        slot = Slot(header.api_key, len(frame))
        self._slots.append(slot)
        self._unanswered_bytes += slot.size
        if answer is None or isinstance(answer, bytes | Payload):
            slot.answer, slot.ready = answer, True
            self._collect_ready()
            return
        if isinstance(answer, asyncio.Future):
            slot.task = answer
        else:
            slot.task = _start(answer if inspect.iscoroutine(answer) else _await(answer))
        if slot.task.done():
            self._finished(slot, slot.task)
        else:
            self._owner.working.add(slot.task)
            slot.task.add_done_callback(lambda task: self._finished(slot, task))

    def _finished(self, slot: Slot, task: asyncio.Future[Answer]) -> None:
        slot.task = None
        self._owner.working.discard(task)
        if task.cancelled():
            if not self.closed:
                self.abort()
            return
        error = task.exception()
        if error is not None:
            self._failed(slot.api_key, error)
            return
        slot.answer, slot.ready = task.result(), True
        if self._advancing:
            self._collect_ready()
        else:
            self._advance()

    def _failed(self, api_key: int, error: BaseException) -> None:
        self._flush()  # what was answered before it is not its fault
        if isinstance(error, ProtocolError):
            self._give_up(f"bad request (api key {api_key}): {error}")
            return
        held = self._owner.log_rate.passes((api_key, type(error)))  # a bug of ours, whoever met it
        if held is not None:
            log.error(
                "api key %d of %s failed, its connection is closed; repeated=%d",
                *(api_key, self.peer, held),
                exc_info=error,
            )
        self.abort()

    def _give_up(self, why: str) -> None:
        held = self._owner.log_rate.passes(("gave up", self.host))
        if held is not None:
            log.warning("%s: %s; the connection is closed; repeated=%d", self.peer, why, held)
        self.abort()

    # --- responses --------------------------------------------------------------------------

    def _collect_ready(self) -> None:
        """Write the answers whose turn it is. What needs waiting is left to a task, which then
        owns the transport until it has nothing left to write."""
        while self._drain_task is None and self._slots and self._slots[0].ready:
            answer = self._slots[0].answer
            if answer is None:
                self._take_slot()
            elif isinstance(answer, bytes) and self._writable.is_set():
                self._take_slot()
                self._out.append(answer)
                self._out_bytes += len(answer)
            else:
                self._flush()
                rest = self._writer.write_now(answer) if self._writable.is_set() else answer
                if rest:
                    self._slots[0].answer = rest
                    self._drain_task = self._loop.create_task(self._drain())
                    self._drain_task.add_done_callback(self._drained)
                    return
                self._take_slot()

    def _flush(self) -> None:
        """Hand what is ready to the transport. One write: each is a system call."""
        out = self._out
        if out:
            data = out[0] if len(out) == 1 else b"".join(out)
            self._out = []
            self._out_bytes = 0
            if not self._transport.is_closing():
                self._transport.write(data)

    async def _drain(self) -> None:
        while self._slots and self._slots[0].ready:
            answer = self._take_slot()
            if answer is not None:
                await self._writer.write(answer)

    def _drained(self, task: asyncio.Task[None]) -> None:
        self._drain_task = None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, OSError):
            self._tell(logging.INFO, "went away", error)
        elif isinstance(error, CutFileError):
            self._tell(logging.ERROR, "got a response that was cut short", error)
        elif error is not None:
            log.error("writing to %s failed", self.peer, exc_info=error)
        if task.cancelled() or error is not None:
            self.abort()
        else:
            self._advance()

    def _tell(self, level: int, what: str, error: Exception) -> None:
        held = self._owner.log_rate.passes((what, self.host))
        if held is not None:
            log.log(level, "%s %s: %s; repeated=%d", self.peer, what, error, held)

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
