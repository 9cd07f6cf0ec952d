"""Which partitions a cluster has, or had: what a producer claims of others is no claim."""

from __future__ import annotations

from collections.abc import Callable, Set

from tallymark_audit.collector.reading import LogReader, partitions_of
from tallymark_audit.store.counts import Place


class KnownPlaces:
    """Answers for one cluster. ``counted`` tells the partitions that were ever counted: a topic
    that was deleted keeps its claims. The cluster is asked anew before a partition is called
    unknown, since an event may speak of a topic that is younger than the last look."""

    def __init__(self, reader: LogReader, counted: Callable[[], Set[Place]]) -> None:
        self._reader = reader
        self._counted = counted
        self._known: set[Place] = set()

    def unknown(self, places: Set[Place]) -> Set[Place]:
        """Those of ``places`` that there never was. TallymarkError: the cluster cannot be asked."""
        lacking = places - self._known
        if lacking:
            self._known |= self._counted()
            lacking = places - self._known
        if lacking:
            self._known |= {
                (name, partition)
                for name, topic in self._reader.topics().items()
                for partition in partitions_of(topic)
            }
        return places - self._known
