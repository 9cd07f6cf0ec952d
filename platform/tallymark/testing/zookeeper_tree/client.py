"""A client of the ZooKeeper in memory: the port of a session, without saying how it waits.

The three states of a session are those of :mod:`tallymark.coordination.session.states`; when the
connection ends, every watch fires, as with kazoo.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from tallymark.coordination import Access, Create, Delete, Node, NotAuthorizedError, SetData
from tallymark.coordination.session.client import Waiting, WatchCallback
from tallymark.coordination.session.errors import NoNodeError
from tallymark.coordination.session.nodes import Step
from tallymark.errors import ConnectError
from tallymark.testing.zookeeper_tree.ensemble import Ensemble, Watched
from tallymark.testing.zookeeper_tree.tree import Actor, rights_of

T = TypeVar("T")


class TreeClient(ABC):
    """The :class:`~tallymark.coordination.session.client.Client` of one session after the other."""

    waiting: Waiting

    def __init__(
        self,
        ensemble: Ensemble,
        hosts: str,
        session_seconds: float,
        listener: Callable[[str], None],
        access: Access,
    ) -> None:
        self.ensemble = ensemble
        self.hosts = hosts
        self.timeout_ms = int(session_seconds * 1000)
        self._listener = listener
        self._access = access
        self._session = 0
        self._connected = False
        self._callbacks: dict[tuple[Watched, str], dict[WatchCallback, None]] = {}

    # -- how it waits ---------------------------------------------------------------------------

    @abstractmethod
    def now_ms(self) -> int:
        """The clock of the servers."""

    @abstractmethod
    def ask(self, path: str, timeout: float, command: Callable[[Actor], T]) -> T:
        """Have the server execute a command, and wait for its answer."""

    @abstractmethod
    def dispatch(self, function: Callable[[], None]) -> None: ...

    @abstractmethod
    def arrived(self, what: Watched, path: str) -> None:
        """The server reports a change to a watch: call :meth:`fire` when that has arrived, before
        any answer that the server gives later."""

    @abstractmethod
    def start(self, timeout: float) -> bool: ...

    @abstractmethod
    def stop(self) -> None: ...

    # -- the connection -------------------------------------------------------------------------

    def connect(self) -> None:
        """A connection stands: go on with the session, or open a new one."""
        now = self.now_ms()
        if self._session and not self.ensemble.attach(self._session, self.arrived, now):
            self._session = 0
            self._listener("LOST")
        if not self._session:
            user = f"{self._access.user}:{self._access.password}" if self._access.user else ""
            self._session = self.ensemble.open(self.timeout_ms, user, now)
            self.ensemble.attach(self._session, self.arrived, now)
        self._connected = True
        self._listener("CONNECTED")

    def disconnect(self) -> None:
        """The connection is gone; every watch fires."""
        if not self._connected:
            return
        self._connected = False
        self.ensemble.detach(self._session)
        self._listener("SUSPENDED")
        callbacks, self._callbacks = self._callbacks, {}
        for each in dict.fromkeys(one for some in callbacks.values() for one in some):
            self.dispatch(each)

    def fire(self, what: Watched, path: str) -> None:
        """Call those that watch."""
        for each in self._callbacks.pop((what, path), {}):
            self.dispatch(each)

    def unreachable(self) -> ConnectError:
        return ConnectError(self.hosts, "connect", "ZooKeeper is not there: it cannot be reached")

    def is_alive(self) -> bool:
        return True

    def session(self) -> int:
        return self._session if self._connected else 0

    def credentials(self) -> tuple[int, bytes]:
        return self._session, b""

    # -- commands -------------------------------------------------------------------------------

    def create(self, path: str, data: bytes, ephemeral: bool, timeout: float) -> None:
        self.commit([Create(path, data, ephemeral)], timeout)

    def read(self, path: str, watch: WatchCallback | None, timeout: float) -> Node:
        def command(actor: Actor) -> Node:
            node = self.ensemble.tree.read(path, actor)
            self._watch(Watched.DATA, path, watch)
            return node

        return self.ask(path, timeout, command)

    def exists(self, path: str, watch: WatchCallback | None, timeout: float) -> bool:
        def command(actor: Actor) -> bool:
            self._watch(Watched.DATA, path, watch)
            return self.ensemble.tree.exists(path)

        return self.ask(path, timeout, command)

    def children(self, path: str, watch: WatchCallback | None, timeout: float) -> list[str]:
        def command(actor: Actor) -> list[str]:
            names = self.ensemble.tree.children(path, actor)
            self._watch(Watched.CHILDREN, path, watch)
            return names

        return self.ask(path, timeout, command)

    def write(self, path: str, data: bytes, version: int, timeout: float) -> int:
        def command(actor: Actor) -> int:
            self._commit([SetData(path, data, version)], actor)
            return self.ensemble.tree.read(path, actor).version

        return self.ask(path, timeout, command)

    def delete(self, path: str, version: int, timeout: float) -> None:
        self.commit([Delete(path, version)], timeout)

    def read_many(
        self, paths: Sequence[str], watch: WatchCallback | None, timeout: float
    ) -> list[Node | None]:
        def command(actor: Actor) -> list[Node | None]:
            nodes = self.ensemble.read_many(paths, actor)
            for path, node in zip(paths, nodes, strict=True):
                if node is not None:
                    self._watch(Watched.DATA, path, watch)
            return nodes

        return self.ask(paths[0], timeout, command)

    def unrestricted(self, paths: Sequence[str], timeout: float) -> list[str]:
        def command(actor: Actor) -> list[str]:
            found: list[str] = []
            for path in paths:
                with contextlib.suppress(NoNodeError, NotAuthorizedError):
                    rights = self.ensemble.tree.rights(path, actor)
                    allowed = _for_all(rights_of(self._access.acl_of(path)))
                    if _for_all(rights) & ~allowed:
                        found.append(path)
            return found

        return self.ask(paths[0], timeout, command) if paths else []

    def restrict(self, paths: Sequence[str], timeout: float) -> int:
        def command(actor: Actor) -> int:
            done = 0
            for path in paths:
                with contextlib.suppress(NoNodeError, NotAuthorizedError):
                    rights = rights_of(self._access.acl_of(path))
                    self.ensemble.tree.set_rights(path, rights, actor)
                    done += 1
            return done

        return self.ask(paths[0], timeout, command) if paths else 0

    def commit(self, steps: Sequence[Step], timeout: float) -> None:
        self.ask(steps[0].path, timeout, lambda actor: self._commit(steps, actor))

    def _commit(self, steps: Sequence[Step], actor: Actor) -> None:
        with_rights = [(step, rights_of(self._access.acl_of(step.path))) for step in steps]
        error = self.ensemble.commit(with_rights, actor)
        if error is not None:
            raise error

    def _watch(self, what: Watched, path: str, watch: WatchCallback | None) -> None:
        if watch is not None:
            self._callbacks.setdefault((what, path), {})[watch] = None
            self.ensemble.watch(self._session, what, path)


def _for_all(rights: Sequence[tuple[int, str, str]]) -> int:
    allowed = 0
    for permissions, scheme, _ in rights:
        allowed |= permissions if scheme == "world" else 0
    return allowed
