"""Begins and cancels moves of replicas for an operator (KIP-455), from any broker.

:mod:`tallymark.replication.reassignment` decides each move from the nodes. The move is written
by compare-and-set, so no controller is needed; the controller completes it. Where another writer
was faster, the nodes are read and the move is decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tallymark.coordination.cluster.controller import ControllerElection
from tallymark.coordination.replicas.picture import PictureReader
from tallymark.coordination.replicas.writing import Fate, ReplicaWriter
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics.writer import TopicWriter
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication import reassignment
from tallymark.replication.model import DEFAULTS, ChangeAssignment, Picture, TopicSettings
from tallymark.replication.telling import Telling

_ATTEMPTS: Final = 10


class Reassigner:
    """Writes the moves that one broker is asked for. Not thread-safe."""

    def __init__(
        self, zookeeper: ZooKeeper, now_ms: Callable[[], int], defaults: TopicSettings = DEFAULTS
    ) -> None:
        self._now_ms = now_ms
        self._reader = PictureReader(zookeeper, defaults)
        self._guards = TopicWriter(zookeeper)
        self._writer = ReplicaWriter(zookeeper, Telling(every_ms=0))  # it has no later
        self._election = ControllerElection(zookeeper, -1, now_ms)

    def move(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError]:
        """Move each partition to its target, the preferred leader first; None: cancel the move that
        is under way. Returns those that were not begun, with the errors of
        :func:`~tallymark.replication.reassignment.start` and ``cancel``; REQUEST_TIMED_OUT where
        the outcome is not known: list the moves, and ask again.

        Raises the session's errors: then nothing more was begun.
        """
        left, failed = dict(targets), dict[TopicPartition, KafkaError]()
        for _ in range(_ATTEMPTS):
            guard = self._guards.guard()
            changes = self._decided(left, failed)
            if not changes:
                return failed
            written = self._writer.write(changes, [guard], self._now_ms())
            left = {}
            for outcome in written.outcomes:
                key = outcome.change.partition
                if outcome.fate is not Fate.DONE:
                    failed[key] = _not_written(key, outcome.fate, outcome.why)
                if outcome.fate is Fate.REFUSED:
                    left[key] = targets[key]
            if not left:
                return failed
        return failed

    def _decided(
        self,
        left: Mapping[TopicPartition, Sequence[int] | None],
        failed: dict[TopicPartition, KafkaError],
    ) -> list[ChangeAssignment]:
        picture = self._picture({key[0] for key in left})
        changes: list[ChangeAssignment] = []
        for key, target in left.items():
            failed.pop(key, None)
            try:
                if target is None:
                    change = reassignment.cancel(picture, key)
                else:
                    change = reassignment.start(picture, key, target)
            except KafkaError as error:
                failed[key] = error
            else:
                changes += [] if change is None else [change]
        return changes

    def _picture(self, topics: set[str]) -> Picture:
        brokers, suspects = self._reader.brokers(lambda _: True)
        controller = self._election.current()
        epoch = controller.epoch if controller is not None else 0
        return Picture(brokers, self._reader.views(sorted(topics)), epoch, suspects)


def _not_written(key: TopicPartition, fate: Fate, why: str) -> KafkaError:
    unknown = "it may still begin, list the moves: " if fate is Fate.UNKNOWN else ""
    return KafkaError(CODES["REQUEST_TIMED_OUT"], f"{key[0]}-{key[1]}: {unknown}{why}")
