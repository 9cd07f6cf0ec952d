"""Which broker is the controller: ``/controller`` and ``/controller_epoch``.

``/controller`` is ephemeral: ``{"version":1, "brokerid":1, "timestamp":"..."}``. The epoch counts
the controllers so far. It is raised in the transaction of the election, so two controllers never
have the same epoch. A deposed controller that does not know it yet is fenced: its transactions
check the version of ``/controller_epoch`` and fail.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from tallymark.coordination import paths
from tallymark.coordination.session import documents
from tallymark.coordination.session.client import WatchCallback
from tallymark.coordination.session.errors import (
    BadVersionError,
    MalformedNodeError,
    NodeExistsError,
)
from tallymark.coordination.session.nodes import Check, Create, Node, SetData
from tallymark.coordination.session.watches import Watch, watch_node
from tallymark.coordination.session.zookeeper import ZooKeeper


@dataclass(frozen=True, slots=True)
class Controller:
    """The present controller. Only the controller itself has a ``fence``, in the session in which
    it was elected: it goes into every transaction of the controller."""

    broker_id: int
    epoch: int
    fence: Check | None = None

    @property
    def is_ours(self) -> bool:
        """Whether this session is the controller."""
        return self.fence is not None


class ControllerElection:
    """One broker's part in the election. Call :meth:`elect` at start, whenever the watch fires and
    after every reconnection; it returns the controller."""

    def __init__(self, zookeeper: ZooKeeper, broker_id: int, now_ms: Callable[[], int]) -> None:
        self._zookeeper = zookeeper
        self.broker_id = broker_id
        self._now_ms = now_ms

    def elect(self) -> Controller:
        """Become the controller if there is none. Returns the controller."""
        while True:
            node = self._zookeeper.find(paths.CONTROLLER)
            if node is not None:
                return self._holder(node)
            self._run()

    def current(self, watch: WatchCallback | None = None) -> Controller | None:
        """The controller, or None; ``watch`` fires once when that changes."""
        node = self._zookeeper.find(paths.CONTROLLER, watch)
        return self._holder(node) if node else None

    def resign(self) -> None:
        """Resign if this session is the controller."""
        node = self._zookeeper.find(paths.CONTROLLER)
        if node is not None and node.session == self._zookeeper.session:
            self._zookeeper.delete(paths.CONTROLLER, node.version)

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call back when the controller changes, until the watch is cancelled."""
        return watch_node(self._zookeeper, paths.CONTROLLER, callback)

    def _run(self) -> None:
        """Try to become the controller. Nothing happens if another broker is faster."""
        epoch = self._zookeeper.find(paths.CONTROLLER_EPOCH)
        if epoch is None:
            with contextlib.suppress(NodeExistsError):
                self._zookeeper.create(paths.CONTROLLER_EPOCH, b"0", parents=True)
            return
        claim = documents.dump(
            {"version": 1, "brokerid": self.broker_id, "timestamp": str(self._now_ms())}
        )
        following = str(_number(epoch) + 1).encode()
        try:
            self._zookeeper.commit(
                [
                    SetData(paths.CONTROLLER_EPOCH, following, epoch.version),
                    Create(paths.CONTROLLER, claim, ephemeral=True),
                ]
            )
        except (NodeExistsError, BadVersionError):
            return

    def _holder(self, node: Node) -> Controller:
        document = documents.load(paths.CONTROLLER, node.data)
        broker_id = documents.field(paths.CONTROLLER, document, "brokerid", int)
        epoch = self._zookeeper.find(paths.CONTROLLER_EPOCH)
        if epoch is None:
            raise MalformedNodeError(paths.CONTROLLER_EPOCH, "missing beside /controller")
        ours = node.session != 0 and node.session == self._zookeeper.session
        fence = Check(paths.CONTROLLER_EPOCH, epoch.version) if ours else None
        return Controller(broker_id, _number(epoch), fence)


def _number(node: Node) -> int:
    try:
        return int(node.data)
    except ValueError:
        raise MalformedNodeError(paths.CONTROLLER_EPOCH, f"{node.data!r} is no number") from None
