"""Reads the cluster's image from ZooKeeper, and makes a broker's changes there. All of it blocks.

The first image reads everything; each later one reads the live brokers, the topics that the changes
name (:mod:`tallymark.coordination.topics.changes`), and of those of which only the state of some
partitions has changed the states of these.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from tallymark.broker.metadata.assignment import grow, place
from tallymark.broker.metadata.image import (
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from tallymark.broker.metadata.leader_epoch import next_epoch
from tallymark.broker.metadata.port import LeadershipClaim
from tallymark.broker.metadata.topic_names import check_collision
from tallymark.broker.settings.listeners import Endpoint
from tallymark.coordination import (
    BrokerInfo,
    BrokerRegistry,
    ChangeReader,
    Controller,
    ControllerElection,
    TopicAssignment,
    TopicConfigs,
    TopicRegistry,
    TopicWriter,
    Watch,
    ZooKeeper,
    paths,
)
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.cluster.cluster_id import cluster_id
from tallymark.coordination.cluster.feature_levels import read_features
from tallymark.coordination.session.errors import MalformedNodeError
from tallymark.coordination.session.nodes import Node
from tallymark.coordination.topics.deleted import DeletedTopics
from tallymark.coordination.topics.registry import decode_topic
from tallymark.errors import CODES, KafkaError, UserError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.features import REPLICATION, Finalized
from tallymark.replication.model import NO_LEADER, PartitionState

log = logging.getLogger(__name__)


class ZooKeeperView:
    """One broker's view of the registries in ZooKeeper. Methods raise the registries' errors."""

    def __init__(self, zookeeper: ZooKeeper, node_id: int, now_ms: Callable[[], int]) -> None:
        self._zookeeper = zookeeper
        self._brokers = BrokerRegistry(zookeeper)
        self._topics = TopicRegistry(zookeeper)
        self._writer = TopicWriter(zookeeper)
        self._changes = ChangeReader(zookeeper)
        self._notes = BrokerNotes(zookeeper)
        self._configs = TopicConfigs(zookeeper)
        self._deleted = DeletedTopics(zookeeper, node_id)
        self._election = ControllerElection(zookeeper, node_id, now_ms)
        self._controller: Controller | None = None
        self._node_id = node_id
        self._image = MetadataImage("")

    # -- reading ------------------------------------------------------------------------------

    def read(self) -> MetadataImage:
        """The current image; topics that have not changed are the same objects as before."""
        identity = self.check_identity()
        features = self._features()
        topics = self._topics_now()
        leaving = self._notes.leaving() if features.level(REPLICATION) > 0 else {}
        brokers = {
            info.id: _broker(info, leaving.get(info.id))
            for info in self._brokers.brokers(malformed=self._topics.malformed).values()
        }
        controller = self._controller.broker_id if self._controller else NO_LEADER
        image = MetadataImage(identity, controller, brokers, topics, features)
        self._changes.done()
        if topics is not self._image.topics or image != self._image:
            self._image = image
        return self._image

    def _features(self) -> Finalized:
        """The levels in force; as they were while their node cannot be read."""
        try:
            return read_features(self._zookeeper)
        except MalformedNodeError as error:
            self._topics.malformed.left_out(error.path, error)
            return self._image.features

    def _topics_now(self) -> Mapping[str, TopicImage]:
        """As they are now; the same mapping as before where nothing has changed."""
        changed, before = self._changes.unseen_changes(), self._image.topics
        if changed is None:
            names = self._topics.names()
            found = self._read_topics(names)
            topics = {n: before[n] if before.get(n) == t else t for n, t in found.items()}
            return topics | self._unreadable(names, found)
        if not changed.topics and not changed.partitions:
            return before
        whole, topics = set(changed.topics), dict(before)
        topics |= self._with_states(changed.partitions, whole)
        if whole:
            found = self._read_topics(whole)
            kept = {name: topic for name, topic in topics.items() if name not in whole}
            topics = {**kept, **found, **self._unreadable(whole, found)}
        return topics

    def _with_states(
        self, partitions: Set[TopicPartition], whole: set[str]
    ) -> dict[str, TopicImage]:
        """The topics of these partitions with the states that they have now. Those of which a
        partition is new, or has no state, must be read as a whole: they come into ``whole``. A
        partition whose state cannot be read stays as it was."""
        before, parts = self._image.topics, dict[str, dict[int, PartitionState]]()
        found, malformed = self._topics.readable_states(sorted(partitions))
        for name, index in partitions:
            if name not in before or index >= len(before[name].partitions):
                whole.add(name)
            elif (name, index) in found:
                parts.setdefault(name, {})[index] = found[name, index]
            elif (name, index) not in malformed:
                whole.add(name)
        return {
            name: before[name].with_states(states)
            for name, states in parts.items()
            if name not in whole
        }

    def check_identity(self) -> str:
        """The cluster's id. UserError where it differs from that of the first call: ZooKeeper has
        lost its data or was replaced, and its list of topics must not be used."""
        identity = cluster_id(self._zookeeper)
        known = self._image.cluster_id or identity
        if identity != known:
            raise UserError(
                f"ZooKeeper at {self._zookeeper.connect}{self._zookeeper.chroot} is of the cluster "
                f"{identity} now, this broker is in the cluster {known}",
                "bring back ZooKeeper's data, or stop this broker",
            )
        return identity

    def read_in_office(self) -> MetadataImage:
        """Try to become controller, do the controller's work if elected, and read."""
        self.check_identity()
        controller = self._election.elect()
        if self._controller is None or self._controller.epoch != controller.epoch:
            log.info("controller broker=%d epoch=%d", controller.broker_id, controller.epoch)
        self._controller = controller
        if controller.fence is not None:
            self._changes.remove_old()
            for name in self._topics.deletions():
                try:
                    self._writer.delete(name, controller.fence)
                except (
                    KafkaError
                ) as error:  # not controller any more, or retried with the next image
                    log.warning("topic not removed name=%s: %s", name, error)
                except (UserError, MalformedNodeError, ValueError) as error:
                    self._topics.malformed.left_out(f"{paths.DELETE_TOPICS}/{name}", str(error))
                else:
                    log.info("topic removed by the controller name=%s", name)
        return self.read()

    def watch(self, callback: Callable[[], None]) -> list[Watch]:
        """Call ``callback`` after every change that needs a new image: of the live brokers, of
        topics, of the controller, and of requests to delete (which only the controller handles)."""
        watches = [self._election.watch(callback), self._brokers.watch(callback)]
        watches.append(self._changes.watch(callback))
        watches.append(self._topics.watch_deletions(callback))
        return watches

    def resign(self) -> None:
        """Stop being controller."""
        self._election.resign()

    def _unreadable(
        self, names: Iterable[str], found: Mapping[str, TopicImage]
    ) -> dict[str, TopicImage]:
        """Those of these topics whose nodes exist but cannot be read now. They stay in the image as
        they were, since the broker deletes the logs of a topic that is not in the image."""
        missing = [n for n in names if n not in found and n in self._image.topics]
        there = self._zookeeper.read_many([paths.topic(name) for name in missing])
        return {
            name: self._image.topics[name]
            for name, node in zip(missing, there, strict=True)
            if node is not None and not _is_empty(name, node)
        }

    def _read_topics(self, names: Iterable[str]) -> dict[str, TopicImage]:
        """The topics that can be read; the others are logged."""
        assignments = self._topics.get_many(sorted(names))
        try:
            return self._read_rest(assignments)
        except MalformedNodeError:
            found: dict[str, TopicImage] = {}
            for name, topic in assignments.items():  # which one is it?
                try:
                    found |= self._read_rest({name: topic})
                except MalformedNodeError as error:
                    self._topics.malformed.left_out(error.path, error)
            return found

    def _read_rest(self, assignments: Mapping[str, TopicAssignment]) -> dict[str, TopicImage]:
        keys = [(name, at) for name, each in assignments.items() for at in sorted(each.assignment)]
        states, malformed = self._topics.readable_states(keys)
        for name, index in malformed:
            last = self._last_state(assignments[name], index)
            states |= {(name, index): last} if last else {}
        configs = self._configs.get_many(list(assignments))
        return {name: _topic(each, states, configs[name]) for name, each in assignments.items()}

    def _last_state(self, topic: TopicAssignment, index: int) -> PartitionState | None:
        """What was read before of a partition whose state cannot be read now."""
        before = self._image.topics.get(topic.name)
        if before is None or before.topic_id != topic.topic_id or index >= len(before.partitions):
            return None
        return before.partitions[index].state

    # -- changing -----------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None,
    ) -> None:
        """Create a topic, spread over the brokers by their present load. TOPIC_ALREADY_EXISTS, also
        while a topic of that name is being deleted."""
        image = self.read()
        if name not in image.topics:  # otherwise the writer raises the right error
            check_collision(name, image)
        replicas = place(partitions, image.load(), assignment)
        self._writer.create(
            name,
            uuid.uuid4(),
            dict(enumerate(replicas)),
            configs,
            controller_epoch=self._epoch_in_office,
        )

    def create_partitions(
        self, name: str, count: int, assignment: Sequence[Sequence[int]] | None
    ) -> None:
        """Add partitions to the topic. UNKNOWN_TOPIC_OR_PARTITION, and the errors of ``grow``."""
        load = self.read().load()
        self._writer.grow(
            name, lambda there: grow(there, count, load, assignment), self._epoch_in_office
        )

    def alter_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the topic's own configs. UNKNOWN_TOPIC_OR_PARTITION."""
        self._writer.configure(name, configs)

    def request_deletes(self, names: Sequence[str]) -> list[str]:
        """Ask the controller to delete the topics; returns the names that no topic has."""
        there = self._topics.get_many(names)
        self._topics.request_deletes([name for name in names if name in there])
        return [name for name in names if name not in there]

    def deleted_here(self) -> set[uuid.UUID]:
        """Deleted topics of which this broker may still have partitions."""
        return self._deleted.here()

    def forget_deleted(self, topic_ids: Iterable[uuid.UUID]) -> None:
        """This broker no longer has partitions of these topics."""
        self._deleted.forget(topic_ids)

    def lead(self, claims: Sequence[LeadershipClaim]) -> list[int | KafkaError]:
        """Become leader, by compare-and-set of the states whose epoch rises. The others stay as in
        the image: with one replica no other broker can lead a partition of ours, so they cannot
        have changed."""
        outcomes: dict[tuple[str, int], int | KafkaError] = {
            (claim.topic, claim.index): claim.told for claim in claims
        }
        rising = [c for c in claims if c.told != next_epoch(c.told, c.log_epoch, intact=c.intact)]
        if rising:
            outcomes |= self._raise_epochs(rising)
        return [outcomes[claim.topic, claim.index] for claim in claims]

    def _raise_epochs(
        self, claims: Sequence[LeadershipClaim]
    ) -> dict[tuple[str, int], int | KafkaError]:
        guard = self._writer.guard()
        parts: dict[str, dict[int, tuple[int, ...]]] = {}
        for claim in claims:
            parts.setdefault(claim.topic, {})[claim.index] = ()
        nil = uuid.UUID(int=0)
        states = self._topics.states([TopicAssignment(name, nil, p) for name, p in parts.items()])
        outcomes: dict[tuple[str, int], int | KafkaError] = {}
        raised: dict[tuple[str, int], PartitionState] = {}
        for claim in claims:
            key = (claim.topic, claim.index)
            state = states.get(key)
            if state is None or state.leader != self._node_id:
                outcomes[key] = _not_ours(key, "is another's to lead")
                continue
            epoch = next_epoch(state.leader_epoch, claim.log_epoch, intact=claim.intact)
            outcomes[key] = epoch
            raised[key] = replace(state, leader_epoch=epoch)
        for key, error in self._writer.put_states(raised, guard).items():
            outcomes[key] = _not_ours(key, str(error))
        return outcomes

    @property
    def _epoch_in_office(self) -> int:
        return self._controller.epoch if self._controller else 0


def _is_empty(name: str, node: Node) -> bool:
    """Whether the node is a topic without partitions: one that is being created or deleted."""
    try:
        return not decode_topic(name, node.data, node.version).assignment
    except MalformedNodeError:
        return False


def _not_ours(key: tuple[str, int], why: str) -> KafkaError:
    return KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"], f"{key[0]}-{key[1]}: {why}")


def _broker(info: BrokerInfo, leaving: int | None) -> BrokerImage:
    """``leaving`` is the epoch in which the broker said that it wants to stop, None: it did not."""
    endpoints = {
        each.name: Endpoint(each.host, each.port, each.protocol) for each in info.listeners
    }
    return BrokerImage(
        info.id, endpoints, info.rack, info.epoch, leaving == info.epoch, info.features
    )


def _topic(
    assignment: TopicAssignment,
    states: Mapping[TopicPartition, PartitionState],
    configs: Mapping[str, str],
) -> TopicImage:
    nobody = PartitionState(NO_LEADER, 0, ())
    partitions = [
        PartitionImage(states.get((assignment.name, index), nobody), assignment.of(index))
        for index in sorted(assignment.assignment)
    ]
    return TopicImage(assignment.name, assignment.topic_id, tuple(partitions), dict(configs))
