"""A ZooKeeper session under one chroot: typed commands with deadlines, and session events
(:mod:`tallymark.coordination.session.states`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Self

from tallymark.closing import ClosedByWith
from tallymark.coordination.session.access import Access
from tallymark.coordination.session.client import OpenClient, WatchCallback
from tallymark.coordination.session.errors import (
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionLostError,
)
from tallymark.coordination.session.kazoo_client import KazooPort
from tallymark.coordination.session.nodes import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Node,
    SetData,
    Step,
)
from tallymark.coordination.session.states import (
    SessionEvent,
    SessionListener,
    SessionState,
    parse_connect,
)
from tallymark.errors import ClosedError, ConnectError, UserError

LOG: Final = logging.getLogger("tallymark.coordination")


_TEXTS: Final = {
    SessionState.CONNECTED: "connected again, the session goes on",
    SessionState.LOST: "the session is lost, what was ephemeral is gone",
}


class ZooKeeper(ClosedByWith):
    """A session. All commands block, from any thread but the connection's own.

    ``connect`` may hold the chroot itself (``host:port/chroot``). ``command_timeout_ms`` bounds
    every command, a wait for the connection included. ``access`` are the credentials, default:
    those of the environment, if any; ``client`` makes what talks to the servers.
    Errors of commands: ConnectError (no response in time; it is not known whether it was done),
    SessionLostError, ClosedError, and those of :mod:`tallymark.coordination.session.errors`. Paths
    are below the chroot.
    """

    def __init__(
        self,
        connect: str,
        chroot: str = "",
        session_timeout_ms: int = 6000,
        *,
        connect_timeout_ms: int = 15_000,
        command_timeout_ms: int = 10_000,
        access: Access | None = None,
        client: OpenClient = KazooPort,
    ) -> None:
        self.connect, inner = parse_connect(connect)
        self.chroot = (inner + "/" + chroot.strip("/")).rstrip("/") if chroot else inner
        self.session_timeout_ms = session_timeout_ms
        self._connect_timeout = connect_timeout_ms / 1000
        self._timeout = command_timeout_ms / 1000
        self._listeners: list[SessionListener] = []
        self._state = SessionState.LOST
        self._started = False
        self._closed = False
        self._access = access or Access.from_environment()
        self._client = client(self.connect, session_timeout_ms / 1000, self._on_state, self._access)
        self.waiting = self._client.waiting
        """How threads that use this session wait."""
        self._lock = self.waiting.lock()
        self._connected = self.waiting.signal()

    # -- life ---------------------------------------------------------------------------------

    def start(self, *, create_root: bool = False) -> Self:
        """Open the session. ``create_root`` makes the chroot where there is none; without it a
        missing chroot is a UserError. ConnectError after ``connect_timeout_ms``."""
        if self._closed:
            raise ClosedError("this ZooKeeper session was closed")
        if not self._client.start(self._connect_timeout):
            self._closed = True
            raise self._client.unreachable()
        self._started = True
        try:
            self._settle_root(create_root)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End the session; its ephemeral nodes go at once. Idempotent. Not from a callback."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._connected.set()  # wake threads that wait for a connection: there will be none
        if self._started:
            self._client.stop()

    def __enter__(self) -> Self:
        return self if self._started else self.start()

    # -- session ------------------------------------------------------------------------------

    @property
    def state(self) -> SessionState:
        """The state after the last event."""
        return self._state

    @property
    def session(self) -> int:
        """The id of the open session; 0 while not CONNECTED."""
        return self._client.session() if self._state is SessionState.CONNECTED else 0

    def check(self) -> None:
        """SessionLostError when the session will never come back: its thread has died."""
        if self._started and not self._closed and not self._client.is_alive():
            raise SessionLostError(f"the connection to ZooKeeper {self.connect} was given up")

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """Call ``listener`` at every session event from now on; returns a function that ends
        that."""
        with self._lock:
            self._listeners.append(listener)

        def stop() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    def dispatch(self, function: Callable[[], None]) -> None:
        """Run a function on the watch thread, where it may block and send commands."""
        if not self._closed:
            self._client.dispatch(function)

    def _on_state(self, name: str) -> None:
        state = SessionState(name)
        event = SessionEvent(state)
        if state is SessionState.CONNECTED:
            event = SessionEvent(state, self._client.session())
            self._connected.set()
        elif not self._closed:
            self._connected.clear()
        before, self._state = self._state, state
        if state is SessionState.SUSPENDED:
            LOG.warning("no connection to ZooKeeper %s", self.connect)
        elif before is not SessionState.LOST and not self._closed:
            LOG.warning("ZooKeeper %s: %s", self.connect, _TEXTS[state])
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            try:
                listener(event)
            except Exception:
                LOG.exception("a session listener failed")

    def why_away(self) -> ConnectError:
        """Why there is no connection now: which address fails, and at which stage. Blocks for
        seconds."""
        return self._client.unreachable()

    # -- commands -----------------------------------------------------------------------------

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, parents: bool = False
    ) -> None:
        """Create a node. NodeExistsError; NoNodeError when the parent is missing and ``parents``
        does not ask for it."""
        self._ready(path)
        try:
            self._client.create(self._abs(path), data, ephemeral, self._timeout)
        except NoNodeError:
            if not parents:
                raise
            self.ensure(path.rpartition("/")[0])
            self._client.create(self._abs(path), data, ephemeral, self._timeout)

    def ensure(self, path: str) -> None:
        """Make sure that a persistent node and its parents exist; contents stay."""
        if path in ("", "/"):
            return
        try:
            self.create(path)
        except NodeExistsError:
            return
        except NoNodeError:
            self.ensure(path.rpartition("/")[0])
            self.ensure(path)

    def read(self, path: str, watch: WatchCallback | None = None) -> Node:
        """The node; NoNodeError (then no watch is set)."""
        self._ready(path)
        return self._client.read(self._abs(path), watch, self._timeout)

    def find(self, path: str, watch: WatchCallback | None = None) -> Node | None:
        """The node or None; a watch is set either way, and fires when the node comes."""
        while True:
            try:
                return self.read(path, watch)
            except NoNodeError:
                if watch is None or not self.exists(path, watch):
                    return None

    def exists(self, path: str, watch: WatchCallback | None = None) -> bool:
        """Whether the node is there; the watch fires when it comes, changes or goes."""
        self._ready(path)
        return self._client.exists(self._abs(path), watch, self._timeout)

    def children(self, path: str, watch: WatchCallback | None = None) -> list[str]:
        """Names of the children, sorted; none when there is no node. The watch is set either
        way and fires when a child comes or goes."""
        self._ready(path)
        while True:
            try:
                return self._client.children(self._abs(path), watch, self._timeout)
            except NoNodeError:
                if watch is None or not self.exists(path, watch):
                    return []

    def read_many(
        self, paths: Sequence[str], watch: WatchCallback | None = None
    ) -> list[Node | None]:
        """Many nodes in one round trip's time; None, and no watch, where there is none."""
        if not paths:
            return []
        self._ready(paths[0])
        return self._client.read_many([self._abs(path) for path in paths], watch, self._timeout)

    def write(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Replace the content of a node of that version; returns the new version.
        NoNodeError, BadVersionError."""
        self._ready(path)
        return self._client.write(self._abs(path), data, version, self._timeout)

    def put(self, path: str, data: bytes) -> None:
        """Write a persistent node whether it is there or not."""
        try:
            self.write(path, data)
        except NoNodeError:
            try:
                self.create(path, data, parents=True)
            except NodeExistsError:
                self.write(path, data)

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node; no error if there is none. BadVersionError, NotEmptyError."""
        self._ready(path)
        try:
            self._client.delete(self._abs(path), version, self._timeout)
        except NoNodeError:
            return

    def delete_tree(self, path: str) -> None:
        """Delete a node and everything below it, children that appear meanwhile included."""
        while True:
            for child in self.children(path):
                self.delete_tree(f"{path}/{child}")
            try:
                return self.delete(path)
            except NotEmptyError:
                continue

    def unrestricted(self, paths: Sequence[str]) -> list[str]:
        """The nodes among these that allow everyone more than they should with our credentials."""
        self._ready(paths[0] if paths else "/")
        found = set(self._client.unrestricted([self._abs(path) for path in paths], self._timeout))
        return [path for path in paths if self._abs(path) in found]

    def restrict(self, paths: Sequence[str]) -> int:
        """Restrict them as new nodes are. Returns how many existed and could be changed."""
        self._ready(paths[0] if paths else "/")
        return self._client.restrict([self._abs(path) for path in paths], self._timeout)

    @property
    def closes(self) -> bool:
        """Whether this session restricts the nodes that it creates."""
        return self._access.closed

    def commit(self, steps: Sequence[Step], session: int = 0) -> None:
        """Do all steps or none. Raises the error of the step that failed; SessionLostError when
        ``session`` is given and no longer the open one."""
        if not steps:
            return
        self._ready(steps[0].path)
        if session and session != self.session:
            raise SessionLostError(f"{steps[0].path}: the session of this command is over")
        self._client.commit([self._below_root(step) for step in steps], self._timeout)

    # -- details ------------------------------------------------------------------------------

    def _ready(self, path: str) -> None:
        if self._closed or not self._started:
            raise ClosedError(f"{path}: this ZooKeeper session is not open")
        if not self._connected.wait(self._timeout):
            raise ConnectError(self.connect, "connect", f"no connection for {self._timeout:g} s")
        if self._closed:  # while we waited
            raise ClosedError(f"{path}: this ZooKeeper session was closed")

    def _abs(self, path: str) -> str:
        return (self.chroot + path).rstrip("/") or "/"

    def _below_root(self, step: Step) -> Step:
        match step:
            case Create():
                return Create(self._abs(step.path), step.data, step.ephemeral, step.numbered)
            case SetData():
                return SetData(self._abs(step.path), step.data, step.version)
            case Delete():
                return Delete(self._abs(step.path), step.version)
            case Check():
                return Check(self._abs(step.path), step.version)

    def _settle_root(self, create: bool) -> None:
        if not self.chroot or self.exists(""):
            return
        if not create:
            raise UserError(
                f"ZooKeeper {self.connect} has no {self.chroot}: there is no such cluster there",
                "start a broker of the cluster first, or mend the chroot of zookeeper_connect",
            )
        root, self.chroot = self.chroot, ""
        try:
            self.ensure(root)
        finally:
            self.chroot = root
