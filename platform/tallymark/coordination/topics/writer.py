"""Changes topics: creates them, adds partitions, sets configs and leaders, deletes them. Reading is
in :mod:`~tallymark.coordination.topics.registry`.

Any broker may do all of it, except deletions: these are the controller's. Each change is one
transaction that checks the facts on which it was decided:

* the versions of the nodes that it replaces
* the *guard*: the version of ``/admin/delete_topics``, which every deletion raises. A topic that is
  deleted and created again has the versions of a new one. Without the guard a broker that was slow
  between reading and writing could write into another topic of the same name
* for deletions the controller's fence, so that a deposed controller deletes nothing

A request to ZooKeeper is at most 1 MB. What does not fit is done in steps, with a consistent state
after each: a topic with many partitions is created first as a node without partitions, which does
not count as a topic, and gets its partitions last.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from tallymark.coordination import paths
from tallymark.coordination.session.errors import (
    BadVersionError,
    CoordinationError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from tallymark.coordination.session.nodes import ANY_VERSION, Check, Create, Delete, SetData, Step
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics import configs
from tallymark.coordination.topics.changes import change_of, change_of_states
from tallymark.coordination.topics.deleted import notes_of
from tallymark.coordination.topics.registry import (
    TopicAssignment,
    TopicRegistry,
    decode_topic,
    encode_state,
    encode_topic,
)
from tallymark.errors import CODES, KafkaError
from tallymark.replication.model import PartitionState

T = TypeVar("T")

STEP_PARTITIONS: Final = 500
"""Partitions in one transaction: below 1 MB even with the longest names."""
_PARENTS: Final = (
    *(paths.TOPICS, paths.TOPIC_CONFIGS, paths.CHANGES),
    *(paths.DELETE_TOPICS, paths.DELETED_TOPICS),
)
_ATTEMPTS: Final = 5
_CHANGED: Final = (BadVersionError, NoNodeError, NodeExistsError, NotEmptyError)
"""The facts on which this was decided have changed."""


class TopicWriter:
    """Writes the topics of one cluster."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper
        self._topics = TopicRegistry(zookeeper)
        self._ready = False

    # -- create -------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        topic_id: uuid.UUID,
        assignment: Mapping[int, Sequence[int]],
        config: Mapping[str, str] | None = None,
        *,
        controller_epoch: int = 0,
    ) -> None:
        """Create a topic whose partitions are led by their first replica. Readers see all of it or
        nothing. KafkaError TOPIC_ALREADY_EXISTS, also while it is being deleted."""
        self._prepare()
        topic = TopicAssignment(name, topic_id, {p: tuple(r) for p, r in assignment.items()})
        states = [
            (p, PartitionState(r[0], 0, r, controller_epoch))
            for p, r in sorted(topic.assignment.items())
        ]
        ending = [self._config_step(name, config or {}), change_of([name])]
        try:
            if len(states) > STEP_PARTITIONS or self._is_left_over(name):
                self._create_in_steps(topic, states, ending)
            else:
                self._zookeeper.commit(
                    [
                        Create(paths.topic(name), encode_topic(topic)),
                        Create(paths.partitions(name)),
                        *_creations(name, states),
                        *ending,
                    ]
                )
        except _CHANGED:
            raise KafkaError(CODES["TOPIC_ALREADY_EXISTS"], name) from None

    def _is_left_over(self, name: str) -> bool:
        """Whether a creation in steps was interrupted; the next one continues it."""
        node = self._zookeeper.find(paths.topic(name))
        return node is not None and not decode_topic(name, node.data, node.version).assignment

    def _create_in_steps(
        self,
        topic: TopicAssignment,
        states: Sequence[tuple[int, PartitionState]],
        ending: Sequence[Step],
    ) -> None:
        place = paths.topic(topic.name)
        empty = encode_topic(TopicAssignment(topic.name, topic.topic_id, {}))
        node = self._zookeeper.find(place)
        if node is None:
            self._zookeeper.commit([Create(place, empty), Create(paths.partitions(topic.name))])
            version = 0
        elif decode_topic(topic.name, node.data, node.version).assignment:
            raise NodeExistsError(place)
        else:  # from now on only we can finish it: all others know another version
            version = self._zookeeper.write(place, empty, node.version)
            self._zookeeper.delete_tree(paths.partitions(topic.name))
            self._zookeeper.create(paths.partitions(topic.name))
        mine = Check(place, version)
        for part in _parts(states):
            self._zookeeper.commit([mine, *_creations(topic.name, part)])
        self._zookeeper.commit([SetData(place, encode_topic(topic), version), *ending])

    def _config_step(self, name: str, config: Mapping[str, str]) -> Step:
        """The settings are written with the topic. They replace those of an earlier topic of that
        name, which another kind of broker may have left."""
        path, data = paths.topic_config(name), configs.encode(config)
        return SetData(path, data) if self._zookeeper.exists(path) else Create(path, data)

    # -- change -------------------------------------------------------------------------------

    def grow(
        self, name: str, added: Callable[[int], Sequence[tuple[int, ...]]], controller_epoch: int
    ) -> None:
        """Append partitions: ``added(n)`` gives the replicas of those that a topic of ``n``
        partitions needs; it may raise, and is called again when another broker was faster.
        KafkaError UNKNOWN_TOPIC_OR_PARTITION."""

        def once(guard: Check) -> None:
            topic = self._get(name)
            there = len(topic.assignment)
            states = [
                (there + number, PartitionState(replicas[0], 0, replicas, controller_epoch))
                for number, replicas in enumerate(added(there))
            ]
            for part in _parts(states):
                replicas = {index: state.isr for index, state in part}
                topic = replace(topic, assignment={**topic.assignment, **replicas})
                self._zookeeper.commit(
                    [
                        guard,
                        SetData(paths.topic(name), encode_topic(topic), topic.version),
                        *_creations(name, part),
                        change_of([name]),
                    ]
                )
                topic = self._get(name)

        self._retried(name, once)

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Replace the topic's own settings. KafkaError UNKNOWN_TOPIC_OR_PARTITION."""

        def once(guard: Check) -> None:
            self._get(name)
            exists = Check(paths.topic(name), ANY_VERSION)
            self._zookeeper.commit(
                [guard, exists, self._config_step(name, config), change_of([name])]
            )

        self._retried(name, once)

    def put_states(
        self,
        states: Mapping[tuple[str, int], PartitionState],
        guard: Check,
        fence: Check | None = None,
    ) -> dict[tuple[str, int], CoordinationError]:
        """Replace the states of partitions, each of its ``version``. Returns the error of each that
        was changed meanwhile. Up to 500 are one transaction; if it fails they are tried one by one.
        ``guard`` was read before the states. KafkaError STALE_CONTROLLER_EPOCH when the fence does
        not hold."""
        failed: dict[tuple[str, int], CoordinationError] = {}
        head = [guard, fence] if fence else [guard]
        for part in _parts(list(states.items())):
            try:
                self._commit(head, part)
            except _CHANGED:
                for item in part:
                    try:
                        self._commit(head, [item])
                    except _CHANGED as error:
                        failed[item[0]] = error
        return failed

    def guard(self) -> Check:
        """Read it before the facts on which a change is decided."""
        while True:
            node = self._zookeeper.find(paths.DELETE_TOPICS)
            if node is not None:
                return Check(paths.DELETE_TOPICS, node.version)
            self._zookeeper.ensure(paths.DELETE_TOPICS)

    # -- delete -------------------------------------------------------------------------------

    def delete(self, name: str, fence: Check) -> None:
        """Remove everything about a topic and the request to delete it. The last step is one
        transaction, so that the topic cannot be created again while the request still exists.
        KafkaError STALE_CONTROLLER_EPOCH when the fence does not hold: another broker is the
        controller."""
        self._prepare()
        for _ in range(_ATTEMPTS):
            try:
                return self._delete(name, fence)
            except _CHANGED as error:
                _check_controller(error)
        raise KafkaError(CODES["REQUEST_TIMED_OUT"], f"{name} changes while it is deleted")

    def _delete(self, name: str, fence: Check) -> None:
        guard = SetData(paths.DELETE_TOPICS, b"", self.guard().version)
        candidates = (
            paths.partitions(name),
            paths.topic(name),
            paths.topic_config(name),
            paths.delete_topic(name),
        )
        found = self._zookeeper.read_many(candidates)
        rest = [Delete(path) for path, node in zip(candidates, found, strict=True) if node]
        partitions, topic = found[:2]
        numbers = self._zookeeper.children(paths.partitions(name)) if partitions else []
        *parts, last = _parts([int(number) for number in numbers]) or [[]]
        for part in parts:
            self._zookeeper.commit([fence, *self._deletions(name, part)])
        notes = notes_of(decode_topic(name, topic.data, topic.version)) if topic else []
        self._zookeeper.commit(
            [fence, *self._deletions(name, last), *rest, *notes, guard, change_of([name])]
        )

    def _deletions(self, name: str, indices: Sequence[int]) -> list[Step]:
        states = [paths.partition_state(name, index) for index in indices]
        there = self._zookeeper.read_many(states)
        steps: list[Step] = []
        for path, node in zip(states, there, strict=True):
            steps += [Delete(path)] if node is not None else []
            steps.append(Delete(path.removesuffix("/state")))
        return steps

    # -- inside -------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Make sure that the parents exist."""
        if not self._ready:
            for parent in _PARENTS:
                self._zookeeper.ensure(parent)
            self._ready = True

    def _get(self, name: str) -> TopicAssignment:
        topic = self._topics.get(name)
        if topic is None or self._zookeeper.exists(paths.delete_topic(name)):
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], name)
        return topic

    def _retried(self, name: str, once: Callable[[Check], None]) -> None:
        self._prepare()
        for _ in range(_ATTEMPTS):
            try:
                return once(self.guard())
            except _CHANGED:
                continue
        raise KafkaError(CODES["REQUEST_TIMED_OUT"], f"{name} is changed by others all the time")

    def _commit(
        self, head: Sequence[Step], states: Sequence[tuple[tuple[str, int], PartitionState]]
    ) -> None:
        steps = [
            SetData(paths.partition_state(*key), encode_state(state), state.version)
            for key, state in states
        ]
        try:
            self._zookeeper.commit([*head, *steps, change_of_states(key for key, _ in states)])
        except _CHANGED as error:
            _check_controller(error)
            raise


def _check_controller(error: CoordinationError) -> None:
    if error.path.endswith(paths.CONTROLLER_EPOCH):
        raise KafkaError(CODES["STALE_CONTROLLER_EPOCH"], str(error)) from None


def _creations(name: str, states: Sequence[tuple[int, PartitionState]]) -> list[Step]:
    steps: list[Step] = []
    for index, state in states:
        steps.append(Create(f"{paths.partitions(name)}/{index}"))
        steps.append(Create(paths.partition_state(name, index), encode_state(state)))
    return steps


def _parts(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[at : at + STEP_PARTITIONS] for at in range(0, len(items), STEP_PARTITIONS)]
