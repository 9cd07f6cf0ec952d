"""What a collector has read and not committed: it is counted again after a failure, so it is still
behind."""

from __future__ import annotations

from collections.abc import Iterable

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.collector.ledger import CountedFetch


class Uncommitted:
    """Fetches that wait for a commit, in the order in which they were read; ``in_doubt``: only the
    store knows whether the last commit succeeded."""

    def __init__(self) -> None:
        self.fetches: list[CountedFetch] = []
        self.in_doubt = False
        self._doubtful: dict[TopicPartition, int] = {}

    @property
    def runs(self) -> int:
        """How much it is."""
        return sum(len(one.runs) for one in self.fetches)

    def add(self, found: Iterable[CountedFetch]) -> None:
        """These were read."""
        self.fetches += found

    def committed(self) -> None:
        """All of it is in the store, or left out for good."""
        self.fetches = []

    def doubt(self) -> None:
        """The positions in memory may be wrong: none of it is committed, unless the store says
        otherwise."""
        self._doubtful = self.first()
        self.fetches = []
        self.in_doubt = True

    def doubt_place(self, place: TopicPartition) -> None:
        """The same of one partition, which could not be committed."""
        self._doubtful[place] = self.first()[place]
        self.in_doubt = True

    def reloaded(self) -> None:
        """The positions are those of the store again."""
        self.in_doubt = False
        self._doubtful = {}

    def first(self) -> dict[TopicPartition, int]:
        """From which offset on partitions were read that are not known to be in the store."""
        found = dict(self._doubtful)
        for one in self.fetches:
            found[one.place] = min(one.start, found.get(one.place, one.start))
        return found
