"""Reading the cluster's picture from ZooKeeper, and writing what a broker may. All of it blocks."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence

from tallymark.broker.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage, TopicImage
from tallymark.coordination import (
    BadVersionError,
    BrokerRegistry,
    Controller,
    ControllerElection,
    PartitionState,
    TopicAssignment,
    TopicConfigs,
    TopicRegistry,
    Watch,
    ZooKeeper,
)
from tallymark.coordination.cluster_id import cluster_id
from tallymark.errors import CODES, KafkaError, UserError

log = logging.getLogger(__name__)


class ZooKeeperView:
    """One broker's view of the registries. Methods raise what those raise."""

    def __init__(self, zookeeper: ZooKeeper, node_id: int, now_ms: Callable[[], int]) -> None:
        self.brokers = BrokerRegistry(zookeeper)
        self.topics = TopicRegistry(zookeeper)
        self._zookeeper = zookeeper
        self._configs = TopicConfigs(zookeeper)
        self._election = ControllerElection(zookeeper, node_id, now_ms)
        self._controller: Controller | None = None
        self._node_id = node_id
        self._cluster_id = ""

    def read(self) -> MetadataImage:
        """The picture as it is now."""
        identity = self.check_identity()
        assignments = self.topics.get_many(self.topics.names())
        states = self.topics.states(list(assignments.values()))
        configs = self._configs.get_many(list(assignments))
        brokers = {
            info.id: BrokerImage(info.id, info.host, info.port)
            for info in self.brokers.brokers().values()
        }
        topics = {
            name: _topic(assignment, states, configs[name])
            for name, assignment in assignments.items()
        }
        controller = self._controller.broker_id if self._controller else NO_LEADER
        return MetadataImage(identity, controller, brokers, topics)

    def check_identity(self) -> str:
        """The cluster's id. UserError where it is another one than at the first call: ZooKeeper has
        lost its data or was exchanged, and its list of topics must not be believed."""
        identity = cluster_id(self._zookeeper)
        self._cluster_id = self._cluster_id or identity
        if identity != self._cluster_id:
            raise UserError(
                f"ZooKeeper at {self._zookeeper.connect}{self._zookeeper.chroot} is of the cluster "
                f"{identity} now, this broker is in the cluster {self._cluster_id}",
                "bring back ZooKeeper's data, or stop this broker",
            )
        return identity

    def read_in_office(self) -> MetadataImage:
        """Stand for controller, delete what is asked to be deleted if elected, and read."""
        self.check_identity()
        controller = self._election.elect()
        if self._controller is None or self._controller.epoch != controller.epoch:
            log.info("controller broker=%d epoch=%d", controller.broker_id, controller.epoch)
        self._controller = controller
        if controller.is_ours:
            for name in self.topics.deletions():
                self.topics.delete(name)
                log.info("topic removed by the controller name=%s", name)
        return self.read()

    def watch_office(self, callback: Callable[[], None]) -> Watch:
        """Hear of the controller's coming and going."""
        return self._election.watch(callback)

    def resign(self) -> None:
        """Be controller no more."""
        self._election.resign()

    def live_brokers(self) -> list[int]:
        """Ids of the registered brokers."""
        return list(self.brokers.brokers())

    def create_topic(
        self,
        name: str,
        topic_id: uuid.UUID,
        replicas: Sequence[tuple[int, ...]],
        configs: Mapping[str, str],
    ) -> None:
        """Create it at once. TOPIC_ALREADY_EXISTS, also while it is being deleted.

        Needs no office and no fence: the transaction fails where the topic is there already.
        """
        if name in self.topics.deletions():
            raise KafkaError(CODES["TOPIC_ALREADY_EXISTS"], f"{name} is being deleted")
        office = self._controller
        self.topics.create(
            name,
            topic_id,
            dict(enumerate(replicas)),
            configs,
            controller_epoch=office.epoch if office else 0,
        )

    def request_delete(self, name: str) -> None:
        """Ask the controller for it. UNKNOWN_TOPIC_OR_PARTITION."""
        if self.topics.get(name) is None:
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], name)
        self.topics.request_delete(name)

    def lead(self, topic: str, index: int, log_epoch: int, *, keep_epoch: bool) -> int:
        """Become leader, by compare-and-set. ``keep_epoch``: the epoch of the state is fine
        unless the log has had it already."""
        part = TopicAssignment(topic, uuid.UUID(int=0), {index: ()})
        while True:
            state = self.topics.states([part]).get((topic, index))
            if state is None or state.leader != self._node_id:
                raise KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"], f"{topic}-{index}")
            if keep_epoch and log_epoch < state.leader_epoch:
                return state.leader_epoch
            epoch = max(state.leader_epoch, log_epoch) + 1
            led = PartitionState(
                self._node_id, epoch, (self._node_id,), state.controller_epoch, state.version
            )
            try:
                self.topics.put_state(topic, index, led)
            except BadVersionError:
                continue  # somebody wrote meanwhile: look again
            return epoch


def _topic(
    assignment: TopicAssignment,
    states: Mapping[tuple[str, int], PartitionState],
    configs: Mapping[str, str],
) -> TopicImage:
    nobody = PartitionState(NO_LEADER, 0, ())
    partitions: list[PartitionImage] = []
    for index, replicas in sorted(assignment.assignment.items()):
        state = states.get((assignment.name, index), nobody)
        partitions.append(
            PartitionImage(state.leader, state.leader_epoch, tuple(replicas), state.isr)
        )
    return TopicImage(assignment.name, assignment.topic_id, tuple(partitions), dict(configs))
