"""Reports source offsets that the target does not get, each gap with its reason."""

from __future__ import annotations

import logging
from typing import Final

from tallymark.mirror.copying.topics import TargetTopics
from tallymark.mirror.observer import ObserverChain
from tallymark.mirror.progress import UNKNOWN as NONE
from tallymark.mirror.progress import Partition
from tallymark.mirror.source.gaps import COMPACTION, CORRUPT, UNKNOWN, GapNotes
from tallymark.net.limits.log_rate import LogRate

_log: Final = logging.getLogger("mirror")


class GapReports:
    """Reports gaps to the observers; ``notes`` are the reasons that the fetcher has seen."""

    def __init__(self, notes: GapNotes, topics: TargetTopics, observers: ObserverChain) -> None:
        self._notes = notes
        self._topics = topics
        self._observers = observers
        self._lines = LogRate()

    def report(self, partition: Partition, start: int, end: int) -> None:
        """Report offsets [``start``, ``end``) with nothing to copy, and why if it is known. Errors:
        as of :meth:`TargetTopics.is_compacted`; nothing was reported then."""
        if start in (NONE, end):
            return
        otherwise = COMPACTION if self._topics.is_compacted(partition[0]) else UNKNOWN
        for gap in self._notes.explain(partition, start, end):
            reason = otherwise if gap.reason == UNKNOWN else gap.reason
            self._observers.on_gap(*partition, gap.start, gap.end, reason)

    def undecodable(self, partition: Partition, start: int, first: int, end: int, why: str) -> None:
        """Report [``start``, ``end``), of which nothing from ``first`` on can be decoded: no
        consumer could read it. Errors: as of :meth:`report`."""
        self._topics.is_compacted(partition[0])  # before anything is reported, since it may fail
        self._notes.corrupt(partition, first, end)
        self.report(partition, start, end)
        self._log_left_out(partition, first, end, why)

    def unfit(self, partition: Partition, first: int, end: int, why: str) -> None:
        """Report [``first``, ``end``), which was sent and which the target cannot take."""
        self._observers.on_gap(*partition, first, end, CORRUPT)
        self._log_left_out(partition, first, end, why)

    def deleted(self, partition: Partition, first: int, end: int) -> None:
        """Report [``first``, ``end``) of a topic that the source does not have any more."""
        self._observers.on_gap(*partition, first, end, "deleted")

    def _log_left_out(self, partition: Partition, first: int, end: int, why: str) -> None:
        """Log it, at a limited rate: a sender of such batches must not fill the log."""
        before = self._lines.passes(partition)
        if before is not None:
            more = f" ({before} more batches of it since the last such line)" if before else ""
            text = "%s-%d: offsets %d to %d cannot be copied and are left out: %s%s"
            _log.error(text, *partition, first, end - 1, why, more)
