"""Changes of partitions that an operator asks a broker for: any broker writes them.

They are decided from the nodes as they are and written by compare-and-set, so no controller is
needed. Where another writer was faster, the nodes are read and the change is decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from tallymark.coordination.cluster.controller import ControllerElection
from tallymark.coordination.replicas.picture import PictureReader
from tallymark.coordination.replicas.writing import Fate, ReplicaWriter
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics.writer import TopicWriter
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.isr_notices import IsrNotices
from tallymark.replication.model import DEFAULTS, Change, Picture, TopicSettings

Failed: TypeAlias = dict[TopicPartition, KafkaError]
Decide: TypeAlias = Callable[[Picture, Sequence[TopicPartition], Failed], Sequence[Change]]
"""From a picture that has the topics of these partitions: the changes; a partition for which there
is none because of an error comes into the last argument."""
_ATTEMPTS: Final = 10


class RequestedChanges:
    """Those of one broker. Not thread-safe."""

    def __init__(
        self, zookeeper: ZooKeeper, now_ms: Callable[[], int], defaults: TopicSettings = DEFAULTS
    ) -> None:
        self._now_ms = now_ms
        self._reader = PictureReader(zookeeper, defaults)
        self._guards = TopicWriter(zookeeper)
        self._writer = ReplicaWriter(zookeeper, IsrNotices(every_ms=0))  # it has no later
        self._election = ControllerElection(zookeeper, -1, now_ms)

    def write(self, partitions: Iterable[TopicPartition], decide: Decide) -> Failed:
        """Decide and write; returns what was not done. REQUEST_TIMED_OUT where the outcome is not
        known: the change may still be written; look, and ask again. Raises the session's errors:
        then nothing more was written."""
        failed: Failed = {}
        left = list(partitions)
        for _ in range(_ATTEMPTS):
            guard = self._guards.guard()
            for key in left:
                failed.pop(key, None)
            changes = decide(self._picture({key[0] for key in left}), left, failed)
            left = []
            for outcome in self._writer.write(changes, [guard], self._now_ms()).outcomes:
                key = outcome.change.partition
                if outcome.fate is not Fate.DONE:
                    failed[key] = _not_written(key, outcome.fate, outcome.why)
                if outcome.fate is Fate.REFUSED:
                    left.append(key)
            if not left:
                break
        return failed

    def _picture(self, topics: set[str]) -> Picture:
        brokers, suspects = self._reader.brokers(lambda _: True)
        controller = self._election.current()
        epoch = controller.epoch if controller is not None else 0
        return Picture(brokers, self._reader.views(sorted(topics)), epoch, suspects)


def refusal_of(name: str, key: TopicPartition, why: str) -> KafkaError:
    """The error of this name for a partition."""
    return KafkaError(CODES[name], f"{key[0]}-{key[1]}: {why}")


def _not_written(key: TopicPartition, fate: Fate, why: str) -> KafkaError:
    unknown = "it may still be done, look at the partition: " if fate is Fate.UNKNOWN else ""
    return refusal_of("REQUEST_TIMED_OUT", key, f"{unknown}{why}")
