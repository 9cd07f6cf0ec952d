"""One accepted connection: frames in, responses out in the order of their requests.

::

    bytes ─► Inbox ─► backlog ─► handler ─► Outbox (request order) ─► transport
                        ▲                     │
                        └── stops while ◄─────┘  too many requests are unanswered, or their
                                                 bytes are too many, or the peer does not read

Handlers are started in the order of arrival and may finish in any order; a response waits in its
place for those before it. All responses that are ready in one turn of the event loop are sent with
one write. A request that fails closes its own connection and is logged; nothing else ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from typing import Final, cast

from tallymark.errors import ProtocolError
from tallymark.net.inbox import Inbox
from tallymark.net.sasl.server_session import SaslSession
from tallymark.net.server.handler import BARE, Answer, run
from tallymark.net.server.outbox import WRITE_AT, AnswerQueue, Outbox, Place
from tallymark.net.server.owner import Owner
from tallymark.net.server.responses import CutFileError, Payload
from tallymark.net.tls.contexts import peer_name
from tallymark.net.tls.handshake import names_of
from tallymark.protocol.frames import decode_request_header

log: Final = logging.getLogger(__name__)

_TURN: Final = 128
"""Requests of a connection handled in one turn of the event loop; the rest wait, so that other
connections get their turn."""
_TURN_SECONDS: Final = 0.002
"""After so much time no other request is begun in that turn, either."""
_LAST_ANSWERS_SECONDS: Final = 5.0
_FAILED: Final = "api key %d of %s failed, its connection is closed; repeated=%d"


class ServerConnection(asyncio.BufferedProtocol):
    """One client of ``owner``; its handler sees it as a
    :class:`~tallymark.net.server.handler.Connection`."""

    def __init__(self, owner: Owner[ServerConnection]) -> None:
        self.peer = self.host = "?"
        self.principal = "User:ANONYMOUS"
        self.sasl: SaslSession | None = None
        self.listener = owner.listener
        self.bare_frames = False
        self.closed = False
        self.accepted_at = 0.0
        """Loop time at which the connection was accepted."""
        self.partial_since: float | None = None
        """Loop time of the first byte of a request that is not whole yet."""
        self._owner = owner
        self._limits = limits = owner.limits
        self._loop = asyncio.get_running_loop()
        sizes = limits.max_frame_bytes, limits.max_small_bytes, limits.large_keys
        self._inbox = Inbox(self, owner.scratch, owner.request_memory, *sizes)
        self._backlog: deque[memoryview] = deque()
        self._answers = AnswerQueue()
        self._advancing = False
        self._is_due = False  # :meth:`_advance`, in the next turn of the event loop
        self._stopping = False
        self._muted = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._active_at = 0.0
        self._end: asyncio.TimerHandle | None = None

    @property
    def unanswered(self) -> int:
        """Requests whose response has not been sent yet."""
        return len(self._answers) + len(self._backlog)

    @property
    def last_activity(self) -> float:
        """Loop time at which bytes were last received or a response was last sent."""
        return max(self._active_at, self._outbox.sent_at)

    def finish(self) -> None:
        """Stop reading; close once every request read so far is answered."""
        self._stopping = True
        self._backlog.clear()
        self._advance()

    def allow_frames(self, max_bytes: int) -> None:
        """From here on requests may have ``max_bytes`` bytes."""
        self._inbox.allow(max_bytes)

    def end_in(self, seconds: float | None) -> None:
        """Stop reading after ``seconds``, and close: requests read before get a moment to be
        answered. A later call replaces an earlier one. None: the connection stays open."""
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
        """Handle and read nothing more for ``seconds``; answers are still sent (KIP-219)."""
        self._muted += 1
        self._loop.call_later(seconds, self._unmute)

    def _unmute(self) -> None:
        self._muted -= 1
        self._advance()

    @property
    def resting(self) -> bool:
        """Whether the connection waits only for its peer: no handler is working for the peer, or
        the peer does not read its responses."""
        return not self.unanswered or not self._writable.is_set()

    def abort(self) -> None:
        """Close at once; answers of handlers that still run are dropped."""
        self._stopping = True
        self._backlog.clear()
        if not self._outbox.cancel() and not self.closed:
            self._transport.abort()

    # --- asyncio.BufferedProtocol -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, no assert: the transports of other loops (uvloop) have the methods, not the class.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        self._outbox = Outbox(self._answers, transport, self._writable, self._drained)
        if self.host == "?":
            self.host, self.peer = names_of(transport)
        if name := peer_name(transport.get_extra_info("ssl_object")):
            self.principal = f"User:{self._owner.principals.user(name)}"
        self.accepted_at = self._active_at = self._loop.time()
        if not self._owner.admit(self, transport):
            self._stopping = True
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.space()

    def buffer_updated(self, nbytes: int) -> None:
        if self._stopping:
            return
        inbox = self._inbox
        self._active_at = self._loop.time()
        try:
            self._backlog.extend(inbox.take(nbytes))
        except ProtocolError as error:
            self._give_up(f"bad frame: {error}")
            return
        if not inbox.partial:
            self.partial_since = None
        elif self._backlog or self.partial_since is None:
            self.partial_since = self._active_at
        if self._backlog:
            self._advance()
        elif inbox.starved:
            self._set_reading()

    def data_received(self, data: bytes) -> None:
        """Bytes that the TLS handshake has read from the socket after its own last message."""
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
        """Memory is granted for the request that is arriving (:class:`RequestMemory`)."""
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
        for place in self._answers:
            if place.task is not None and place.api_key in self._owner.abandon:
                place.task.cancel()
        self._owner.forget(self)

    def pause_writing(self) -> None:
        self._writable.clear()
        self._set_reading()

    def resume_writing(self) -> None:
        self._writable.set()
        self._active_at = self._loop.time()
        self._advance()

    # --- requests ---------------------------------------------------------------------------

    def _advance(self) -> None:
        """Start handlers and write answers until neither is possible."""
        self._is_due = False
        if self._advancing or self.closed:
            return
        self._advancing = True
        turn = _TURN
        try:
            self._outbox.collect()
            others_at = self._loop.time() + _TURN_SECONDS if len(self._backlog) > 1 else 0.0
            while self._backlog and self._has_room() and turn:
                turn -= 1
                self._hand_over(self._backlog.popleft())
                if turn and self._backlog and self._loop.time() > others_at:
                    turn = 0
                if self._outbox.out_bytes >= WRITE_AT:
                    self._outbox.flush()
            self._outbox.flush()
        finally:
            self._advancing = False
        if not self._backlog:
            self._inbox.release()
        elif not turn:
            self._loop.call_soon(self._advance)
        if self._stopping and self._outbox.is_idle and not self._transport.is_closing():
            # Only once: with TLS, asyncio's abort() does nothing after a second close().
            self._transport.close()
        self._set_reading()

    def _has_room(self) -> bool:
        answers = self._answers
        return (
            not self._stopping
            and not self._muted
            and self._writable.is_set()
            and len(answers) < self._limits.max_unanswered
            and (not answers or answers.request_bytes < self._limits.max_unanswered_bytes)
        )

    def _set_reading(self) -> None:
        if self.closed or self._outbox.has_socket or self._transport.is_closing():
            return  # sendfile restores the state of reading at its end; the drain task calls this
        wanted = not self._backlog and self._has_room() and not self._inbox.starved
        if wanted and not self._transport.is_reading():
            self._transport.resume_reading()
            self.partial_since = self._loop.time() if self._inbox.partial else None
        elif not wanted and self._transport.is_reading():
            self._transport.pause_reading()
            self.partial_since = None  # now the request waits for us

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
        if self._outbox.is_idle:
            # By far the most answers need not wait for others, nor for anything else.
            if isinstance(answer, bytes):
                self._outbox.put(answer)
                return
            if answer is None:
                return
        place = self._answers.add(header.api_key, len(frame))
        if answer is None or isinstance(answer, bytes | Payload):
            place.answer, place.ready = answer, True
            self._outbox.collect()
        else:
            self._await(place, answer)

    def _await(self, place: Place, answer: Awaitable[Answer]) -> None:
        task = place.task = run(answer)
        if task.done():
            self._finished(place, task)
        else:
            self._owner.working.add(task)
            task.add_done_callback(lambda task: self._finished(place, task))

    def _finished(self, place: Place, task: asyncio.Future[Answer]) -> None:
        place.task = None
        self._owner.working.discard(task)
        if task.cancelled():
            if not self.closed:
                self.abort()
            return
        error = task.exception()
        if error is not None:
            self._failed(place.api_key, error)
            return
        place.answer, place.ready = task.result(), True
        if self._advancing:
            self._outbox.collect()
        elif len(self._answers) == 1:
            self._advance()
        elif self._answers.has_next and not self._is_due:
            # One commit answers many requests: their answers leave with one write.
            self._is_due = True
            self._loop.call_soon(self._advance)

    def _failed(self, api_key: int, error: BaseException) -> None:
        self._outbox.flush()  # send the answers to earlier requests
        if isinstance(error, ProtocolError):
            self._give_up(f"bad request (api key {api_key}): {error}")
            return
        # A bug of ours: one line for all hosts.
        held = self._owner.log_rate.passes((api_key, type(error)))
        if held is not None:
            log.error(_FAILED, api_key, self.peer, held, exc_info=error)
        self.abort()

    def _give_up(self, why: str) -> None:
        held = self._owner.log_rate.passes(("gave up", self.host))
        if held is not None:
            log.warning("%s: %s; the connection is closed; repeated=%d", self.peer, why, held)
        self.abort()

    def _drained(self, error: BaseException | None) -> None:
        """The outbox's task has written its answers, or has failed with ``error``."""
        if error is None:
            self._advance()
            return
        if isinstance(error, OSError | CutFileError):
            gone = isinstance(error, OSError)
            what = "went away" if gone else "got a response that was cut short"
            held = self._owner.log_rate.passes((what, self.host))
            if held is not None:
                level = logging.INFO if gone else logging.ERROR
                log.log(level, "%s %s: %s; repeated=%d", self.peer, what, error, held)
        elif not isinstance(error, asyncio.CancelledError):
            log.error("writing to %s failed", self.peer, exc_info=error)
        self.abort()
