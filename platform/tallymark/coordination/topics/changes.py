"""How brokers learn which topics have changed: ``/brokers/changes/change_[number]``.

Every transaction that changes a topic (its partitions, their leaders, its settings, its life) adds
one numbered node. A broker watches the one parent, and reads only the topics that new nodes name.
One watch is enough for ten thousand partitions, a change costs no more than what has changed, and a
missed watch (the connection was lost) loses nothing::

    {"version":1,"topics":["clicks"]}                                 all of the topic may be new
    {"version":1,"topics":["clicks"],"partitions":{"clicks":[0,3]}}   only states of these are

Readers that do not know ``partitions`` read the whole topic.

The controller removes old nodes; a broker that was away for longer reads everything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.session import documents
from tallymark.coordination.session.errors import MalformedNodeError, NoNodeError
from tallymark.coordination.session.nodes import Create, Delete
from tallymark.coordination.session.watches import Watch, watch_children
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.protocol.topic_partition import TopicPartition

KEPT: Final = 100
"""So many of the newest changes are kept; old ones are removed when there are twice as many."""
_PREFIX: Final = "change_"
_DIGITS: Final = 10


def change_of(topics: Iterable[str]) -> Create:
    """The step that notifies all brokers, for the transaction that changes these topics."""
    document = documents.dump({"version": 1, "topics": sorted(set(topics))})
    return Create(f"{paths.CHANGES}/{_PREFIX}", document, numbered=True)


def change_of_states(partitions: Iterable[TopicPartition], topics: Iterable[str] = ()) -> Create:
    """The step for a transaction that changes the state nodes of these partitions, and more than
    that of these topics."""
    whole = set(topics)
    named: dict[str, list[int]] = {}
    for topic, partition in sorted(set(partitions)):
        if topic not in whole:
            named.setdefault(topic, []).append(partition)
    document = documents.dump(
        {"version": 1, "topics": sorted({*named, *whole}), "partitions": named}
    )
    return Create(f"{paths.CHANGES}/{_PREFIX}", document, numbered=True)


@dataclass(frozen=True, slots=True)
class Changed:
    """What has changed: all of some topics, and the states of some partitions of others."""

    topics: frozenset[str]
    partitions: frozenset[TopicPartition]


class ChangeReader:
    """One broker's place in the sequence of changes."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper
        self._seen: int | None = None
        self._read_to = -1

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call back at changes until the watch is cancelled."""
        self._zookeeper.ensure(paths.CHANGES)
        return watch_children(self._zookeeper, paths.CHANGES, callback)

    def unseen(self) -> set[str] | None:
        """The topics of :meth:`unseen_changes`, whatever has changed of them."""
        changed = self.unseen_changes()
        if changed is None:
            return None
        return {*changed.topics, *(topic for topic, _ in changed.partitions)}

    def unseen_changes(self) -> Changed | None:
        """What has changed since the last :meth:`done`; None: read everything (at first, or some
        changes were removed before they were seen, or are not understood). What is read after this
        call is not older than what this call has seen."""
        numbers = sorted(self._numbers())
        seen = self._seen
        self._read_to = numbers[-1] if numbers else -1 if seen is None else seen
        if seen is None or _missed(seen, numbers):
            return None
        new = [number for number in numbers if number > seen]
        nodes = self._zookeeper.read_many([_path(number) for number in new])
        topics: set[str] = set()
        partitions: set[TopicPartition] = set()
        for number, node in zip(new, nodes, strict=True):
            if node is None:  # removed between the two readings
                return None
            try:
                whole, states = _decode(_path(number), node.data)
            except MalformedNodeError:  # not ours: its meaning is not known
                return None
            topics |= whole
            partitions |= states
        left = frozenset(each for each in partitions if each[0] not in topics)
        return Changed(frozenset(topics), left)

    def done(self) -> None:
        """The topics that :meth:`unseen` returned were read; without this call it returns them
        again."""
        self._seen = self._read_to

    def remove_old(self) -> None:
        """The controller's work: keep the newest changes."""
        numbers = sorted(self._numbers())
        if len(numbers) >= 2 * KEPT:
            with contextlib.suppress(NoNodeError):  # another controller does the same
                self._zookeeper.commit([Delete(_path(number)) for number in numbers[:-KEPT]])

    def _numbers(self) -> list[int]:
        names = self._zookeeper.children(paths.CHANGES)
        parent = self._zookeeper.find(paths.CHANGES)
        # A number that ZooKeeper has not given out yet is not ours: with it every change up to that
        # number would count as seen.
        end = parent.children_version if parent else 0
        digits = (name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
        numbers = [int(text) for text in digits if text.isdecimal() and len(text) == _DIGITS]
        return [number for number in numbers if number < end]


def _decode(path: str, data: bytes) -> tuple[set[str], set[TopicPartition]]:
    """The topics of which all may be new, and the partitions of the others."""
    document = documents.load(path, data)
    names = documents.field(path, document, "topics", list)
    parts = documents.field(path, {"partitions": {}} | document, "partitions", dict)
    states = {
        (topic, partition)
        for topic, numbers in parts.items()
        for partition in documents.integers(path, f"partitions of {topic}", numbers)
    }
    return {name for name in names if isinstance(name, str) and name not in parts}, states


def _missed(seen: int, numbers: list[int]) -> bool:
    """Whether changes after ``seen`` may have been removed already. The newest ones never are; so
    if there is none as new as ``seen``, ZooKeeper's data was restored to an earlier state."""
    if seen in numbers:
        return False
    return len(numbers) >= KEPT or max(numbers, default=-1) < seen


def _path(number: int) -> str:
    return f"{paths.CHANGES}/{_PREFIX}{number:010d}"
