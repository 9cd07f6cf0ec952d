"""A broker's connection to the simulated ZooKeeper: delays, cuts, and answers that are lost after
the commit.

The client pings as kazoo does. When it has got nothing from the server for two thirds of the
session's timeout it knows that it is SUSPENDED and tries to connect again; the server ends a
session from which it got nothing for the whole timeout. So after a long cut the client learns that
its session is LOST when it is back, as in reality.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar, cast

from tallymark.coordination import Access
from tallymark.coordination.session.client import Waiting
from tallymark.coordination.session.nodes import Create, Step
from tallymark.errors import ConnectError
from tallymark.testing.simulation.engine.jobs import Jobs
from tallymark.testing.simulation.engine.process import Process
from tallymark.testing.simulation.network import Network
from tallymark.testing.zookeeper_tree.client import TreeClient
from tallymark.testing.zookeeper_tree.ensemble import Ensemble, Watched
from tallymark.testing.zookeeper_tree.tree import Actor, Right

T = TypeVar("T")

HOST: Final = "127.0.1.1"
EPOCH_MS: Final = 1_700_000_000_000
"""The wall clock at the beginning of every run, ms UTC."""
_RETRY_SECONDS: Final = 0.3
_OPEN: Final[tuple[Right, ...]] = ((31, "world", "anyone"),)


class SimulatedZooKeeper:
    """The servers, as one. ``lose_answers``: the share of commands whose connection breaks after
    they were executed; ``lose_commands``: before."""

    def __init__(self, jobs: Jobs, network: Network) -> None:
        self.ensemble = Ensemble()
        self.jobs = jobs
        self.network = network
        self.lose_answers = 0.0
        self.lose_commands = 0.0
        self._made = 0
        jobs.loop.call_later(0.5, self._tick)

    def now_ms(self) -> int:
        """The servers' clock."""
        return EPOCH_MS + int(self.jobs.loop.time() * 1000)

    def client_of(self, process: Process) -> Callable[..., SimulatedZooKeeperClient]:
        """For ``Ports.zookeeper`` of a broker."""

        def make(
            hosts: str, session_seconds: float, listener: Callable[[str], None], access: Access
        ) -> SimulatedZooKeeperClient:
            self._made += 1
            return SimulatedZooKeeperClient(
                self, process, self._made, hosts, session_seconds, listener, access
            )

        return make

    def make(self, path: str, data: bytes) -> None:
        """As an operator before any broker: a node and those above it."""
        actor = self.ensemble.actor(self.ensemble.open(1000, "", self.now_ms()), self.now_ms())
        steps: list[tuple[Step, tuple[Right, ...]]] = []
        above = ""
        for name in path.split("/")[1:]:
            above += f"/{name}"
            if not self.ensemble.tree.exists(above):
                steps.append((Create(above, data if above == path else b""), _OPEN))
        error = self.ensemble.commit(steps, actor)
        assert error is None, error

    def _tick(self) -> None:
        self.ensemble.expire(self.now_ms())
        self.jobs.loop.call_later(0.5, self._tick)


class SimulatedZooKeeperClient(TreeClient):
    """Commands are given by jobs only; those that watch are called by one job, in turn."""

    def __init__(
        self,
        server: SimulatedZooKeeper,
        process: Process,
        number: int,
        hosts: str,
        session_seconds: float,
        listener: Callable[[str], None],
        access: Access,
    ) -> None:
        super().__init__(server.ensemble, hosts, session_seconds, listener, access)
        self.waiting: Waiting = server.jobs
        self._server = server
        self._jobs = server.jobs
        self._loop = server.jobs.loop
        self._process = process
        self._chance = self._loop.chances.fresh(f"zookeeper {number}")
        self._calls: deque[Callable[[], None]] = deque()
        self._calling = False
        self._incoming: deque[tuple[Watched, str]] = deque()
        self._heard = 0.0
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        process.own(self)

    def now_ms(self) -> int:
        return self._server.now_ms()

    def start(self, timeout: float) -> bool:
        ends = self._loop.time() + timeout
        while not self._reaches_both_ways():
            if self._loop.time() >= ends:
                return False
            self._jobs.sleep(_RETRY_SECONDS)
        self._jobs.sleep(self._delay())
        self._heard = self._loop.time()
        self.connect()
        self._later(self.timeout_ms / 3000, self._ping)
        return True

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._connected and self._reaches():
            self.ensemble.close(self._session)
        self._connected = False
        self._process.disown(self)

    def process_died(self) -> None:
        """The servers see the connection end, and nothing else until the timeout."""
        self._stopped = True
        self._connected = False
        self.ensemble.detach(self._session)

    def dispatch(self, function: Callable[[], None]) -> None:
        self._calls.append(function)
        if not self._calling and self._process.alive:
            self._calling = True
            self._jobs.start(self._process, self._delay(), self._call_all, _raise)

    def arrived(self, what: Watched, path: str) -> None:
        self._incoming.append((what, path))
        self._loop.call_later(self._delay(), self._take_in, context=self._process.context)

    def ask(self, path: str, timeout: float, command: Callable[[Actor], T]) -> T:
        self._jobs.sleep(self._delay())
        if not self._connected:
            raise self._unanswered(path)
        if not self._reaches() or self._chance.random() < self._server.lose_commands:
            self._lose_connection(timeout)
            raise self._unanswered(path)
        session = self._session
        actor = self.ensemble.actor(session, self.now_ms())
        result, error = None, None
        try:
            result = command(actor)
        except Exception as raised:
            error = raised
        self._jobs.sleep(self._delay())
        self._take_in()
        if session != self._session or not self._connected:
            raise self._unanswered(path)
        if not self._reaches_back() or self._chance.random() < self._server.lose_answers:
            self._lose_connection(timeout)
            raise self._unanswered(path)
        self._heard = self._loop.time()
        if error is not None:
            raise error
        return cast(T, result)

    # -- the connection -------------------------------------------------------------------------

    def _ping(self) -> None:
        if self._stopped:
            return
        if self._reaches():
            alive = self.ensemble.heard(self._session, self.now_ms())
            if self._reaches_back():
                self._heard = self._loop.time()
                if not alive:
                    self._drop()
                    return
        if self._loop.time() - self._heard >= self.timeout_ms * 2 / 3000:
            self._drop()
        else:
            self._later(self.timeout_ms / 6000, self._ping)

    def _lose_connection(self, timeout: float) -> None:
        """No answer comes: wait for it as kazoo's port does, then hang up."""
        self._jobs.sleep(min(timeout, self._chance.uniform(0.05, self.timeout_ms * 2 / 3000)))
        if self._connected:
            self._drop()

    def _drop(self) -> None:
        if self._stopped:
            return
        self._take_in()
        self.disconnect()
        self._later(self._chance.uniform(0.05, _RETRY_SECONDS), self._connect_again)

    def _connect_again(self) -> None:
        if self._stopped or self._connected:
            return
        if not self._reaches_both_ways():
            self._later(self._chance.uniform(0.05, 1.0), self._connect_again)
            return
        self._heard = self._loop.time()
        self.connect()
        self._later(self.timeout_ms / 6000, self._ping)

    def _later(self, seconds: float, function: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, function, context=self._process.context)

    def _reaches(self) -> bool:
        return not self._server.network.is_cut(self._process.host, HOST)

    def _reaches_back(self) -> bool:
        return not self._server.network.is_cut(HOST, self._process.host)

    def _reaches_both_ways(self) -> bool:
        return self._reaches() and self._reaches_back()

    def _delay(self) -> float:
        return self._chance.uniform(0.0002, 0.003)

    def _unanswered(self, path: str) -> ConnectError:
        return ConnectError(self.hosts, "api", f"no answer about {path} (simulated)")

    # -- the watch thread -----------------------------------------------------------------------

    def _take_in(self) -> None:
        """What the server sent before its latest answer has arrived by now."""
        while self._incoming:
            what, path = self._incoming.popleft()
            if self._connected:
                self.fire(what, path)

    def _call_all(self) -> None:
        try:
            while self._calls and not self._stopped:
                self._calls.popleft()()
        finally:
            self._calling = False


def _raise(result: object, error: BaseException | None) -> None:
    if error is not None:
        raise error
