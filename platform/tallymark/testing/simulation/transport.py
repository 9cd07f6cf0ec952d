"""One side of a simulated connection: an asyncio transport whose bytes take their time.

::

    write() ──► on the way (delays; cuts hold them) ──► arrived ──► the peer's protocol, unless it
       │                                                            has paused reading
       └── counted as unsent until the peer has read them: above the limit the writer is paused
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tallymark.testing.simulation.engine.process import Process

if TYPE_CHECKING:
    from tallymark.testing.simulation.network import Network

_END: Final = b""
"""The last of a side's chunks: it closes."""
_SHORTEST: Final = 0.0001
_LONGEST: Final = 0.002
_STRAGGLES: Final = 0.02
"""The share of chunks that take fifty times as long."""


class SimulatedTransport(asyncio.Transport):
    """``here`` and ``there``: (host, port) of both sides. Made by the network."""

    peer: SimulatedTransport

    def __init__(
        self,
        network: Network,
        process: Process,
        here: tuple[str, int],
        there: tuple[str, int],
        chance: Random,
    ) -> None:
        super().__init__({"peername": there, "sockname": here, "socket": None})
        self.here, self.there = here, there
        self._network = network
        self._loop = network.loop
        self._process = process
        self._chance = chance
        self._protocol: Any = None
        self._on_the_way: deque[tuple[float, bytes]] = deque()
        self._arrived: deque[bytes] = deque()
        self._unsent = 0
        self._high, self._low = 64 * 1024, 16 * 1024
        self._writing_paused = False
        self._reading_paused = False
        self._closing = False
        self._lost = False
        self._silent = False
        self._last_arrival = 0.0
        self._giving_up: asyncio.TimerHandle | None = None
        process.own(self)

    # -- asyncio --------------------------------------------------------------------------------

    def begin(self, make: Callable[[], Any]) -> None:
        """The connection stands."""
        if self._lost:
            return
        self._protocol = make()
        self._protocol.connection_made(self)
        self._deliver()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._lost or self._closing or not data:
            return
        self._send(bytes(data))
        self._unsent += len(data)
        if self._unsent > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self._unsent

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._loop.call_soon(self._deliver, context=self._process.context)

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """What was written still leaves."""
        if self._closing:
            return
        self._closing = True
        self._send(_END)
        if not self._unsent:
            self._lose_soon(None)

    def abort(self) -> None:
        """What was written is lost."""
        if self._lost:
            return
        self._closing = True
        self._lose_soon(None)
        self.peer.hear_reset(self._delay())

    # -- faults ---------------------------------------------------------------------------------

    def break_off(self, error: OSError) -> None:
        """This side finds the connection broken."""
        if not self._lost:
            self._closing = True
            self._lose_soon(error)

    def process_died(self) -> None:
        """The kernel closes the sockets of a killed process; one without power says nothing."""
        self._forget()
        if not self._silent:
            self.peer.hear_reset(self._delay())
        else:
            self.peer.give_up_later()

    def silence(self) -> None:
        """The host loses its power in this moment."""
        self._silent = True

    def hear_reset(self, delay: float) -> None:
        """The other side is gone; this side notices after a while, and later while the link is
        cut."""
        if not self._lost:
            self._loop.call_later(delay, self._reset, context=self._process.context)

    def give_up_later(self) -> None:
        """Nothing comes from the other side any more."""
        from tallymark.testing.simulation.network import GIVE_UP_SECONDS

        if not self._lost and self._giving_up is None:
            self._giving_up = self._loop.call_later(
                GIVE_UP_SECONDS, self._give_up, context=self._process.context
            )

    def look(self) -> None:
        """A link has healed: go on with what is on the way."""
        if self._giving_up is not None and self.peer._process.alive:
            self._giving_up.cancel()
            self._giving_up = None
        if self._on_the_way and not self._lost:
            self._plan()

    # -- inside ---------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        """Bytes leave for the peer, in one or two pieces."""
        at = self._chance.randrange(1, len(data)) if len(data) > 1 and self._few() else 0
        for piece in (data[:at], data[at:]) if at else (data,):
            self._last_arrival = max(self._last_arrival, self._loop.time() + self._delay())
            self._on_the_way.append((self._last_arrival, piece))
            if len(self._on_the_way) == 1:
                self._plan()

    def _plan(self) -> None:
        when = max(self._on_the_way[0][0], self._loop.time())
        self._loop.call_at(when, self._arrive, context=self.peer._process.context)

    def _arrive(self) -> None:
        """Runs at the peer's side."""
        if self._network.is_cut(self.here[0], self.there[0]):
            if self._on_the_way:
                self.give_up_later()
            return
        while self._on_the_way and self._on_the_way[0][0] <= self._loop.time():
            self.peer._arrived.append(self._on_the_way.popleft()[1])
        if self._on_the_way:
            self._plan()
        self.peer._deliver()

    def _deliver(self) -> None:
        while self._arrived and not self._reading_paused and self._protocol is not None:
            if self._lost:
                return
            piece = self._arrived.popleft()
            if piece == _END:
                self._ended()
                return
            self._feed(piece)
            self._loop.call_soon(
                self.peer._was_read, len(piece), context=self.peer._process.context
            )

    def _feed(self, piece: bytes) -> None:
        if self._closing:
            return
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(piece)
            return
        rest = memoryview(piece)
        while rest and not self._closing:
            space = memoryview(self._protocol.get_buffer(len(rest)))
            size = min(len(space), len(rest))
            space[:size] = rest[:size]
            self._protocol.buffer_updated(size)
            rest = rest[size:]
            if self._reading_paused and rest:
                self._arrived.appendleft(bytes(rest))
                return

    def _was_read(self, count: int) -> None:
        self._unsent = max(0, self._unsent - count)
        if self._writing_paused and self._unsent <= self._low and not self._lost:
            self._writing_paused = False
            self._protocol.resume_writing()
        if self._closing and not self._unsent:
            self._lose_soon(None)

    def _ended(self) -> None:
        """The other side has closed."""
        keep = self._protocol.eof_received()
        if not keep:
            self.close()
            self._unsent = 0
            self._lose_soon(None)

    def _reset(self) -> None:
        if self._network.is_cut(self.there[0], self.here[0]):
            self.give_up_later()
        else:
            self.break_off(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _give_up(self) -> None:
        self.break_off(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def _lose_soon(self, error: OSError | None) -> None:
        if not self._lost:
            self._forget()
            self._loop.call_soon(self._tell_lost, error, context=self._process.context)

    def _tell_lost(self, error: OSError | None) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def _forget(self) -> None:
        self._lost = self._closing = True
        self._arrived.clear()
        self._process.disown(self)
        self._network.connections.pop(self, None)
        if self._giving_up is not None:
            self._giving_up.cancel()

    def _delay(self) -> float:
        straggles = 50.0 if self._chance.random() < _STRAGGLES else 1.0
        delay = self._chance.uniform(_SHORTEST, _LONGEST)
        return delay * straggles * self._network.delay_factor

    def _few(self) -> bool:
        return self._chance.random() < 0.05
