"""Begins and cancels moves of replicas for an operator (KIP-455), from any broker.

:mod:`tallymark.replication.reassignment` decides each move; the controller completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tallymark.coordination.replicas.requested import Failed, RequestedChanges
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication import reassignment
from tallymark.replication.model import ChangeAssignment, Picture


class Reassigner:
    """Writes the moves that one broker is asked for. Not thread-safe."""

    def __init__(self, zookeeper: ZooKeeper, now_ms: Callable[[], int]) -> None:
        self._changes = RequestedChanges(zookeeper, now_ms)

    def move(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError]:
        """Move each partition to its target, the preferred leader first; None: cancel the move that
        is under way. Returns those that were not begun, with the errors of
        :func:`~tallymark.replication.reassignment.start` and ``cancel``, and REQUEST_TIMED_OUT as
        :meth:`.RequestedChanges.write`, which also says what is raised."""

        def decide(
            picture: Picture, keys: Sequence[TopicPartition], failed: Failed
        ) -> list[ChangeAssignment]:
            changes: list[ChangeAssignment] = []
            for key in keys:
                try:
                    change = _decided(picture, key, targets[key])
                except KafkaError as error:
                    failed[key] = error
                else:
                    changes += [] if change is None else [change]
            return changes

        return self._changes.write(targets, decide)


def _decided(
    picture: Picture, key: TopicPartition, target: Sequence[int] | None
) -> ChangeAssignment | None:
    if target is None:
        return reassignment.cancel(picture, key)
    return reassignment.start(picture, key, target)
