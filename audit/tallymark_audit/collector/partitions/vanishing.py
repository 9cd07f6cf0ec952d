"""Which partitions a cluster has lost: topics that were deleted, or made again with fewer. Pure.

A topic that is missing from a list of all topics need not be deleted: Kafka leaves out topics that
the client may not describe, and topics with an error. So a topic that was not listed for a while is
requested by its name, and only a clear answer to that is a deletion. If an existing partition
counted as deleted, everything that its mirror has not copied yet would be a loss.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.log_reader import TopicLike, partitions_of

PATIENCE_MS: Final = 5_000
"""A partition is asked for by name when the cluster has not named it for so long: a broker that has
just come up may not know all topics yet."""
_NO_TOPIC: Final = CODES["UNKNOWN_TOPIC_OR_PARTITION"]


@dataclass(slots=True)
class Vanishing:
    """Follows what the cluster names; times in ms. ``counted``: the partitions that there were, and
    are not deleted; ``deleted``: those that are."""

    counted: set[TopicPartition] = field(default_factory=set[TopicPartition])
    deleted: set[TopicPartition] = field(default_factory=set[TopicPartition])
    _lacking: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    def look(
        self, there: Collection[TopicPartition], now: int
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """The partitions that may be deleted (see :func:`deleted_of`), and those that exist again,
        given the partitions ``there`` of the cluster's list. From an empty list nothing is
        concluded."""
        if not there:
            return [], []
        again = sorted(place for place in self.deleted if place in there)
        self._lacking = {
            place: self._lacking.get(place, now) for place in self.counted if place not in there
        }
        gone = sorted(p for p, since in self._lacking.items() if now - since >= PATIENCE_MS)
        return gone, again

    def noted(
        self,
        gone: Iterable[TopicPartition],
        again: Iterable[TopicPartition],
        new: Iterable[TopicPartition],
    ) -> None:
        """It is in the store."""
        self.deleted = (self.deleted | set(gone)) - set(again)
        self.counted = (self.counted | set(again) | set(new)) - set(gone)


def deleted_of(
    lacking: Iterable[TopicPartition], answers: Mapping[str, TopicLike | KafkaError]
) -> tuple[list[TopicPartition], dict[str, KafkaError]]:
    """Of the partitions missing from a list of all topics, those that are deleted according to the
    answers for their topics by name: there is no such topic, or it has no such partition. And the
    errors of topics without a clear answer: their partitions are waited for."""
    gone: list[TopicPartition] = []
    unsure: dict[str, KafkaError] = {}
    for topic, partition in lacking:
        answer = answers.get(topic)
        if isinstance(answer, KafkaError):
            if answer.code == _NO_TOPIC:
                gone.append((topic, partition))
            else:
                unsure[topic] = answer
        elif answer is not None and partition not in partitions_of(answer):
            gone.append((topic, partition))
    return gone, unsure
