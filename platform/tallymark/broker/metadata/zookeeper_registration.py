"""Registers this broker among the live ones. All of it blocks.

The entry of a killed broker (and maybe the controller's node) stays until its session times out.
The next start holds the lock of the same data folder, and has the same address, so the earlier
process is dead: it removes these nodes instead of waiting. The folder's id alone does not show
that: the folder may be a copy of one in use.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable

from tallymark.broker.metadata.image import BrokerImage
from tallymark.coordination import (
    BrokerInfo,
    BrokerRegistry,
    ControllerElection,
    ListenerInfo,
    ZooKeeper,
    paths,
)
from tallymark.coordination.cluster.broker_node import BrokerNode
from tallymark.coordination.malformed_nodes import MalformedNodes
from tallymark.coordination.replicas.starting import LocalReplicas, Starting
from tallymark.errors import TallymarkError, UserError
from tallymark.log.disk.files import Files, write_file

log = logging.getLogger(__name__)


class Registration:
    """``folder`` is a data folder that this process has locked; its id distinguishes our entry
    from those of other processes."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        node_id: int,
        files: Files,
        folder: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._zookeeper = zookeeper
        self._brokers = BrokerRegistry(zookeeper)
        self._election = ControllerElection(zookeeper, node_id, now_ms)
        self._node_id = node_id
        self._files = files
        self._folder = folder
        self._run = ""
        self._now_ms = now_ms
        self._node: BrokerNode | None = None

    def check_free(self, me: BrokerImage) -> None:
        """UserError when another broker has our id; removes the nodes of our earlier process."""
        self._run = data_folder_id(self._files, self._folder)
        other = self._brokers.brokers(malformed=MalformedNodes()).get(self._node_id)
        if other is None:
            return
        mine = self._info(me)
        if other.run != self._run and other.address != mine.address:
            raise UserError(
                f"broker id {self._node_id} is in use by {other.address} in "
                f"{self._zookeeper.connect}{self._zookeeper.chroot}",
                "give this broker another id, or stop the other one",
            )
        if other.run != self._run or not _share_an_address(other, mine):
            # An earlier process with other data, or at another address; the latter may also be one
            # that runs, if its data folder was copied. Registration waits for its end.
            return
        log.info("removing what the earlier process of this data folder left registered")
        self._remove(paths.broker(self._node_id))
        office = self._election.current()
        if office is not None and office.broker_id == self._node_id and not office.is_ours:
            self._remove(paths.CONTROLLER)

    def register(
        self,
        me: BrokerImage,
        on_failure: Callable[[TallymarkError], None],
        logs: LocalReplicas,
        registered: Callable[[int], None],
    ) -> None:
        """Register among the live brokers, and again in every new session; each time give up what
        ``logs`` do not allow to claim, and call ``registered`` with the new broker epoch."""
        starting = Starting(self._zookeeper, self._node_id, logs, self._now_ms)
        self._node = self._brokers.register(
            self._info(me), on_failure, starting.give_up, registered
        )

    @property
    def epoch(self) -> int:
        """The broker epoch in the present session, -1 while this broker is not registered."""
        node = self._node
        return node.epoch if node is not None and node.is_registered else -1

    def release(self) -> None:
        """Unregister."""
        if self._node is not None:
            self._node.release()

    def _info(self, me: BrokerImage) -> BrokerInfo:
        listeners = tuple(
            ListenerInfo(name, at.protocol, at.host, at.port) for name, at in me.endpoints.items()
        )
        first = listeners[0]
        return BrokerInfo(
            self._node_id,
            first.host,
            first.port,
            self._run,
            self._now_ms(),
            listeners,
            me.rack,
            features=me.features,
        )

    def _remove(self, path: str) -> None:
        node = self._zookeeper.find(path)
        if node is not None and node.session != self._zookeeper.session:
            self._zookeeper.delete(path, node.version)


def _share_an_address(one: BrokerInfo, other: BrokerInfo) -> bool:
    """Two processes that run have none in common."""
    addresses = {each.address for each in one.listeners}
    return any(each.address in addresses for each in other.listeners)


def data_folder_id(files: Files, folder: str) -> str:
    """The id of a data folder, made at its first use: 32 hex digits in ``folder.id``."""
    path = f"{folder}/folder.id"
    if files.exists(path):
        return files.read(path).decode(errors="replace").strip()
    identity = uuid.uuid4().hex
    write_file(files, path, identity.encode())
    return identity
