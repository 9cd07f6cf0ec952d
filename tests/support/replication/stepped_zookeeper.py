"""ZooKeeper in memory for one thread, in which a script decides what happens to each command: it
may be lost, its answer may be lost, it may be executed late, the session may end before it.

Everything that a watch or a session event calls waits until :meth:`SteppedZooKeeper.run` is called,
in the order that the script wants. So a seed decides every order.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from tallymark.coordination import Access, SessionLostError, ZooKeeper
from tallymark.coordination.session.client import Signal, Threads, Waiting
from tallymark.testing.zookeeper_tree.client import TreeClient
from tallymark.testing.zookeeper_tree.ensemble import Ensemble, Watched
from tallymark.testing.zookeeper_tree.tree import Actor

T = TypeVar("T")
SESSION_MS = 6000


class Fault(Enum):
    """What happens to one command."""

    NONE = "none"
    LOST = "the connection breaks before it arrives"
    ANSWER_LOST = "the connection breaks after it was executed"
    LATE = "the connection breaks, and it is executed some commands later"
    SESSION_ENDS = "the session ends before it arrives"


Script = Callable[[str], Fault]
"""What happens to the next command, which is of the client with this name."""


class SteppedZooKeeper:
    """The servers. ``late`` are commands that are still on their way."""

    def __init__(self, script: Script = lambda name: Fault.NONE) -> None:
        self.ensemble = Ensemble()
        self.script = script
        self.now_ms = 1_000_000
        self.late: list[Callable[[], None]] = []
        self.calls: list[Callable[[], None]] = []
        """Watches and session events that are still to be called."""
        self._clients: dict[str, SteppedClient] = {}

    def session(self, name: str, chroot: str = "/cluster") -> ZooKeeper:
        """A session that is open."""

        def client(
            hosts: str, seconds: float, listener: Callable[[str], None], access: Access
        ) -> SteppedClient:
            made = SteppedClient(self, name, hosts, seconds, listener, access)
            self._clients[name] = made
            return made

        session = ZooKeeper("memory:1", chroot, SESSION_MS, command_timeout_ms=1, client=client)
        script, self.script = self.script, lambda name: Fault.NONE
        session.start(create_root=True)
        self.script = script
        return session

    def end_session(self, name: str) -> None:
        """The session of this name is over; it opens another one."""
        self._clients[name].end_session()

    def run(self, choose: Callable[[int], int] = lambda count: 0) -> None:
        """Call what waits, until nothing does; ``choose(n)`` is which of n is next."""
        while self.calls:
            self.calls.pop(choose(len(self.calls)))()

    def arrive(self) -> None:
        """What was late is executed."""
        late, self.late = self.late, []
        for command in late:
            command()


class SteppedClient(TreeClient):
    """Reconnects as soon as its connection has broken."""

    def __init__(
        self,
        server: SteppedZooKeeper,
        name: str,
        hosts: str,
        seconds: float,
        listener: Callable[[str], None],
        access: Access,
    ) -> None:
        super().__init__(server.ensemble, hosts, seconds, listener, access)
        self.waiting: Waiting = _Stepped(server)
        self._server = server
        self._name = name

    def now_ms(self) -> int:
        return self._server.now_ms

    def start(self, timeout: float) -> bool:
        self.connect()
        return True

    def stop(self) -> None:
        self.ensemble.close(self._session)
        self._connected = False

    def dispatch(self, function: Callable[[], None]) -> None:
        self._server.calls.append(function)

    def arrived(self, what: Watched, path: str) -> None:
        self.fire(what, path)

    def end_session(self) -> None:
        """The servers end it, and the client learns of it when it connects again."""
        self.ensemble.close(self._session)
        self.disconnect()
        self.connect()

    def ask(self, path: str, timeout: float, command: Callable[[Actor], T]) -> T:
        fault = self._server.script(self._name)
        session = self._session
        if fault is Fault.SESSION_ENDS:
            self.end_session()
            raise SessionLostError(f"{path}: the session has ended")
        if fault is Fault.LATE:
            self._server.late.append(lambda: self._execute_late(session, command))
        elif fault is Fault.ANSWER_LOST:
            self._execute_late(session, command)
        if fault is not Fault.NONE:
            self.disconnect()
            self.connect()
            raise self.unreachable()
        return command(self.ensemble.actor(session, self.now_ms()))

    def _execute_late(self, session: int, command: Callable[[Actor], object]) -> None:
        """Its answer is heard by no one; a session that has ended executes nothing."""
        try:
            command(self.ensemble.actor(session, self.now_ms()))
        except Exception:  # the answer would have been this error
            return


class _Stepped(Threads):
    """Waits of the one thread."""

    def __init__(self, server: SteppedZooKeeper) -> None:
        self._server = server

    def signal(self) -> Signal:
        return _SteppedSignal(self._server)

    def monotonic(self) -> float:
        return self._server.now_ms / 1000


class _SteppedSignal:
    def __init__(self, server: SteppedZooKeeper) -> None:
        self._server = server
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            self._server.now_ms += int((timeout or 0) * 1000)  # a wait that nothing ends
        return self._is_set
