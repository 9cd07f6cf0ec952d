"""A log under crashes, against a list: what was flushed is never lost, what survives is a prefix,
and every way to ask agrees with a linear scan."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig
from tallymark.log.disk.kept_offsets import StartOffsets
from tallymark.log.disk.partition_folder import LogKey
from tallymark.log.verify.verify import Surroundings, verify_log
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.memory_files import MemoryFiles

FOLDER = "/d/orders-0"
CONFIG = LogConfig(
    segment_bytes=700, index_interval_bytes=120, retention_ms=-1, retention_bytes=3000
)
PRODUCER = 7


class LogUnderCrashes(RuleBasedStateMachine):
    """``records`` is what the log should hold: the timestamp of each offset. ``starts`` are the
    offsets at which batches begin. ``flushed`` offsets must survive anything."""

    @initialize()
    def begin(self) -> None:
        self.files = MemoryFiles()
        self.files.make_dirs(FOLDER)
        self.files.sync_dir("/")
        self.files.sync_dir("/d")
        self.records: list[int] = []
        self.starts: list[int] = []
        self.sequence = 0
        self.sent: list[tuple[bytes, int]] = []
        self.flushed = 0
        self.checkpoint = 0
        self.deleted = 0
        self.epoch = 0
        self.open(clean=False)

    def open(self, *, clean: bool) -> None:
        self.log = Log.open(
            self.files, FOLDER, CONFIG, clean=clean, now_ms=0, recovery_point=self.checkpoint
        )
        assert max(self.flushed, self.deleted) <= self.log.end_offset <= len(self.records)
        assert clean or self.log.end_offset in [*self.starts, self.deleted, len(self.records)]
        assert self.log.start_offset >= self.deleted
        del self.records[self.log.end_offset :]
        self.starts = [start for start in self.starts if start < self.log.end_offset]
        self.sent = [pair for pair in self.sent if pair[1] < self.log.end_offset]
        last = split_batches(self.sent[-1][0])[0].header if self.sent else None
        self.sequence = last.base_sequence + last.record_count if last else self.sequence
        assert self.log.next_epoch == self.epoch + 1 or self.epoch == 0
        self.epoch += 1
        self.log.start_epoch(self.epoch)
        assert self.log.end_offset_for_epoch(self.epoch - 1)[1] <= self.log.end_offset

    # --- what may happen

    @rule(stamps=st.lists(st.integers(0, 60), min_size=1, max_size=4), size=st.integers(0, 150))
    def append(self, stamps: list[int], size: int) -> None:
        data = encode_batch([(None, bytes(size), (), stamp) for stamp in stamps])
        self.starts.append(len(self.records))
        info = self.log.append(data, 0, self.epoch)
        first = len(self.records)
        assert info == (first, first + len(stamps) - 1, False, max(stamps), -1)
        self.records += stamps

    @rule(count=st.integers(1, 3))
    def append_idempotent(self, count: int) -> None:
        data = encode_batch(
            [(None, b"", (), 5)] * count,
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=self.sequence,
        )
        info = self.log.append(data, 0, self.epoch)
        assert (info.first_offset, info.duplicate) == (len(self.records), False)
        self.starts.append(len(self.records))
        self.sent.append((data, len(self.records)))
        self.records += [5] * count
        self.sequence += count

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(1, 5))
    def send_again(self, back: int) -> None:
        """One of the last five idempotent batches that survived: recognised, also after a crash,
        unless retention took the records."""
        data, offset = self.sent[max(-back, -len(self.sent))]
        if offset < self.log.start_offset:
            return
        info = self.log.append(data, 0, self.epoch)
        assert (info.first_offset, info.duplicate) == (offset, True)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = len(self.records)

    @rule()
    def write_checkpoint(self) -> None:
        self.checkpoint = self.log.recovery_point

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def delete_old_segments(self) -> None:
        self.log.apply_retention(0)

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, len(self.records)))
        start = max(self.log.start_offset, offset)
        assert self.log.delete_records(offset) == self.log.start_offset == start
        self.deleted = max(self.deleted, offset)

    @rule()
    def verify(self) -> None:
        self.check_files(clean=False)

    def check_files(self, *, clean: bool) -> None:
        """The checker finds nothing in what the log wrote."""
        flushed = {LogKey("orders", 0): self.log.recovery_point}
        around = Surroundings(clean, flushed, {}, StartOffsets(self.files, "/d"))
        report = verify_log(self.files, FOLDER, around, deep=True)
        assert (report.damage, report.end_offset) == ([], self.log.end_offset)
        assert report.start_offset == self.log.start_offset

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self.check_files(clean=True)
        self.flushed = self.checkpoint = len(self.records)
        self.open(clean=True)

    @rule()
    def kill(self) -> None:
        self.files.kill()
        before = len(self.records)
        self.open(clean=False)
        assert len(self.records) == before  # the process died, the machine did not

    @rule(share=st.floats(0, 1), removed_are_back=st.booleans())
    def lose_power(self, share: float, removed_are_back: bool) -> None:
        self.files.lose_unsynced(
            lambda path, size: int(share * size), removed_are_back=removed_are_back
        )
        self.open(clean=False)

    @rule(written=st.integers(0, 80))
    def fill_the_disk(self, written: int) -> None:
        self.files.fail_next_write(".log", written=written)
        with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
            self.log.append(encode_batch([(None, b"x", (), 1)]), 0, self.epoch)
        self.kill()

    @precondition(lambda self: self.log.recovery_point < self.log.end_offset)
    @rule()
    def fail_a_sync(self) -> None:
        self.files.fail_next_sync(".log")
        with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
            self.log.flush()
        self.lose_power(0.5, True)

    # --- what must hold

    @invariant()
    def reading_is_a_linear_scan(self) -> None:
        log, at = self.log, self.log.start_offset
        assert log.end_offset == len(self.records)
        assert log.recovery_point <= log.end_offset
        while at < log.end_offset:
            piece = log.read(at, 400)
            assert piece.next_offset > at
            for batch in split_batches(piece.read()):
                batch.check_crc()
                found = {record.offset: record.timestamp for record in batch.records()}
                assert found == {offset: self.records[offset] for offset in found}
                assert min(found) == at or min(found) < at == log.start_offset
                at = max(found) + 1
            assert at == piece.next_offset

    @invariant()
    def indexes_agree(self) -> None:
        log, start = self.log, self.log.start_offset
        for offset in range(start, log.end_offset, 3):
            (batch,) = split_batches(log.read(offset, 1).read())
            assert batch.header.base_offset == max(s for s in self.starts if s <= offset)
        for target in (0, 7, 30, 59, 61):
            naive = ((o, t) for o, t in enumerate(self.records) if o >= start and t >= target)
            assert log.offset_for_time(target) == next(naive, None)


LogUnderCrashes.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
test_log_under_crashes = LogUnderCrashes.TestCase
