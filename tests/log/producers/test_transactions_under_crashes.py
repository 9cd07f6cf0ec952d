"""Transactions in a log under crashes, cuts, retention and compaction, against a model: a reader of
committed records sees what was committed, in order, and nothing else; it never passes an open
transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pytest
from compacting import compact
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tallymark.client.reading.committed import AbortedTransaction, committed
from tallymark.log import Log, LogConfig
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.records.markers import Marker
from tallymark.testing.memory_files import MemoryFiles

FOLDER: Final = "/d/t-0"
CONFIG: Final = LogConfig(
    segment_bytes=500,
    index_interval_bytes=100,
    retention_ms=-1,
    compact=True,
    delete_retention_ms=10,
)
PRODUCERS: Final = st.integers(1, 3)


@dataclass(frozen=True)
class Entry:
    """What stands at one offset: a record, or the marker of an outcome."""

    producer: int
    key: bytes = b""
    transactional: bool = False
    outcome: bool | None = None


class TransactionsUnderCrashes(RuleBasedStateMachine):
    """``entries`` is all that was ever written and not cut, by offset."""

    @initialize(compacted=st.booleans())
    def begin(self, compacted: bool) -> None:
        self.config = replace(CONFIG, compact=compacted)
        self.compacted_until = self.committed_until = 0
        self.files = MemoryFiles()
        self.files.make_dirs(FOLDER)
        self.files.sync_dir("/")
        self.files.sync_dir("/d")
        self.entries: list[Entry] = []
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.clean_until = -1
        self.checkpoint = 0
        self.now = 100
        self.values = 0
        self.open(clean=False)

    def open(self, *, clean: bool) -> None:
        self.log = Log.open(
            self.files,
            FOLDER,
            self.config,
            clean=clean,
            now_ms=self.now,
            recovery_point=self.checkpoint,
        )
        self.shrunk()

    def shrunk(self) -> None:
        """The log may end earlier now. Producers go on with a new epoch, as after a fence."""
        del self.entries[self.log.end_offset :]
        for producer in (1, 2, 3):
            entry = self.log.producers.get(producer)
            self.epochs[producer] = max(self.epochs.get(producer, 0), entry.epoch if entry else 0)
            last = entry.batches[-1].last_sequence + 1 if entry and entry.batches else 0
            known = entry is not None and entry.epoch == self.epochs[producer]
            self.sequences[producer] = last if known else 0

    def opened_at(self, producer: int) -> int | None:
        """Where the producer's transaction begins that is open, in the model."""
        return next(iter(self.open_offsets(producer)), None)

    def open_offsets(self, producer: int) -> list[int]:
        """The records of the producer's open transaction."""
        offsets: list[int] = []
        for offset, entry in enumerate(self.entries):
            if entry.producer == producer and entry.outcome is not None:
                offsets.clear()
            elif entry.producer == producer and entry.transactional:
                offsets.append(offset)
        return offsets

    # --- what may happen

    @rule(producer=PRODUCERS, keys=st.lists(st.sampled_from("abc"), min_size=1, max_size=2))
    def write(self, producer: int, keys: list[str]) -> None:
        self.put(producer, keys, transactional=True)

    @rule(producer=PRODUCERS, key=st.sampled_from("abc"))
    def write_outside(self, producer: int, key: str) -> None:
        if self.opened_at(producer) is None:
            self.put(producer, [key], transactional=False)

    @rule(key=st.sampled_from("abc"))
    def write_plainly(self, key: str) -> None:
        self.values += 1
        self.log.append(
            encode_batch([(key.encode(), b"%d" % self.values, (), self.now)]), self.now, 1
        )
        self.entries.append(Entry(-1, key.encode()))

    def put(self, producer: int, keys: list[str], *, transactional: bool) -> None:
        self.values += 1
        records = [(key.encode(), b"%d" % self.values, (), self.now) for key in keys]
        data = encode_batch(
            records,
            producer_id=producer,
            producer_epoch=self.epochs[producer],
            base_sequence=self.sequences[producer],
            transactional=transactional,
        )
        info = self.log.append(data, self.now, 1)
        assert (info.first_offset, info.duplicate) == (len(self.entries), False)
        self.sequences[producer] += len(keys)
        self.entries += [Entry(producer, key.encode(), transactional) for key in keys]

    @rule(producer=PRODUCERS, commit=st.booleans(), raised=st.booleans())
    def end(self, producer: int, commit: bool, raised: bool) -> None:
        self.epochs[producer] += raised
        marker = Marker(commit, 3)
        info = self.log.append_marker(
            producer, self.epochs[producer], marker, self.now, 1, version=2 if raised else 0
        )
        if raised:
            self.sequences[producer] = 0
        assert info is not None
        assert info.first_offset == len(self.entries)
        self.entries.append(Entry(producer, outcome=commit))

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.checkpoint = self.log.recovery_point

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(hours=st.integers(1, 30))
    def wait(self, hours: int) -> None:
        self.now += hours

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.log.delete_records(data.draw(st.integers(0, len(self.entries))))

    @precondition(lambda self: self.config.compact)
    @rule()
    def compact(self) -> None:
        self.log.flush()
        self.checkpoint = self.log.recovery_point
        stable = self.log.first_unstable(self.log.end_offset)
        summary = compact(
            self.files,
            self.log,
            clean_until=self.clean_until,
            now_ms=self.now,
            until=stable,
        )
        self.clean_until = summary.until
        self.compacted_until = max(self.compacted_until, summary.until)
        # The markers that it has followed are committed: no cut takes them.
        self.committed_until = len(self.entries)

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        lowest = max(self.log.start_offset, self.committed_until)
        if lowest <= len(self.entries):
            offset = data.draw(st.integers(lowest, len(self.entries)))
            self.log.truncate_to(offset, self.now)
            self.checkpoint = min(self.checkpoint, self.log.recovery_point)
            self.shrunk()

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self.checkpoint = len(self.entries)
        self.open(clean=True)

    @rule()
    def kill(self) -> None:
        self.files.kill()
        self.open(clean=False)

    @rule(share=st.floats(0, 1), removed_are_back=st.booleans())
    def lose_power(self, share: float, removed_are_back: bool) -> None:
        self.files.lose_unsynced(
            lambda path, size: int(share * size), removed_are_back=removed_are_back
        )
        self.open(clean=False)

    # --- what must hold

    @invariant()
    def an_open_transaction_is_not_passed(self) -> None:
        start = self.log.start_offset
        opened = [offset for each in (1, 2, 3) for offset in self.open_offsets(each)]
        wanted = min((offset for offset in opened if offset >= start), default=None)
        found = self.log.first_unstable(self.log.end_offset)
        # Of a transaction whose first records were deleted the log may have forgotten these.
        assert found == wanted or (found == start and min(opened, default=start) < start)

    @invariant()
    def a_reader_of_committed_records_sees_these(self) -> None:
        end = len(self.entries)
        stable = self.log.first_unstable(end)
        until = end if stable is None else stable
        for start in {self.log.start_offset, (self.log.start_offset + until) // 2}:
            found = self.read(start, until)
            expected = self.committed(start, until)
            if self.compacted_until <= start:
                assert found == expected
            else:
                # Compaction: each is one of these, and the last of each key is there.
                assert set(found.items()) <= set(expected.items())
                last = {key: offset for offset, key in expected.items()}
                assert all(offset in found for offset in last.values()), (found, expected)

    def committed(self, start: int, until: int) -> dict[int, bytes]:
        visible: dict[int, bytes] = {}
        for offset in range(start, until):
            entry = self.entries[offset]
            if entry.outcome is None and (not entry.transactional or self.outcome(offset)):
                visible[offset] = entry.key
        return visible

    def outcome(self, offset: int) -> bool:
        producer = self.entries[offset].producer
        for entry in self.entries[offset:]:
            if entry.producer == producer and entry.outcome is not None:
                return entry.outcome
        raise AssertionError("an open transaction below the last stable offset")

    def read(self, start: int, until: int) -> dict[int, bytes]:
        """By offset the keys, as a client filters them."""
        found: dict[int, bytes] = {}
        at = start
        while at < until:
            piece = self.log.read(at, 300, until)
            if not piece.data:
                break
            aborted = [
                AbortedTransaction(each.producer_id, each.first_offset)
                for each in self.log.aborted(at, min(piece.next_offset, until))
            ]
            for batch in committed(split_batches(piece.read()), aborted):
                if not batch.header.is_control:
                    for record in batch.records():
                        if at <= record.offset < until:
                            assert record.key is not None
                            found[record.offset] = bytes(record.key)
            at = piece.next_offset
        return found


TransactionsUnderCrashes.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
test_transactions_under_crashes = pytest.mark.slow(TransactionsUnderCrashes.TestCase)
