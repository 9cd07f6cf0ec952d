"""The port to ZooKeeper: what a session needs of a client library, and of the threads below it.

:class:`~tallymark.coordination.session.kazoo_client.KazooPort` is the one on the network;
:class:`tallymark.testing.zookeeper_tree.client.TreeClient` is one in memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from tallymark.coordination.session.access import Access
from tallymark.coordination.session.nodes import Node, Step
from tallymark.errors import ConnectError

WatchCallback: TypeAlias = Callable[[], None]
"""Called once on the watch thread: what was read may have changed, or the connection dropped."""


class Signal(Protocol):
    """As ``threading.Event``."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class Waiting(Protocol):
    """How the threads that send commands wait for each other and for time."""

    def signal(self) -> Signal: ...
    def lock(self) -> AbstractContextManager[object]: ...

    def monotonic(self) -> float:
        """Seconds since some moment."""
        ...


class Threads:
    """:class:`Waiting` for threads of the operating system."""

    def signal(self) -> Signal:
        return threading.Event()

    def lock(self) -> AbstractContextManager[object]:
        return threading.Lock()

    def monotonic(self) -> float:
        return time.monotonic()


class Client(Protocol):
    """Typed commands on absolute paths. Every one may raise ConnectError (no response within
    ``timeout`` seconds: it is not known whether it was done), SessionLostError and
    CoordinationError. The listener that a client is made with is called on the connection's thread
    with ``CONNECTED``, ``SUSPENDED`` and ``LOST``."""

    waiting: Waiting

    def start(self, timeout: float) -> bool:
        """Open a session; False when that took too long (then everything is stopped again)."""
        ...

    def unreachable(self) -> ConnectError:
        """Why there is no session: the address that failed and at which stage."""
        ...

    def stop(self) -> None:
        """End the session, and with it its ephemeral nodes. Not from a thread of the client."""
        ...

    def is_alive(self) -> bool:
        """Whether the client still tries to connect."""
        ...

    def session(self) -> int:
        """The id of the open session, 0 while there is no connection."""
        ...

    def credentials(self) -> tuple[int, bytes]:
        """Session id and password. Any process that has them may continue the session."""
        ...

    def dispatch(self, function: Callable[[], None]) -> None:
        """Run a function on the watch thread, after the callbacks that wait there."""
        ...

    def create(self, path: str, data: bytes, ephemeral: bool, timeout: float) -> None: ...
    def read(self, path: str, watch: WatchCallback | None, timeout: float) -> Node: ...
    def exists(self, path: str, watch: WatchCallback | None, timeout: float) -> bool: ...
    def children(self, path: str, watch: WatchCallback | None, timeout: float) -> list[str]: ...
    def write(self, path: str, data: bytes, version: int, timeout: float) -> int: ...
    def delete(self, path: str, version: int, timeout: float) -> None: ...

    def read_many(
        self, paths: Sequence[str], watch: WatchCallback | None, timeout: float
    ) -> list[Node | None]:
        """Many nodes with the requests in flight together; None, and no watch, where there is no
        node."""
        ...

    def unrestricted(self, paths: Sequence[str], timeout: float) -> list[str]:
        """The nodes among these that allow everyone more than they should."""
        ...

    def restrict(self, paths: Sequence[str], timeout: float) -> int:
        """Give these nodes the access-control list of new ones. Returns how many got it."""
        ...

    def commit(self, steps: Sequence[Step], timeout: float) -> None:
        """All steps or none; raises the error of the step that failed."""
        ...


OpenClient: TypeAlias = Callable[[str, float, Callable[[str], None], Access], Client]
"""(hosts, session timeout in seconds, listener, credentials) -> a client that is not started."""
