"""Which partitions a cluster has, or had: claims about others are left out."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.log_reader import LogReader, partitions_of

DENIED_MS: Final = 1000
"""An unknown partition is not looked up again for so long: a flood of claims about unknown
partitions must not make us list all topics at each fetch."""


class KnownPlaces:
    """Answers for one cluster. ``counted`` returns the partitions that were ever counted: a deleted
    topic keeps its claims. The cluster is asked again before a partition counts as unknown, since
    an event may name a topic that was created after the last look."""

    def __init__(
        self,
        reader: LogReader,
        counted: Callable[[], Set[TopicPartition]],
        clock: Callable[[], int],
    ) -> None:
        self._reader = reader
        self._counted = counted
        self._clock = clock
        self._known: set[TopicPartition] = set()
        self._denied: dict[TopicPartition, int] = {}

    def unknown(self, places: Set[TopicPartition]) -> Set[TopicPartition]:
        """Those of ``places`` that are not known here: they were deleted before they were counted,
        or there never were such. TallymarkError: the cluster cannot be asked."""
        lacking = places - self._known
        if not lacking:
            return lacking
        now = self._clock()
        self._denied = {p: at for p, at in self._denied.items() if now - at < DENIED_MS}
        lacking = lacking - self._denied.keys()
        if lacking:
            self._known |= self._counted()
            lacking = places - self._known
        if lacking:
            self._known |= {
                (name, partition)
                for name, topic in self._reader.topics().items()
                for partition in partitions_of(topic)
            }
            self._denied |= dict.fromkeys(lacking - self._known, now)
        return places - self._known
