"""Topics, their partitions and leaders: ``/brokers/topics``.

The nodes hold what Apache Kafka writes there::

    /brokers/topics/[topic]
        {"version":3, "topic_id":"<url-safe base64 of the UUID>", "partitions":{"0":[1,2]},
         "adding_replicas":{"0":[2]}, "removing_replicas":{}}     of reassignments (KIP-455)
    /brokers/topics/[topic]/partitions/[p]/state
        {"controller_epoch":1, "leader":1, "version":1, "leader_epoch":0, "isr":[1,2]}
         and of ours, where there are any: "incomplete":{"2":[<last epoch>, <end>]}, "unclean":true,
         "unclean_epoch":<leader epoch>

A topic without partitions is being created, and does not count yet.
:mod:`~tallymark.coordination.topics.writer` makes all changes, except requests to delete a topic.
"""

from __future__ import annotations

import base64
import contextlib
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.malformed_nodes import MalformedNodes
from tallymark.coordination.session import documents
from tallymark.coordination.session.client import WatchCallback
from tallymark.coordination.session.errors import MalformedNodeError, NodeExistsError
from tallymark.coordination.session.nodes import ANY_VERSION, Create
from tallymark.coordination.session.watches import Watch, watch_children
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import Assignment, PartitionState, Tail

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_REQUESTS: Final = 500
"""Requests to delete in one transaction."""


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """A topic: ``assignment[p]`` are the ids of the brokers that hold partition p, the preferred
    leader first. ``version`` counts changes of the node. A topic that is created again gets another
    id. ``adding`` and ``removing`` have the partitions that are being reassigned. ``others`` are
    fields of the node that this version does not know; they are written back as they were read."""

    name: str
    topic_id: uuid.UUID
    assignment: Mapping[int, tuple[int, ...]]
    version: int = ANY_VERSION
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    others: Mapping[str, object] = field(default_factory=dict[str, object])

    def of(self, partition: int) -> Assignment:
        """The assignment of one partition."""
        return Assignment(
            self.assignment[partition],
            self.adding.get(partition, ()),
            self.removing.get(partition, ()),
        )

    def with_partition(self, partition: int, assignment: Assignment) -> TopicAssignment:
        """The topic with another assignment of one partition."""

        def put(
            of: Mapping[int, tuple[int, ...]], ids: tuple[int, ...]
        ) -> dict[int, tuple[int, ...]]:
            rest = {index: at for index, at in of.items() if index != partition}
            return {**rest, partition: ids} if ids else rest

        return replace(
            self,
            assignment={**self.assignment, partition: assignment.replicas},
            adding=put(self.adding, assignment.adding),
            removing=put(self.removing, assignment.removing),
        )


class TopicRegistry:
    """Reads the topics of one cluster. A node that is not a topic is left out and reported."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper
        self.malformed = MalformedNodes()

    def names(self, watch: WatchCallback | None = None) -> list[str]:
        """All topics, sorted; ``watch`` fires once when one comes or goes."""
        found: list[str] = []
        for name in self._zookeeper.children(paths.TOPICS, watch):
            if is_topic_name(name):
                found.append(name)
            else:
                self.malformed.left_out(f"{paths.TOPICS}/{name}", "no topic can be called so")
        return found

    def get(self, name: str, watch: WatchCallback | None = None) -> TopicAssignment | None:
        """One topic or None; ``watch`` fires once when it comes, changes or goes."""
        node = self._zookeeper.find(paths.topic(name), watch)
        topic = decode_topic(name, node.data, node.version) if node else None
        return topic if topic and topic.assignment else None

    def get_many(
        self, names: Sequence[str], watch: WatchCallback | None = None
    ) -> dict[str, TopicAssignment]:
        """Many topics in one round trip's time; those that are not there, or that cannot be read,
        are left out. ``watch`` fires once when any of them comes, changes or goes."""
        names = [name for name in names if is_topic_name(name)]
        nodes = self._zookeeper.read_many([paths.topic(name) for name in names], watch)
        found: dict[str, TopicAssignment] = {}
        for name, node in zip(names, nodes, strict=True):
            if node is None and watch is not None:
                node = self._zookeeper.find(paths.topic(name), watch)  # sets its watch
            if node is None:
                continue
            try:
                topic = decode_topic(name, node.data, node.version)
            except MalformedNodeError as error:
                self.malformed.left_out(paths.topic(name), error)
                continue
            self.malformed.fine(paths.topic(name))
            if topic.assignment:
                found[name] = topic
        return found

    def states(self, topics: Sequence[TopicAssignment]) -> dict[tuple[str, int], PartitionState]:
        """(topic, partition) -> state of every partition that has one. MalformedNodeError."""
        keys = [(topic.name, p) for topic in topics for p in sorted(topic.assignment)]
        nodes = self._zookeeper.read_many([paths.partition_state(*key) for key in keys])
        return {
            key: decode_state(paths.partition_state(*key), node.data, node.version)
            for key, node in zip(keys, nodes, strict=True)
            if node is not None
        }

    def readable_states(
        self, keys: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, PartitionState], set[TopicPartition]]:
        """The states of these partitions, and those whose node is there but cannot be read, which
        are reported."""
        places = [paths.partition_state(*key) for key in keys]
        found: dict[TopicPartition, PartitionState] = {}
        malformed: set[TopicPartition] = set()
        for key, path, node in zip(keys, places, self._zookeeper.read_many(places), strict=True):
            if node is None:
                continue
            try:
                found[key] = decode_state(path, node.data, node.version)
            except MalformedNodeError as error:
                malformed.add(key)
                self.malformed.left_out(path, error)
            else:
                self.malformed.fine(path)
        return found, malformed

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call back when topics come or go, until the watch is cancelled."""
        return watch_children(self._zookeeper, paths.TOPICS, callback)

    # -- deletion -----------------------------------------------------------------------------

    def request_deletes(self, names: Sequence[str]) -> None:
        """Ask the controller to delete topics. Idempotent."""
        self._zookeeper.ensure(paths.DELETE_TOPICS)
        steps = [Create(paths.delete_topic(name)) for name in names]
        for at in range(0, len(steps), _REQUESTS):
            part = steps[at : at + _REQUESTS]
            try:
                self._zookeeper.commit(part)
            except NodeExistsError:  # one of them was requested before
                for step in part:
                    with contextlib.suppress(NodeExistsError):
                        self._zookeeper.commit([step])

    def deletions(self, watch: WatchCallback | None = None) -> list[str]:
        """Topics with a request to delete that are not gone yet."""
        return self._zookeeper.children(paths.DELETE_TOPICS, watch)

    def watch_deletions(self, callback: Callable[[], None]) -> Watch:
        """Call back at requests to delete until the watch is cancelled."""
        return watch_children(self._zookeeper, paths.DELETE_TOPICS, callback)


def is_topic_name(name: str) -> bool:
    """Whether a topic may have this name, by Kafka's rule."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


def encode_topic(topic: TopicAssignment) -> bytes:
    """The content of a topic's node."""
    identity = base64.urlsafe_b64encode(topic.topic_id.bytes).rstrip(b"=").decode()
    return documents.dump(
        {
            "version": 3,
            "topic_id": identity,
            "partitions": _written(topic.assignment),
            "adding_replicas": _written(topic.adding),
            "removing_replicas": _written(topic.removing),
        }
        | dict(topic.others)
    )


_TOPIC_FIELDS: Final = frozenset(
    ("version", "topic_id", "partitions", "adding_replicas", "removing_replicas")
)


def decode_topic(name: str, data: bytes, version: int) -> TopicAssignment:
    """A topic's node; Apache Kafka before 2.8 wrote no id, then it is the nil UUID."""
    path = paths.topic(name)
    document = documents.load(path, data)
    partitions = documents.field(path, document, "partitions", dict)
    if set(partitions) != {str(number) for number in range(len(partitions))}:
        raise MalformedNodeError(path, "its partitions are not numbered from 0 on")
    text = str(document.get("topic_id", ""))
    try:
        identity = (
            uuid.UUID(bytes=base64.urlsafe_b64decode(text + "==")) if text else uuid.UUID(int=0)
        )
    except ValueError:
        raise MalformedNodeError(path, f"{text[:50]!r} is no topic id") from None
    assignment = {int(p): documents.integers(path, p, r) for p, r in partitions.items()}
    adding, removing = (
        _moving(path, document, side, assignment)
        for side in ("adding_replicas", "removing_replicas")
    )
    others = {field: value for field, value in document.items() if field not in _TOPIC_FIELDS}
    return TopicAssignment(
        name, identity, dict(sorted(assignment.items())), version, adding, removing, others
    )


def _written(replicas: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {str(partition): list(ids) for partition, ids in sorted(replicas.items())}


def _moving(
    path: str, document: Mapping[str, object], side: str, partitions: Mapping[int, object]
) -> dict[int, tuple[int, ...]]:
    """Apache Kafka before 2.4 wrote neither side."""
    found: dict[int, tuple[int, ...]] = {}
    for text, ids in documents.field(path, {side: {}} | dict(document), side, dict).items():
        if not text.isdecimal() or int(text) not in partitions:
            raise MalformedNodeError(path, f"{side} names {text!r}, which is no partition of it")
        if replicas := documents.integers(path, f"{side} of {text}", ids):
            found[int(text)] = replicas
    return found


_LONG_STATE: Final = 500
"""Bytes; longer contents are rare, and not kept."""
_STATE_FIELDS: Final = frozenset(
    (
        *("controller_epoch", "leader", "version", "leader_epoch", "isr"),
        *("incomplete", "unclean", "unclean_epoch"),
    )
)


def encode_state(state: PartitionState) -> bytes:
    """The content of a partition's state node. Fields that it does not know stay in it."""
    document: dict[str, object] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.incomplete:
        document["incomplete"] = {
            str(broker): [tail.last_epoch, tail.end]
            for broker, tail in sorted(state.incomplete.items())
        }
    if state.unclean:
        document["unclean"] = True
        if state.unclean_epoch >= 0:
            document["unclean_epoch"] = state.unclean_epoch
    return documents.dump(document | dict(state.others))


def decode_state(path: str, data: bytes, version: int) -> PartitionState:
    """A partition's state node."""
    if len(data) > _LONG_STATE:
        return replace(_decoded(path, data), version=version)
    try:
        return replace(_kept(data), version=version)
    except MalformedNodeError:  # of the first node with this content
        return _decoded(path, data)


@lru_cache(maxsize=4096)
def _kept(data: bytes) -> PartitionState:
    """Of ten thousand partitions few contents differ, and to read one takes ten times as long."""
    return _decoded("", data)


def _decoded(path: str, data: bytes) -> PartitionState:
    document = documents.load(path, data)
    return PartitionState(
        leader=documents.field(path, document, "leader", int),
        leader_epoch=documents.field(path, document, "leader_epoch", int),
        isr=documents.integers(path, "isr", document.get("isr")),
        controller_epoch=documents.field(path, document, "controller_epoch", int),
        incomplete=_incomplete(path, document),
        unclean=document.get("unclean") is True,
        unclean_epoch=documents.field(path, {"unclean_epoch": -1} | document, "unclean_epoch", int),
        others={name: value for name, value in document.items() if name not in _STATE_FIELDS},
    )


def _incomplete(path: str, document: Mapping[str, object]) -> dict[int, Tail]:
    found: dict[int, Tail] = {}
    entries = documents.field(path, {"incomplete": {}} | dict(document), "incomplete", dict)
    for broker, tail in entries.items():
        numbers = documents.integers(path, f"incomplete of {broker}", tail)
        if not broker.isdecimal() or len(numbers) != 2:
            raise MalformedNodeError(path, f"incomplete of {broker!r} is {tail!r}")
        found[int(broker)] = Tail(*numbers)
    return found
