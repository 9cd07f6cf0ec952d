"""The offsets of a group: ``/consumers/[group]/offsets/[topic]/[p]``.

::

    .../[p]         "1234"        the next offset to consume, decimal; as ZooKeeper consumers have
                                  always written it, so tools may read it and set it
    .../[p]/epoch   "7 1234"      leader epoch of the record before that offset, and the offset it
                                  was written with

With the epoch a consumer detects later whether the log was truncated below the offset (KIP-320). It
counts only while its offset equals the node's: a tool that sets the offset need not know of the
epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tallymark.coordination import paths
from tallymark.coordination.session.errors import NodeExistsError, NoNodeError
from tallymark.coordination.session.nodes import Create, Node, SetData, Step
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger("tallymark.coordination")
UNKNOWN_EPOCH: Final = -1
_AT_ONCE: Final = 250
"""Partitions in one transaction, far below ZooKeeper's limit of 1 MiB a request."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to consume; ``epoch`` is the leader epoch of the record before it, -1 when
    it is not known."""

    offset: int
    epoch: int = UNKNOWN_EPOCH


class OffsetRegistry:
    """The offsets of one group."""

    def __init__(self, zookeeper: ZooKeeper, group: str) -> None:
        self._zookeeper = zookeeper
        self._group = group
        self._known: set[TopicPartition] = set()

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """The stored positions; partitions without one are left out. A node that holds no number is
        left out too, and logged: then the reset policy decides where consumption starts."""
        wanted = sorted(partitions)
        offsets = self._zookeeper.read_many([paths.offset(self._group, *p) for p in wanted])
        epochs = self._zookeeper.read_many([paths.offset_epoch(self._group, *p) for p in wanted])
        found: dict[TopicPartition, Position] = {}
        for partition, offset, epoch in zip(wanted, offsets, epochs, strict=True):
            position = decode(offset, epoch)
            if position is not None:
                found[partition] = position
            elif offset is not None:
                where = paths.offset(self._group, *partition)
                LOG.warning("%s holds no offset but %r", where, offset.data[:40])
        return found

    def commit(self, positions: Mapping[TopicPartition, Position], session: int = 0) -> None:
        """Store positions: the offset and its epoch change together, in one transaction. With
        ``session`` it is done in that session or not at all (SessionLostError)."""
        for some in chunks(sorted(positions), _AT_ONCE):
            try:
                self._commit({partition: positions[partition] for partition in some}, session)
            except (NoNodeError, NodeExistsError):
                # Nodes were removed or created meanwhile: read again.
                self._known.difference_update(some)
                self._commit({partition: positions[partition] for partition in some}, session)

    def _commit(self, positions: Mapping[TopicPartition, Position], session: int) -> None:
        self._look_at([partition for partition in positions if partition not in self._known])
        steps: list[Step] = []
        for partition, position in positions.items():
            step = SetData if partition in self._known else Create
            steps.append(step(paths.offset(self._group, *partition), b"%d" % position.offset))
            pair = b"%d %d" % (position.epoch, position.offset)
            steps.append(step(paths.offset_epoch(self._group, *partition), pair))
        self._zookeeper.commit(steps, session)
        self._known.update(positions)

    def _look_at(self, partitions: Sequence[TopicPartition]) -> None:
        """Find out which nodes exist; create the folders, and the epoch nodes where another program
        created only the offset."""
        offsets = self._zookeeper.read_many([paths.offset(self._group, *p) for p in partitions])
        epochs = self._zookeeper.read_many(
            [paths.offset_epoch(self._group, *p) for p in partitions]
        )
        for partition, offset, epoch in zip(partitions, offsets, epochs, strict=True):
            if offset is not None and epoch is None:
                self._zookeeper.ensure(paths.offset_epoch(self._group, *partition))
            if offset is not None:
                self._known.add(partition)
        for topic in sorted({topic for topic, _ in partitions}):
            self._zookeeper.ensure(paths.offset(self._group, topic, 0).rpartition("/")[0])


def decode(offset: Node | None, epoch: Node | None) -> Position | None:
    """The position in a pair of nodes, None when there is none."""
    if offset is None or not offset.data.isdigit():
        return None
    number = int(offset.data)
    parts = epoch.data.split() if epoch is not None else []
    if len(parts) == 2 and parts[1] == offset.data and parts[0].lstrip(b"-").isdigit():
        return Position(number, max(int(parts[0]), UNKNOWN_EPOCH))
    return Position(number)


def chunks(items: Sequence[T], size: int = _AT_ONCE) -> Iterator[Sequence[T]]:
    """The items in order, ``size`` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
