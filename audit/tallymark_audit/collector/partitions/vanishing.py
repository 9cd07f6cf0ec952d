"""Which partitions a cluster has lost: topics that were deleted, or came back smaller. Pure.

That a list of all topics lacks one says little: Kafka leaves out what the asker may not describe,
and topics that have an error. So one that was not named for a while is asked for by its name, and
only a clear answer to that is a deletion. To call a partition deleted that is there would call all
a loss that its mirror has not brought yet.
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
        """What may have been deleted (ask :func:`deleted_of`), and what is there again, now that
        the cluster names ``there``. Of a cluster that names nothing, nothing is concluded."""
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
    """Of the partitions that a list of all topics lacks, those that are deleted by what the cluster
    answers for their topics by name: there is no such topic, or it has no such partition. And the
    errors of topics of which nothing is known: their partitions are waited for."""
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
