"""Write the journal of a running consumer. Layout: :mod:`.consumer_layout`, and
:mod:`.marks_file` for what is in flight at any moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.reporters.books.tally import ReporterIdentity
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.journal import consumer_layout, layout
from tallymark_audit.reporters.journal.consumer_layout import ConsumerKind
from tallymark_audit.reporters.journal.disk import Disk
from tallymark_audit.reporters.journal.marks_file import MARKS_SUFFIX, MarksFile
from tallymark_audit.reporters.journal.writer import TallyJournal
from tallymark_audit.reporters.processing.messages import ConsumedMessage
from tallymark_audit.reporters.processing.processing import InFlightMark, Processing

STEP: Final = 1024 * 1024
"""An application that acknowledges one by one writes some 100 bytes for each message."""


class ConsumerJournal(TallyJournal):
    """A :class:`Processing`, kept in memory and, once the cluster is known and as long as the disk
    takes it, in the file. Each method writes its entry first, then calls the method of the same
    name of the processing, see there. Not thread-safe."""

    def __init__(
        self,
        directory: Path | None,
        identity: ReporterIdentity,
        group: str,
        max_ranges: int,
        skew_ms: int,
        disk: Disk | None = None,
    ) -> None:
        """``directory`` None: keep it in memory only."""
        super().__init__(directory, identity.instance, disk, STEP)
        self.processing = Processing(identity, group, max_ranges, skew_ms)
        self.tally = self.processing.books.tally
        self._more = {"group": group, "max_ranges": max_ranges, "skew_ms": skew_ms}
        self._cluster = ""
        self._marks: MarksFile | None = None
        self._views: dict[TopicPartition, memoryview] = {}
        self._slots: dict[TopicPartition, int] = {}

    def know(self, cluster: str) -> None:
        """The id of the cluster is known now: the journal can begin."""
        if not self._cluster and cluster:
            self._cluster = cluster
            if self._wanted:
                self._begin()

    def view(self, place: TopicPartition) -> memoryview | None:
        """The memory in which the connector notes what of the partition is in flight; None: there
        is none."""
        known = self._views.get(place)
        if known is None and self._wanted:
            marks = self._marks_file()
            found = marks.take() if marks is not None else None
            if found is None:
                return None
            slot, known = found
            self._append(consumer_layout.view_entry(place, slot))
            self._slots[place], self._views[place] = slot, known
        return known

    def handed_out(self, place: TopicPartition, runs: Iterable[SeenRun]) -> None:
        view = self._views.get(place)
        for run in runs:
            if view is not None and run.offset < view[0]:  # the application seeks back
                view[1], view[0] = InFlightMark().last, run.offset
            self._append(consumer_layout.handed_out_entry(place, run))
            self.processing.handed_out(place, [run])

    def done_before(self, positions: Mapping[TopicPartition, int], now_ms: int) -> None:
        for place, offset in positions.items():
            self._append(consumer_layout.done_entry(place, offset, now_ms))
            self.processing.done_before({place: offset}, now_ms)

    def fetched(self, message: ConsumedMessage) -> None:
        self._append(consumer_layout.message_entry(message, consumer_layout.FETCHED, 0))
        self.processing.fetched(message)

    def processed(self, message: ConsumedMessage, outcome: Outcome, now_ms: int) -> None:
        self._append(consumer_layout.message_entry(message, outcome, now_ms))
        self.processing.processed(message, outcome, now_ms)

    def settle(self, now_ms: int) -> None:
        self._append(consumer_layout.settled_entry(now_ms))
        self.processing.settle(now_ms)

    def released(self, place: TopicPartition, now_ms: int) -> None:
        """What is in flight at this moment is read from the partition's view."""
        view = self._views.get(place)
        mark = InFlightMark(view[0], view[1]) if view is not None else InFlightMark()
        self._append(consumer_layout.released_entry(place, mark, now_ms))
        self.processing.released(place, mark, now_ms)
        if view is not None:
            view[1], view[0] = InFlightMark().last, InFlightMark().done

    def truncated(self, place: TopicPartition, offset: int, now_ms: int) -> None:
        self._append(consumer_layout.done_entry(place, offset, now_ms, ConsumerKind.CUT))
        self.processing.truncated(place, offset, now_ms)

    def close(self, remove: bool) -> None:
        super().close(remove)
        if self._marks is not None:
            self._marks.close(remove)

    def _marks_file(self) -> MarksFile | None:
        if self._marks is None:
            try:
                self._disk.make_folder(self.path.parent)
                self._marks = MarksFile(self.path.with_suffix(MARKS_SUFFIX), self._disk)
            except OSError as error:
                self._give_up(error)
        return self._marks

    def _snapshot(self) -> bytes:
        books = self.processing.books
        head = layout.header(self._cluster, books.tally.identity, **self._more)
        held = consumer_layout.held_entry(self.processing, self._slots)
        return head + b"".join(layout.snapshot(books.tally)) + held

    def _begin(self) -> None:
        if self._cluster:  # a journal is published to its own cluster
            super()._begin()
