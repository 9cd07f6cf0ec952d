"""A network in memory: hosts, listeners, connections, and what can go wrong between them.

Bytes of one connection arrive in their order; connections overtake each other, because each has
delays of its own. A link may be *cut* in one direction: what is sent stays on its way until the cut
heals, or until the sender gives up (:data:`GIVE_UP_SECONDS`) and its peer knows nothing of that, a
half-open connection. A connection may be reset. A host that loses its power sends nothing more.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any, Final

from tallymark.testing.simulation.engine.chances import Chances
from tallymark.testing.simulation.engine.loop import SimulatedLoop
from tallymark.testing.simulation.engine.process import RUNNING, Process
from tallymark.testing.simulation.transport import SimulatedTransport

GIVE_UP_SECONDS: Final = 15.0
"""After so long without a sign of the other side a connection breaks."""
_NO_ANSWER_SECONDS: Final = 20.0


class SimulatedSocket:
    """What asyncio's servers show of their sockets. It has no descriptor."""

    def __init__(self, host: str, port: int) -> None:
        self._name = (host, port)

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def fileno(self) -> int:
        return -1


class Listener:
    """As ``asyncio.Server``."""

    def __init__(
        self, network: Network, process: Process, make: Callable[[], Any], host: str, port: int
    ) -> None:
        self.sockets = (SimulatedSocket(host, port),)
        self.make = make
        self.process = process
        self._network = network
        self._at = (host, port)
        process.own(self)

    def close(self) -> None:
        if self._network.listeners.get(self._at) is self:
            del self._network.listeners[self._at]
        self.process.disown(self)

    process_died = close

    async def wait_closed(self) -> None:
        """The connections are those of their owners."""


class Network:
    """All hosts of a simulation. The links in :attr:`cuts` deliver nothing: (from, to)."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.connections: dict[SimulatedTransport, None] = {}
        self.cuts: dict[tuple[str, str], None] = {}
        self.delay_factor = 1.0
        self._chances: Chances = loop.chances
        self._made = 0
        self._next_port = 40_000
        loop.network = self

    # -- faults ---------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """From now on nothing gets from one host to the other."""
        self.cuts[source, target] = None

    def heal(self, source: str, target: str) -> None:
        """What was on its way arrives."""
        self.cuts.pop((source, target), None)
        for connection in list(self.connections):
            connection.look()

    def is_cut(self, source: str, target: str) -> bool:
        """Whether the link delivers nothing."""
        return (source, target) in self.cuts

    def reset(self, connection: SimulatedTransport) -> None:
        """The connection breaks for both sides."""
        for side in (connection, connection.peer):
            side.break_off(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    # -- the loop's side ------------------------------------------------------------------------

    async def listen(self, make: Callable[[], Any], host: str, port: int) -> Listener:
        """``loop.create_server``."""
        process = _current()
        if not port:
            self._next_port += 1
            port = self._next_port
        if host != process.host:
            raise OSError(errno.EADDRNOTAVAIL, f"{process} is not on {host}")
        if (host, port) in self.listeners:
            raise OSError(errno.EADDRINUSE, f"{host}:{port}")
        listener = self.listeners[host, port] = Listener(self, process, make, host, port)
        return listener

    async def connect(
        self, make: Callable[[], Any], host: str, port: int
    ) -> tuple[SimulatedTransport, Any]:
        """``loop.create_connection``."""
        process = _current()
        self._made += 1
        chance = self._chances.fresh(f"connection {self._made}")
        await asyncio.sleep(chance.uniform(0.0001, 0.002) * self.delay_factor)
        if self.is_cut(process.host, host) or self.is_cut(host, process.host):
            await asyncio.sleep(_NO_ANSWER_SECONDS)
            raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")
        listener = self.listeners.get((host, port))
        if listener is None or not listener.process.alive:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {host}:{port}")
        self._next_port += 1
        here, there = (process.host, self._next_port), (host, port)
        ours = SimulatedTransport(self, process, here, there, chance)
        theirs = SimulatedTransport(self, listener.process, there, here, chance)
        ours.peer, theirs.peer = theirs, ours
        for side in (ours, theirs):
            self.connections[side] = None
        delay = chance.uniform(0.0, 0.001)
        accepting = listener.process.context
        self.loop.call_later(delay, theirs.begin, listener.make, context=accepting)
        protocol = make()
        ours.begin(lambda: protocol)
        return ours, protocol


def _current() -> Process:
    process = RUNNING.get()
    assert process is not None, "only a simulated process has a network"
    return process
