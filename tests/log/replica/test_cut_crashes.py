"""A follower's log under appends, cuts and crashes, against a list of batches.

What a cut has taken never comes back, what was flushed below it is never lost, and epochs,
producers and look-ups are those of the batches that are there, whatever fails at whatever moment.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tallymark.log import FlushJob, Log, LogConfig
from tallymark.log.disk.kept_offsets import StartOffsets
from tallymark.log.disk.partition_folder import LogKey
from tallymark.log.upkeep.deletion import DeletionJob
from tallymark.log.verify.verify import Surroundings, verify_log
from tallymark.protocol.records.batch import (
    BatchHeader,
    encode_batch,
    place_batch,
    read_header,
    split_batches,
)
from tallymark.testing.memory_files import MemoryFiles

FOLDER = "/d/orders-0"
CONFIG = LogConfig(
    segment_bytes=400, index_interval_bytes=150, retention_ms=-1, retention_bytes=900
)
BATCHES = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([0, 0, 60]), st.integers(-1, 1)),
    min_size=1,
    max_size=5,
)
OFFSETS = st.floats(-0.1, 1.1)
GAPS = ("are missing", "is next")
"""These logs have gaps, in offsets and in sequences."""


class CutUnderCrashes(RuleBasedStateMachine):
    """``batches`` is what was written and not cut, also what retention has deleted since; ``start``
    is the least offset at which the log may begin, ``flushed`` and below must survive anything."""

    @initialize()
    def begin(self) -> None:
        self.files = MemoryFiles()
        self.files.make_dirs(FOLDER)
        self.files.sync_dir("/")
        self.files.sync_dir("/d")
        self.batches: list[bytes] = []
        self.begins: list[int] = [0]
        self.stamp = 0
        self.sequences = {0: 0, 1: 0}
        self.flushed = 0
        self.checkpoint = 0
        self.flush_job: FlushJob | None = None
        self.deletion: DeletionJob | None = None
        self.unfinished: list[bytes] = []
        """What the log had before a cut to its beginning that a killed process did not finish."""
        self.open(clean=False)

    def open(self, *, clean: bool) -> None:
        """Open the log: it must have a prefix of ``batches``, with all that was flushed."""
        self.flush_job = self.deletion = None
        self.log = Log.open(
            self.files, FOLDER, CONFIG, clean=clean, now_ms=0, recovery_point=self.checkpoint
        )
        self.log.save_recovery_points = self.write_checkpoint
        assert self.log.end_offset >= self.flushed
        self.forget_from(self.log.end_offset)

    def forget_from(self, end: int) -> None:
        self.batches = [each for each in self.batches if header(each).next_offset <= end]

    # --- what may happen

    @rule(batches=BATCHES, later=st.integers(0, 2), gap=st.sampled_from([0, 0, 0, 2]))
    def append(self, batches: list[tuple[int, int, int]], later: int, gap: int) -> None:
        """An answer of a leader, perhaps the next one, perhaps with a gap of a compaction. A
        follower begins with a cut: an epoch that it led without a record would hold the gap."""
        if gap:
            self.log.truncate_to(self.log.end_offset, 0)
        epoch = max(self.log.latest_epoch, 0) + later
        end, made = self.log.end_offset + gap, list[bytes]()
        for count, size, producer in batches:
            made.append(self.made(end, epoch, count, size, producer))
            end += count
        self.log.append_leaders(b"".join(made), epoch, 0)
        self.batches += made

    def made(self, offset: int, epoch: int, count: int, size: int, producer: int) -> bytes:
        options: dict[str, Any] = {}
        if producer >= 0:
            options = {"producer_id": producer, "producer_epoch": 0}
            options["base_sequence"] = self.sequences[producer]
            self.sequences[producer] += count
        records = [(None, bytes(size), (), self.stamp + n) for n in range(count)]
        self.stamp += count
        data = bytearray(encode_batch(records, **options))
        place_batch(data, 0, offset, epoch)
        return bytes(data)

    @rule(later=st.integers(1, 3))
    def lead(self, later: int) -> None:
        """An epoch in which nothing may ever be written."""
        self.log.start_epoch(self.log.next_epoch + later)

    @rule()
    def write_checkpoint(self) -> None:
        self.checkpoint = self.log.recovery_point

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.log.end_offset

    @precondition(lambda self: self.flush_job is None)
    @rule()
    def begin_flush(self) -> None:
        self.flush_job = self.log.begin_flush()

    @precondition(lambda self: self.flush_job is not None)
    @rule()
    def end_flush(self) -> None:
        """Perhaps the log was cut meanwhile."""
        job, self.flush_job = self.flush_job, None
        assert job is not None
        job.run()
        self.log.finish_flush(job)
        self.flushed = max(self.flushed, self.log.recovery_point)

    @precondition(lambda self: self.deletion is None)
    @rule()
    def begin_retention(self) -> None:
        self.deletion = self.log.take_expired(self.log.find_expired(0), self.log.end_offset)

    @precondition(lambda self: self.deletion is not None)
    @rule()
    def end_retention(self) -> None:
        job, self.deletion = self.deletion, None
        assert job is not None
        job.run()
        self.log.finish_deletion(job)

    @precondition(lambda self: self.log.end_offset > self.log.start_offset)
    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        start, end = self.log.start_offset, self.log.end_offset
        self.log.delete_records(start + round(share * (end - start)))

    @rule(share=OFFSETS)
    def cut(self, share: float) -> None:
        offset = self.at(share)
        told, old_end = self.log.tail(offset), self.log.end_offset
        cut = self.log.truncate_to(offset, 0)
        assert cut == told
        self.check_cut(offset, old_end)

    @rule(share=OFFSETS)
    def cut_all(self, share: float) -> None:
        offset = self.at(share)
        cut = self.log.truncate_fully_and_start_at(offset, 0)
        assert (cut.end_offset, self.log.start_offset, self.log.end_offset) == (offset,) * 3
        self.batches.clear()
        self.flushed = 0

    @rule(
        share=OFFSETS,
        number=st.integers(0, 25),
        fully=st.booleans(),
        power=st.booleans(),
        survives=st.floats(0, 1),
        back=st.booleans(),
    )
    def crash_in_a_cut(
        self, share: float, number: int, fully: bool, power: bool, survives: float, back: bool
    ) -> None:
        """Everything up to the n-th change of the disk has happened: the log is as before, as
        after, or ends in between."""
        offset, old_end, before = self.at(share), self.log.end_offset, list(self.batches)
        job = self.log.begin_cut(offset, 0, fully=fully)
        self.files.fail_operation(number)
        job.run()
        whole = job.error is None
        if whole:
            cut = self.log.finish_cut(job)
            self.flushed = min(self.flushed, cut.end_offset)
            self.forget_from(cut.end_offset)
            if cut.offsets and cut.start_offset == cut.end_offset:
                self.batches.clear()
                self.flushed = 0
        else:
            self.flushed = 0 if fully else min(self.flushed, max(offset - 3, 0))
        self.files.fail_operation(10**9)
        if power:
            self.files.lose_unsynced(lambda path, size: int(survives * size), removed_are_back=back)
        else:
            self.files.kill()
        if not whole and (fully or offset <= self.log.start_offset):
            self.reopen_after_a_broken_restart(before)
        elif power:
            self.reopen_without_power()
        else:
            self.open(clean=False)
        assert whole or self.log.end_offset <= max(old_end, offset)

    def reopen_after_a_broken_restart(self, before: list[bytes]) -> None:
        """The log was to begin elsewhere: what it has is a prefix of what it had, or nothing."""
        self.flushed = 0
        self.open(clean=False)
        held = bytes_of(self.log)
        self.batches = [each for each in before if each in held]
        assert b"".join(self.batches) == held
        self.unfinished = before

    def at(self, share: float) -> int:
        start, end = self.log.start_offset, self.log.end_offset
        return max(round(start + share * (end - start)) - (share < 0), 0) + (share > 1)

    def check_cut(self, offset: int, old_end: int) -> None:
        if offset >= old_end:
            assert self.log.end_offset == old_end
        else:
            ends = (header(each).next_offset for each in self.batches)
            # At the beginning of a segment the log may end behind a gap, and where nothing is left.
            assert max((end for end in ends if end <= offset), default=0) <= self.log.end_offset
            assert self.log.end_offset <= offset
        self.flushed = min(self.flushed, self.log.end_offset)
        self.forget_from(self.log.end_offset)
        if offset < old_end and self.log.start_offset == self.log.end_offset:
            self.batches.clear()
            self.flushed = 0
        assert self.log.recovery_point <= self.log.end_offset
        assert self.checkpoint <= self.log.end_offset or not self.batches

    @rule()
    def stop_and_start(self) -> None:
        end = self.log.end_offset
        self.log.close()
        self.flushed = self.checkpoint = end
        last = header(self.batches[-1]).next_offset if self.batches else end
        self.flushed = min(end, last)  # behind it there may be a gap
        self.open(clean=True)

    @rule()
    def kill(self) -> None:
        held = bytes_of(self.log)
        self.files.kill()
        self.open(clean=False)
        assert bytes_of(self.log) == held  # the process died, the machine did not

    @rule(share=st.floats(0, 1), removed_are_back=st.booleans())
    def lose_power(self, share: float, removed_are_back: bool) -> None:
        self.files.lose_unsynced(
            lambda path, size: int(share * size), removed_are_back=removed_are_back
        )
        self.reopen_without_power()

    def reopen_without_power(self) -> None:
        """What a cut had taken that was not finished may be back: it was not on the disk. Followers
        find by its epochs that it is not the leader's."""
        before, self.unfinished = self.unfinished, []
        self.open(clean=False)
        held = bytes_of(self.log)
        if before and not self.flushed and b"".join(self.batches) != held:
            self.batches = [each for each in before if each in held]

    # --- what must hold

    @invariant()
    def the_log_has_what_it_should(self) -> None:
        start = self.log.start_offset
        kept = [each for each in self.batches if header(each).next_offset > start]
        assert bytes_of(self.log) == b"".join(kept)
        assert self.log.recovery_point <= self.log.end_offset

    @invariant()
    def epochs_are_those_of_the_batches(self) -> None:
        start, end = self.log.start_offset, self.log.end_offset
        kept = [h for h in map(header, self.batches) if h.next_offset > start]
        if not kept:
            return
        newest = kept[-1].partition_leader_epoch
        for asked in range(newest + 1):
            after = [h.base_offset for h in kept if h.partition_leader_epoch > asked]
            before = [h.partition_leader_epoch for h in kept if h.partition_leader_epoch <= asked]
            known, found = self.log.end_offset_for_epoch(asked)
            if after and before:
                ends = [h.next_offset for h in kept if h.partition_leader_epoch <= asked]
                assert ends[-1] <= found <= after[0]
            elif before and self.log.latest_epoch == newest:
                assert found == end
            assert known == (before[-1] if before else known)
        for h in kept:
            assert self.log.epoch_of(max(h.base_offset, start)) == h.partition_leader_epoch

    @invariant()
    def producers_are_those_of_the_batches(self) -> None:
        last = {h.producer_id: h for h in map(header, self.batches) if h.producer_id >= 0}
        for entry in self.log.producers:
            offset = entry.batches[-1].last_offset
            if offset >= self.log.start_offset:
                assert offset == last[entry.producer_id].last_offset
        for producer_id, h in last.items():
            if h.base_offset >= self.log.start_offset:
                assert self.log.producers.get(producer_id) is not None

    @invariant()
    def times_are_those_of_the_batches(self) -> None:
        start = self.log.start_offset
        for batch in self.batches[::3]:
            h = header(batch)
            if h.base_offset >= start:
                wanted = (h.base_offset, h.base_timestamp)
                assert self.log.offset_for_time(h.base_timestamp) == wanted

    @rule()
    def verify(self) -> None:
        flushed = {LogKey("orders", 0): self.log.recovery_point}
        around = Surroundings(False, flushed, {}, StartOffsets(self.files, "/d"))
        report = verify_log(self.files, FOLDER, around, deep=True)
        assert [each for each in report.damage if not each.endswith(GAPS)] == []


def header(batch: bytes) -> BatchHeader:
    return read_header(batch)


def bytes_of(log: Log) -> bytes:
    found, at = b"", log.start_offset
    while at < log.end_offset:
        piece = log.read(at, 300)
        for batch in split_batches(piece.read()):
            batch.check_crc()
        found += piece.read()
        at = piece.next_offset
    return found


CutUnderCrashes.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
test_cut_under_crashes = pytest.mark.slow(CutUnderCrashes.TestCase)
