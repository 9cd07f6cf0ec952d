"""ZooKeeper in memory for the threads of one process, in real time: for tests of registries that
need no server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from tallymark.clock import now_ms
from tallymark.coordination import Access
from tallymark.coordination.session.client import Threads
from tallymark.testing.zookeeper_tree.client import TreeClient
from tallymark.testing.zookeeper_tree.ensemble import Ensemble, Watched
from tallymark.testing.zookeeper_tree.tree import Actor

T = TypeVar("T")
_FOR_EVER_MS: Final = 10**15


class MemoryZooKeeper:
    """A server: give :meth:`client` to :class:`~tallymark.coordination.ZooKeeper` as its
    ``client``. Sessions end when they are closed, or by :meth:`end_session`, not by silence: no
    client of this process falls silent."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self.lock = threading.RLock()
        """Held by the command that is executed."""
        self.connect = "memory:1"
        self._clients: list[ThreadedTreeClient] = []

    def client(
        self, hosts: str, session_seconds: float, listener: Callable[[str], None], access: Access
    ) -> ThreadedTreeClient:
        """A client that is not started."""
        made = ThreadedTreeClient(self, hosts, session_seconds, listener, access)
        self._clients.append(made)
        return made

    def end_session(self, session: int) -> None:
        """As if it had sent nothing for its timeout: what is ephemeral goes, and its
        client learns of it when it connects again, at once."""
        for client in self._clients:
            if client.session() == session:
                client.end_session()


class ThreadedTreeClient(TreeClient):
    """Has one thread: the one that calls those that watch."""

    def __init__(
        self,
        server: MemoryZooKeeper,
        hosts: str,
        session_seconds: float,
        listener: Callable[[str], None],
        access: Access,
    ) -> None:
        super().__init__(server.ensemble, hosts, session_seconds, listener, access)
        self.timeout_ms = _FOR_EVER_MS
        self.waiting = Threads()
        self._server = server
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def now_ms(self) -> int:
        return now_ms()

    def start(self, timeout: float) -> bool:
        self._thread = threading.Thread(target=self._run, name="zookeeper watches", daemon=True)
        self._thread.start()
        with self._server.lock:
            self.connect()
        return True

    def stop(self) -> None:
        with self._server.lock:
            self.ensemble.close(self._session)
            self._connected = False
        self._calls.put(None)

    def end_session(self) -> None:
        """See :meth:`MemoryZooKeeper.end_session`."""
        with self._server.lock:
            self.ensemble.close(self._session)
        self.dispatch(self._connect_again)

    def _connect_again(self) -> None:
        with self._server.lock:
            self.disconnect()
            self.connect()

    def dispatch(self, function: Callable[[], None]) -> None:
        self._calls.put(function)

    def arrived(self, what: Watched, path: str) -> None:
        self.fire(what, path)

    def ask(self, path: str, timeout: float, command: Callable[[Actor], T]) -> T:
        with self._server.lock:
            return command(self.ensemble.actor(self._session, self.now_ms()))

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
