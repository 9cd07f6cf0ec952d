"""The only module that uses kazoo: makes typed calls with our errors of its untyped ones.

kazoo has threads of its own: one for the connection (session listeners are called there and must
not block) and one that runs watch callbacks in order (these may block and send commands).

Commands are sent asynchronously and awaited with a deadline, since kazoo's own blocking calls wait
for ever while there is no connection.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import Callback, ZnodeStat

from tallymark.coordination.session.access import Access
from tallymark.coordination.session.client import Threads, Waiting, WatchCallback
from tallymark.coordination.session.errors import (
    BadVersionError,
    CoordinationError,
    NodeExistsError,
    NoNodeError,
    NotAuthorizedError,
    NotEmptyError,
    SessionLostError,
)
from tallymark.coordination.session.multi_read import NO_NODE, MultiRead
from tallymark.coordination.session.nodes import Check, Create, Delete, Node, SetData, Step
from tallymark.coordination.session.srvr import last_change, srvr
from tallymark.errors import ConnectError, TallymarkError

LOG: Final = logging.getLogger("tallymark.coordination.kazoo")
if LOG.level == logging.NOTSET:
    # kazoo warns at every attempt to connect; zookeeper.py logs what matters once.
    LOG.setLevel(logging.ERROR)
DEFAULT_PORT: Final = 2181
_READ_TOGETHER: Final = 500
"""Nodes to read in one request."""
_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}


class _Watcher:
    """A watch function that equals another of the same callback: kazoo keeps watchers in a set,
    so reading a node again before it changed adds nothing."""

    def __init__(self, callback: WatchCallback) -> None:
        self._callback = callback

    def __call__(self, event: Any) -> None:
        self._callback()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watcher) and other._callback == self._callback

    def __hash__(self) -> int:
        return hash(self._callback)


class KazooPort:
    """The :class:`~tallymark.coordination.session.client.Client` on the network."""

    def __init__(
        self,
        hosts: str,
        session_seconds: float,
        listener: Callable[[str], None],
        access: Access | None = None,
    ) -> None:
        self.waiting: Waiting = Threads()
        self._hosts = hosts
        self._connect_seconds = 0.0
        self._access = access or Access()
        self._no_multi_read = False
        self._mute_seconds = session_seconds * 2 / 3
        self._client: Any = KazooClient(
            hosts=_repeated(hosts),
            timeout=session_seconds,
            connection_retry=dict(_RECONNECT),
            auth_data=self._access.auth_data,
            logger=LOG,
        )
        self._client.add_listener(listener)

    def start(self, timeout: float) -> bool:
        self._connect_seconds = timeout
        try:
            self._client.start(timeout=timeout)
        except KazooTimeoutError:
            return False
        return True

    def unreachable(self) -> ConnectError:
        for part in self._hosts.split(","):
            host, colon, port = part.rpartition(":")
            name, number = (host, int(port)) if colon else (part, DEFAULT_PORT)
            try:
                socket.create_connection((name.strip("[]"), number), timeout=1.0).close()
            except socket.gaierror as error:
                return ConnectError(part, "resolve", str(error.strerror))
            except OSError as error:
                reason = f"ZooKeeper is not there: {error.strerror or error}"
                return ConnectError(part, "connect", reason)
            has, seen = last_change(srvr(name.strip("[]"), number)), int(self._client.last_zxid)
            if has is not None and has < seen:
                return ConnectError(part, "api", _LOST_DATA.format(has, seen))
        reason = f"connected, but no session within {self._connect_seconds:g} s"
        return ConnectError(self._hosts, "api", reason)

    def stop(self) -> None:
        self._client.stop()
        self._client.close()

    def is_alive(self) -> bool:
        """Whether kazoo still tries to connect. Its thread ends for good at unexpected errors, and
        when the server refuses our credentials; only this method shows it."""
        return not self._client._connection.connection_stopped.is_set()

    def session(self) -> int:
        identity = self._client.client_id
        return int(identity[0] or 0) if identity else 0

    def credentials(self) -> tuple[int, bytes]:
        return self._client._session_id or 0, bytes(self._client._session_passwd)

    def dispatch(self, function: Callable[[], None]) -> None:
        self._client.handler.dispatch_callback(Callback("watch", function, ()))

    def create(self, path: str, data: bytes, ephemeral: bool, timeout: float) -> None:
        acl = self._access.acl_of(path)
        result = self._client.create_async(path, data, acl=acl, ephemeral=ephemeral)
        self._wait(result, path, timeout)

    def read(self, path: str, watch: WatchCallback | None, timeout: float) -> Node:
        result = self._client.get_async(path, watch=_Watcher(watch) if watch else None)
        data, stat = self._wait(result, path, timeout)
        return _node(data, stat)

    def exists(self, path: str, watch: WatchCallback | None, timeout: float) -> bool:
        result = self._client.exists_async(path, watch=_Watcher(watch) if watch else None)
        return self._wait(result, path, timeout) is not None

    def children(self, path: str, watch: WatchCallback | None, timeout: float) -> list[str]:
        result = self._client.get_children_async(path, watch=_Watcher(watch) if watch else None)
        return sorted(self._wait(result, path, timeout))

    def write(self, path: str, data: bytes, version: int, timeout: float) -> int:
        stat = self._wait(self._client.set_async(path, data, version=version), path, timeout)
        return int(stat.version)

    def delete(self, path: str, version: int, timeout: float) -> None:
        self._wait(self._client.delete_async(path, version=version), path, timeout)

    def read_many(
        self, paths: Sequence[str], watch: WatchCallback | None, timeout: float
    ) -> list[Node | None]:
        if watch is None and len(paths) > 1 and not self._no_multi_read:
            try:
                return self._read_together(paths, timeout)
            except CoordinationError:
                self._no_multi_read = True  # ZooKeeper before 3.6 does not know it
        watcher = _Watcher(watch) if watch else None
        results = [(path, self._client.get_async(path, watch=watcher)) for path in paths]
        return [self._node_or_none(path, result, timeout) for path, result in results]

    def _read_together(self, paths: Sequence[str], timeout: float) -> list[Node | None]:
        results: list[Any] = []
        for at in range(0, len(paths), _READ_TOGETHER):
            result = self._client.handler.async_result()
            self._client._call(MultiRead(paths[at : at + _READ_TOGETHER]), result)
            results.append(result)
        nodes: list[Node | None] = []
        for number, result in enumerate(results):
            for answer in self._wait(result, paths[number * _READ_TOGETHER], timeout):
                if not isinstance(answer, int):
                    nodes.append(_node(*answer))
                elif answer == NO_NODE:
                    nodes.append(None)
                else:
                    theirs = kazoo_errors.EXCEPTIONS[answer]
                    raise self._translate(theirs(), paths[len(nodes)])
        return nodes

    def unrestricted(self, paths: Sequence[str], timeout: float) -> list[str]:
        results = [(path, self._client.get_acls_async(path)) for path in paths]
        found: list[str] = []
        for path, result in results:
            with contextlib.suppress(NoNodeError, NotAuthorizedError):
                acl, _ = self._wait(result, path, timeout)
                if self._access.is_open(path, acl):
                    found.append(path)
        return found

    def restrict(self, paths: Sequence[str], timeout: float) -> int:
        """Those that get none are gone, or were restricted by another process."""
        results = [
            (path, self._client.set_acls_async(path, self._access.acl_of(path))) for path in paths
        ]
        done = 0
        for path, result in results:
            with contextlib.suppress(NoNodeError, NotAuthorizedError):
                self._wait(result, path, timeout)
                done += 1
        return done

    def commit(self, steps: Sequence[Step], timeout: float) -> None:
        transaction = self._client.transaction()
        for step in steps:
            _add(transaction, step, self._access)
        answers = self._wait(transaction.commit_async(), steps[0].path, timeout)
        for step, answer in zip(steps, answers, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, _COLLATERAL):
                raise self._translate(answer, step.path) from None

    def _node_or_none(self, path: str, result: Any, timeout: float) -> Node | None:
        try:
            data, stat = self._wait(result, path, timeout)
        except NoNodeError:
            return None
        return _node(data, stat)

    def _wait(self, result: Any, path: str, timeout: float) -> Any:
        try:
            patience = min(timeout, self._mute_seconds)
            try:
                return result.get(timeout=patience)
            except KazooTimeoutError:
                self._hang_up()
                return result.get(timeout=timeout - patience)
        except Exception as error:
            raise self._translate(error, path) from None

    def _hang_up(self) -> None:
        """Close a connection without responses, as kazoo does after an unanswered ping. kazoo
        counts each command as a ping, but waits only for the responses of real pings. So while
        threads kept sending commands, a dead connection counted as alive for ever, and a consumer
        continued with partitions that others owned already."""
        connection = self._client._connection._socket
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _translate(self, error: Exception, path: str) -> TallymarkError:
        for theirs, ours in _NODE_ERRORS:
            if isinstance(error, theirs):
                return ours(path)
        if isinstance(error, _SESSION_ENDED):
            return SessionLostError(f"{path}: the ZooKeeper session ended before the answer came")
        if isinstance(error, kazoo_errors.NoAuthError):
            return NotAuthorizedError(path)
        if isinstance(error, _NO_ANSWER):
            reason = f"no answer about {path} ({type(error).__name__})"
            return ConnectError(self._hosts, "api", reason)
        return CoordinationError(path, f"ZooKeeper refused: {type(error).__name__} {error}")


_NODE_ERRORS: Final[tuple[tuple[type[Exception], Callable[[str], CoordinationError]], ...]] = (
    (kazoo_errors.NoNodeError, NoNodeError),
    (kazoo_errors.NodeExistsError, NodeExistsError),
    (kazoo_errors.BadVersionError, BadVersionError),
    (kazoo_errors.NotEmptyError, NotEmptyError),
)
_SESSION_ENDED: Final = (kazoo_errors.SessionExpiredError,)  # ConnectionClosedError is one
_NO_ANSWER: Final = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.OperationTimeoutError,
    KazooTimeoutError,
)
# The answers of the other steps when one step of a transaction fails.
_COLLATERAL: Final = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)


_LOST_DATA: Final = (
    "ZooKeeper is at change {:#x}, this process has seen {:#x}: ZooKeeper has lost its data, or "
    "they are an older copy; it refuses this process until it is restarted. Bring back the newest "
    "data first (docs/operations.md)"
)


def _repeated(hosts: str) -> str:
    """A ZooKeeper that is starting accepts connections before it can answer, and leaves them open.
    kazoo waits for the session's timeout divided by the number of hosts; with one host the session
    would be over before the next attempt, so each host is repeated until there are three."""
    names = hosts.split(",")
    return ",".join(names * -(-3 // len(names)))


def _node(data: bytes, stat: ZnodeStat) -> Node:
    return Node(
        data=bytes(data),
        version=stat.version,
        session=stat.ephemeralOwner or 0,
        created_ms=stat.ctime,
        modified_ms=stat.mtime,
        children_version=stat.cversion,
    )


def _add(transaction: Any, step: Step, access: Access) -> None:
    match step:
        case Create():
            transaction.create(
                step.path,
                step.data,
                acl=access.acl_of(step.path),
                ephemeral=step.ephemeral,
                sequence=step.numbered,
            )
        case SetData():
            transaction.set_data(step.path, step.data, version=step.version)
        case Delete():
            transaction.delete(step.path, version=step.version)
        case Check():
            transaction.check(step.path, step.version)
