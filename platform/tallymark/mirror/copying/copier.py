"""Copies batches from the source to the target, and counts those that have arrived.

A batch is copied *whole*, without decompressing it, where that is the same as copying its records:
it is dense (:func:`~tallymark.protocol.records.rebatch.is_dense`) and the target keeps its
partition. Otherwise the mirror writes its records to new batches (:mod:`.gathered`). That is the
case where the key decides the partition, where compaction has left gaps, where only a part of the
batch is to be copied, and where batches are so small that sending each of them costs more.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from typing import Final, TypeAlias

from tallymark.client.core.partition_layout import Layout
from tallymark.errors import CODES, CorruptRecordError, KafkaError, UserError
from tallymark.mirror.copying.duplicate_bound import DuplicateBound
from tallymark.mirror.copying.gap_reports import GapReports
from tallymark.mirror.copying.gathered import DecodedRecords, Gathered, LoopsOnDemand
from tallymark.mirror.copying.merging import gather, is_absurd, mergeable
from tallymark.mirror.copying.pending_range import PendingRange
from tallymark.mirror.copying.recoding import gaps_of, ranges_of
from tallymark.mirror.copying.topics import TargetTopics
from tallymark.mirror.corruption import UnfitBatchError
from tallymark.mirror.observer import ObserverChain
from tallymark.mirror.progress import UNKNOWN as NONE
from tallymark.mirror.progress import CopyDecision, CopyProgress, Partition, PartitionCopy
from tallymark.mirror.source.source import Source, SourceBatch
from tallymark.mirror.target.loop_guard import LoopGuard
from tallymark.mirror.target.ready_batch import Origin, ReadyBatch, Settled
from tallymark.mirror.target.target import Target
from tallymark.protocol.records.rebatch import is_dense

_POLL_SECONDS: Final = 0.05
_OF_THE_CLUSTER: Final = frozenset(
    CODES[name] for name in ("CLUSTER_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION")
)
"""Errors that are not about one topic: the target refuses the mirror as a whole."""
_Settlements: TypeAlias = queue.SimpleQueue[tuple[PendingRange, Exception | None]]


class Copier:
    """Copies batches of partitions that ``source`` knows, from the cluster ``source_id`` to
    ``target_id``. ``copied`` counts the records that have arrived, ``whole`` those in batches that
    were copied whole, ``returned`` those left out because they had come from the target.
    """

    def __init__(
        self,
        source: Source,
        target: Target,
        topics: TargetTopics,
        observers: ObserverChain,
        loop_guard: LoopGuard,
        source_id: str,
        target_id: str,
        duplicates: DuplicateBound,
    ) -> None:
        self.progress = CopyProgress()
        self.duplicates = duplicates
        self.copied = self.copied_bytes = self.whole = self.returned = 0
        self.failure: UserError | None = None
        """The target refuses all that the mirror sends: it cannot go on."""
        self.restarted: dict[Partition, int] = {}
        """Partitions that the target refuses a message of, and the offset at which they begin
        again; the mirror takes them from here."""
        self.arrived: deque[PendingRange] = deque()
        """What the target has acknowledged; the mirror takes it from here."""
        self._source = source
        self._target = target
        self._topics = topics
        self._gaps = GapReports(source.gap_notes, topics, observers)
        self._loop_guard = loop_guard
        self._source_id = source_id
        self._target_id = target_id
        self._settled: _Settlements = queue.SimpleQueue()
        self._loops = LoopsOnDemand()

    def copy(self, waiting: deque[SourceBatch]) -> bool:
        """Send the first batch, and small ones behind it, unless this run has sent it already.
        False: offsets have to be stored before it may be sent (:mod:`.duplicate_bound`). A
        temporary error (ConnectError, TimedOutError, retriable KafkaError ...) leaves it where it
        is: try again. A batch that must be decoded and cannot is left out and reported as a gap."""
        piece = waiting[0]
        partition = (piece.topic, piece.partition)
        header = piece.batch.header
        first = self._first_unsent(partition, piece)
        if first is None:
            waiting.popleft()
            return True
        came_from = self._loop_guard.of(header.producer_id)
        if header.is_control or self._target_id in came_from:
            if not header.is_control:
                self.returned += header.record_count
            self._pass_by(partition, piece, first)
            waiting.popleft()
            return True
        if is_absurd(piece.batch):
            self._leave_out(partition, piece, first, f"it claims {header.record_count} records")
            waiting.popleft()
            return True
        if not self.duplicates.may_send(header.record_count):
            return False
        layout = self._layout(waiting)
        if layout is None:
            waiting.popleft()
            return True
        self._target.wait_for_room()
        alone = self._source.refused.is_tried(partition, first)
        pieces = (
            [piece]
            if alone
            else mergeable(
                waiting, layout.keeps, self.duplicates.room, came_from, self._loop_guard.of
            )
        )
        origin = came_from | {self._source_id}
        whole = layout.keeps and first == header.base_offset and is_dense(piece.batch) and not alone
        if not whole or self._copy_of(partition).next != first:
            self._topics.is_compacted(piece.topic)  # before anything is sent, since it may fail
        try:
            found = gather([one.batch for one in pieces], whole, first, decoded=alone)
        except CorruptRecordError as error:
            self._leave_out(partition, piece, first, str(error))
            waiting.popleft()
            return True
        taken = 1
        if found is None:
            self._send_whole(partition, piece, layout, origin)
        else:
            records, taken = found
            last = pieces[taken - 1]
            if alone and isinstance(records, DecodedRecords):
                records = self._send_one_by_one(partition, records, last, layout, origin)
            end = last.batch.header.next_offset
            self._send_recoded(partition, records, last, end, layout, origin)
        for _ in range(taken):
            waiting.popleft()
        return True

    def pass_over(self, partition: Partition, end: int) -> None:
        """There is nothing to copy before ``end``, and no batch behind it was read yet."""
        copy = self.progress.get(partition)
        if copy is not None and copy.next != NONE and copy.next < end:
            self._gaps.report(partition, copy.next, end)
            copy.passed(end, copy.epoch)

    def settle(self, seconds: float = 0.0) -> None:
        """Process the acknowledgements that have come; wait up to ``seconds`` for the first."""
        try:
            while True:
                pending, error = self._settled.get(seconds > 0, seconds)
                seconds = 0.0
                if error is not None:
                    self._refused(pending, error)
                    continue
                pending.copy.acknowledged(pending.first, pending.cut_count, pending.ranges)
                self._source.refused.arrived(pending.partition, pending.end)
                self.copied += pending.records
                self.copied_bytes += pending.size
                self.whole += pending.records if pending.whole else 0
                self.arrived.append(pending)
        except queue.Empty:
            return

    def drain(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for what is in flight. Returns whether all of it has arrived."""
        deadline = time.monotonic() + seconds
        self.settle()
        while self.progress.open_count and self.failure is None:
            if time.monotonic() >= deadline:
                return False
            self.settle(_POLL_SECONDS)
        return not self.progress.open_count

    # -- sending --------------------------------------------------------------------------------

    def _first_unsent(self, partition: Partition, piece: SourceBatch) -> int | None:
        """The first offset of the batch that this run has not sent; None: it has sent all."""
        header = piece.batch.header
        first = max(header.base_offset, piece.start)
        decision = self.progress.decide(partition, first, header.partition_leader_epoch)
        if decision is CopyDecision.ASK:
            decision = self.progress.again(partition, self._source.stored(partition))
        copy = self._copy_of(partition)
        if copy.next == NONE:
            copy.next = min(piece.start, first)
        if decision is CopyDecision.COPY:
            return first
        rest = copy.next
        return rest if rest < header.next_offset else None

    def _layout(self, waiting: deque[SourceBatch]) -> Layout | None:
        """Where the first batch goes; None when it is not to be copied."""
        piece = waiting[0]
        if self._topics.is_new(piece.topic):
            self._topics.prepare(waiting, self._loop_guard.of, self._target_id)
        try:
            return self._topics.layout(piece.topic, piece.partition)
        except KafkaError as error:
            partition, header = (piece.topic, piece.partition), piece.batch.header
            unknown = error.code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]
            if unknown and not self._source.exists(piece.topic):
                first = max(header.base_offset, piece.start)
                self._gaps.deleted(partition, first, header.next_offset)
                return None
            if error.retriable:
                raise
            why = f"the target cannot have the topic {piece.topic}: {error}"
            what_to_do = "make it there by hand, or leave it out of the mirror's topics"
            if error.code in _OF_THE_CLUSTER:
                raise UserError(why, what_to_do) from error
            self._hold(partition, header.next_offset, f"{why}; {what_to_do}")
            return None

    def _pass_by(self, partition: Partition, piece: SourceBatch, first: int) -> None:
        """A batch without anything to copy."""
        copy, header = self._copy_of(partition), piece.batch.header
        self._gaps.report(partition, copy.next, header.next_offset if header.is_control else first)
        copy.passed(header.next_offset, header.partition_leader_epoch)

    def _send_whole(
        self, partition: Partition, piece: SourceBatch, layout: Layout, origin: Origin
    ) -> None:
        header = piece.batch.header
        pending = PendingRange(
            partition,
            self._copy_of(partition),
            first=header.base_offset,
            end=header.next_offset,
            oldest=header.base_timestamp,
            ranges=((header.base_offset, header.last_offset),),
            records=header.record_count,
            whole=True,
        )
        batch = ReadyBatch(layout.name, partition[1], piece.batch, origin, self._callback(pending))
        self._hand_over(pending, [batch], header.partition_leader_epoch)

    def _send_one_by_one(
        self,
        partition: Partition,
        records: DecodedRecords,
        piece: SourceBatch,
        layout: Layout,
        origin: Origin,
    ) -> DecodedRecords:
        """All but the last, which is returned."""
        for record in records.records[:-1]:
            one = DecodedRecords([record])
            self._send_recoded(partition, one, piece, record.offset + 1, layout, origin)
        return DecodedRecords(records.records[-1:])

    def _send_recoded(
        self,
        partition: Partition,
        records: Gathered,
        piece: SourceBatch,
        end: int,
        layout: Layout,
        origin: Origin,
    ) -> None:
        """All before ``end`` that was not sent yet. ``piece`` is the last batch that the records
        come from."""
        last = piece.batch.header
        copy = self._copy_of(partition)
        offsets = records.offsets
        holes = gaps_of(offsets, copy.next, end)
        if not offsets:
            copy.passed(end, last.partition_leader_epoch)
        else:
            pending = PendingRange(
                partition,
                copy,
                first=offsets[0],
                end=end,
                oldest=records.oldest,
                ranges=ranges_of(offsets),
                records=len(offsets),
            )
            on_settled = self._callback(pending)
            batches = [
                ReadyBatch(layout.name, number, batch, origin, on_settled)
                for number, batch in records.batches(layout, partition[1], last.codec)
            ]
            self._hand_over(pending, batches, last.partition_leader_epoch)
            self._loops.note(len(offsets))
        for gap in holes:  # after sending: what fails before is tried again
            self._gaps.report(partition, *gap)

    def _leave_out(self, partition: Partition, piece: SourceBatch, first: int, why: str) -> None:
        """Leave out a batch that must be decoded and cannot be. No consumer could read it."""
        copy, header = self._copy_of(partition), piece.batch.header
        self._gaps.undecodable(partition, copy.next, first, header.next_offset, why)
        copy.passed(header.next_offset, header.partition_leader_epoch)

    def _hand_over(self, pending: PendingRange, batches: list[ReadyBatch], epoch: int) -> None:
        copy, start = pending.copy, pending.copy.next
        pending.cut_count = copy.cut_count
        pending.open = len(batches)
        pending.size = sum(batch.size for batch in batches)
        if len(batches) == 1:
            pending.target = (batches[0].topic, batches[0].partition)
        for batch in batches:
            self._target.send(batch)
        copy.sent(pending.first, epoch, pending.oldest, pending.end, pending.records)
        self.duplicates.sent(pending.records)
        if pending.whole:
            self._gaps.report(pending.partition, start, pending.first)

    # -- acknowledgements -----------------------------------------------------------------------

    def _callback(self, pending: PendingRange) -> Settled:
        def on_settled(error: Exception | None, base_offset: int) -> None:
            if pending.settled(error, base_offset):
                self._settled.put((pending, error))

        return on_settled

    def _copy_of(self, partition: Partition) -> PartitionCopy:
        copy = self.progress.get(partition)
        assert copy is not None, "begun before it is copied"
        return copy

    def _refused(self, pending: PendingRange, error: Exception) -> None:
        """The target refuses the range. Its offset is not stored: the partition waits there, and is
        tried again. Where the records themselves are the reason, that would not help: the range is
        left out."""
        if isinstance(error, UnfitBatchError):
            pending.copy.acknowledged(pending.first, pending.cut_count, ())
            self._gaps.unfit(pending.partition, pending.first, pending.end, str(error))
            return
        if isinstance(error, KafkaError) and error.code in _OF_THE_CLUSTER:
            topic, number = pending.partition
            self.failure = self.failure or UserError(
                f"{topic}-{number} offset {pending.first} cannot be copied: {error}",
                "allow the mirror to write there; it goes on when it is started again",
            )
        elif self.progress.get(pending.partition) is pending.copy:
            why = f"the target refuses it: {error}; mend the target's topic"
            self._hold(pending.partition, pending.end, why)

    def _hold(self, partition: Partition, end: int, why: str) -> None:
        """The target refuses this partition's next message: the others go on."""
        offset = self.progress.restart(partition)
        self._source.refused.hold(partition, offset, end, why, time.monotonic())
        self._topics.forget(partition[0])
        self.restarted[partition] = offset
