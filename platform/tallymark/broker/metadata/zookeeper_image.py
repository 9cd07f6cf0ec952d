"""Reads the cluster's image from ZooKeeper. All of it blocks.

The first image reads everything; each later one reads the live brokers, the topics that the changes
name (:mod:`tallymark.coordination.topics.changes`), and of those of which only the state of some
partitions has changed the states of these. A node that cannot be read leaves what it is about as it
was; everything else goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from tallymark.broker.metadata.image import (
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from tallymark.broker.settings.listeners import Endpoint
from tallymark.coordination import (
    BrokerInfo,
    BrokerRegistry,
    ChangeReader,
    TopicAssignment,
    TopicConfigs,
    TopicRegistry,
    Watch,
    ZooKeeper,
    paths,
)
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.cluster.cluster_id import cluster_id
from tallymark.coordination.cluster.feature_levels import read_features
from tallymark.coordination.session.errors import MalformedNodeError
from tallymark.coordination.session.nodes import Node
from tallymark.coordination.session.watches import watch_node
from tallymark.coordination.topics.registry import decode_topic
from tallymark.errors import UserError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.features import REPLICATION, Finalized
from tallymark.replication.model import NO_LEADER, PartitionState


class ImageReader:
    """Keeps the image that was read last. Methods raise the registries' errors. ``topics`` and
    ``changes`` are shared with the writers."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper
        self._brokers = BrokerRegistry(zookeeper)
        self.topics = TopicRegistry(zookeeper)
        self.changes = ChangeReader(zookeeper)
        self._notes = BrokerNotes(zookeeper)
        self._configs = TopicConfigs(zookeeper)
        self._image = MetadataImage("")

    def read(self, controller: int = NO_LEADER) -> MetadataImage:
        """The current image, with this controller; topics that have not changed are the same
        objects as before."""
        identity = self.check_identity()
        features = self._features()
        replicates = features.level(REPLICATION) > 0
        leaving = self._notes.leaving() if replicates else {}
        reported = self._notes.suspects() if replicates else {}
        # Before the topics: a state that names a broker as leader is not older than the
        # registration that the image shows, so it is not a lead of the process before.
        brokers = {
            info.id: _broker(info, leaving.get(info.id))
            for info in self._brokers.brokers(malformed=self.topics.malformed).values()
        }
        topics = self._topics_now()
        suspects = frozenset(one for one in brokers if reported.get(one) == brokers[one].epoch)
        image = MetadataImage(identity, controller, brokers, topics, features, suspects)
        self.changes.done()
        if topics is not self._image.topics or image != self._image:
            self._image = image
        return self._image

    def _features(self) -> Finalized:
        """The levels in force; as they were while their node cannot be read."""
        try:
            return read_features(self._zookeeper)
        except MalformedNodeError as error:
            self.topics.malformed.left_out(error.path, error)
            return self._image.features

    def _topics_now(self) -> Mapping[str, TopicImage]:
        """As they are now; the same mapping as before where nothing has changed."""
        changed, before = self.changes.unseen_changes(), self._image.topics
        if changed is None:
            names = self.topics.names()
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
        found, malformed = self.topics.readable_states(sorted(partitions))
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

    def check_identity(self, stored: str | None = None) -> str:
        """The cluster's id; the first call of a broker on a new data directory makes one. UserError
        where it differs from that of the first call, or is gone while a data directory is
        ``stored`` as of a cluster: ZooKeeper has lost its data or was replaced, and its list of
        topics must not be used."""
        known = self._image.cluster_id or stored
        if known and not self._zookeeper.exists(paths.CLUSTER_ID):
            raise UserError(
                f"ZooKeeper at {self._zookeeper.connect}{self._zookeeper.chroot} has no cluster, "
                f"this broker's data are of the cluster {known}: ZooKeeper has lost its data, or "
                "is another one",
                "bring back ZooKeeper's data (docs/operations.md), or set zookeeper.connect right",
            )
        identity = cluster_id(self._zookeeper)
        known = self._image.cluster_id or identity
        if identity != known:
            raise UserError(
                f"ZooKeeper at {self._zookeeper.connect}{self._zookeeper.chroot} is of the cluster "
                f"{identity} now, this broker is in the cluster {known}",
                "bring back ZooKeeper's data (docs/operations.md), or stop this broker",
            )
        return identity

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
        assignments = self.topics.get_many(sorted(names))
        try:
            return self._read_rest(assignments)
        except MalformedNodeError:
            found: dict[str, TopicImage] = {}
            for name, topic in assignments.items():  # which one is it?
                try:
                    found |= self._read_rest({name: topic})
                except MalformedNodeError as error:
                    self.topics.malformed.left_out(error.path, error)
            return found

    def _read_rest(self, assignments: Mapping[str, TopicAssignment]) -> dict[str, TopicImage]:
        keys = [(name, at) for name, each in assignments.items() for at in sorted(each.assignment)]
        states, malformed = self.topics.readable_states(keys)
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

    def watch(self, callback: Callable[[], None]) -> list[Watch]:
        """Call ``callback`` after every change of the live brokers, of topics and of levels."""
        return [
            self._brokers.watch(callback),
            self.changes.watch(callback),
            watch_node(self._zookeeper, paths.FEATURES, callback),
        ]

    def watch_notes(self, callback: Callable[[], None]) -> tuple[Watch, Watch]:
        """Call ``callback`` when a broker says that it leaves, or that another one is away."""
        return self._notes.watch(callback)


def _is_empty(name: str, node: Node) -> bool:
    """Whether the node is a topic without partitions: one that is being created or deleted."""
    try:
        return not decode_topic(name, node.data, node.version).assignment
    except MalformedNodeError:
        return False


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
    leaderless = PartitionState(NO_LEADER, 0, ())
    partitions = [
        PartitionImage(states.get((assignment.name, index), leaderless), assignment.of(index))
        for index in sorted(assignment.assignment)
    ]
    return TopicImage(assignment.name, assignment.topic_id, tuple(partitions), dict(configs))
