"""What a mirror reports to its observers and its log while it runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from tallymark.clock import now_ms
from tallymark.mirror.copying.copier import Copier
from tallymark.mirror.corruption import StoppedPartition
from tallymark.mirror.monitoring.progress_log import ProgressLog
from tallymark.mirror.observer import DAMAGED, ObserverChain
from tallymark.mirror.progress import UNKNOWN, Partition
from tallymark.mirror.refused import LONGEST_SECONDS
from tallymark.mirror.source.source import Source, SourceBatch

_log = logging.getLogger("mirror")


class Reports:
    """The reports of one mirror. For its thread, or while its lock is held."""

    def __init__(
        self, observers: ObserverChain, progress_log: ProgressLog, source: Source, copier: Copier
    ) -> None:
        self._observers = observers
        self._progress_log = progress_log
        self._source = source
        self._copier = copier
        self._progress = copier.progress
        self._released: dict[Partition, tuple[int, str]] = {}
        """The offset and the topic's id of partitions that were given up since the last report."""
        self._stopped: dict[Partition, StoppedPartition] = {}
        self._refused: dict[Partition, StoppedPartition] = {}
        """Those that were reported."""

    def released(self, passed: Mapping[Partition, int]) -> None:
        """Partitions are given up: report how far they are with the next :meth:`passed`. The source
        forgets the ids of their topics now."""
        for at, offset in passed.items():
            if self._source.knows(at):
                self._released[at] = offset, self._source.topic_id(at)

    def tick(self, waiting: Iterable[SourceBatch]) -> None:
        """Report the time and the oldest record that was read and is not acknowledged."""
        oldest_waiting: dict[Partition, int] = {}
        for piece in waiting:
            at = (piece.topic, piece.partition)
            oldest_waiting.setdefault(at, piece.batch.header.base_timestamp)
        times = list(oldest_waiting.values())
        if self._progress.oldest is not None:
            times.append(self._progress.oldest)
        self._observers.on_tick(now_ms(), min(times, default=None))
        self._progress_log.update(self._copier, self._source, oldest_waiting, now_ms())

    def close(self) -> None:
        """Report what is left, and that nothing more will be copied."""
        self.copied()
        self.passed()
        self._progress_log.update(self._copier, self._source, {}, now_ms())
        self._observers.on_close(now_ms())

    def begun(self) -> None:
        """A partition without a stored offset begins where its log begins. What was before that was
        deleted before it was copied. Nothing else reports this gap."""
        for partition, start in list(self._source.begun.items()):
            copy = self._progress.get(partition)
            if copy is not None:
                self._source.begun.pop(partition, None)
                if copy.next == UNKNOWN and start > 0:
                    copy.next = start
                    self._observers.on_gap(*partition, 0, start, "retention")

    def stopped(self) -> None:
        """Report each partition that cannot be read on, once, and each that can be read again."""
        stopped = dict(self._source.stopped)
        for partition, one in sorted(stopped.items()):
            if self._stopped.get(partition) != one:
                _log.error(
                    "%s. The other partitions go on, and so does this one when the log is mended: "
                    "tallymark verify-log shows what is there",
                    one,
                )
                self._observers.on_gap(*partition, one.offset, one.offset + 1, DAMAGED)
        for topic, number in sorted(self._stopped.keys() - stopped.keys()):
            if (topic, number) in self._source.owned:
                _log.info("%s-%d can be read again", topic, number)
        self._stopped = stopped

    def refused(self) -> None:
        """Log each partition of which the target refuses a message, once, and each that goes on."""
        owned = self._source.owned
        refused = {at: one for at, one in self._source.refused.stopped().items() if at in owned}
        for partition, one in sorted(refused.items()):
            if self._refused.get(partition) != one:
                _log.error(
                    "%s. The other partitions go on; this one is tried again at least every %g s",
                    one,
                    LONGEST_SECONDS,
                )
        for topic, number in sorted(self._refused.keys() - refused.keys()):
            if (topic, number) in owned:
                _log.info("the target takes %s-%d again", topic, number)
        self._refused = refused

    def copied(self) -> None:
        """Report the offsets that were acknowledged since the last call."""
        for (topic, number), ranges in sorted(self._progress.take_copied().items()):
            for first, last in ranges:
                self._observers.on_copied(topic, number, first, last)

    def passed(self) -> None:
        """Report for each partition the offset below which nothing is left to copy. Of a partition
        whose topic is not known (yet) nothing is reported: it may have been made again, and the
        offset be one of the topic that is gone."""
        passed, self._released = self._released, {}
        for at, offset in self._progress.passed(self._source.owned).items():
            if self._source.knows(at):
                passed[at] = offset, self._source.topic_id(at)
        for partition, (offset, topic_id) in sorted(passed.items()):
            self._observers.on_passed(*partition, offset, topic_id)
