"""The filter of a reader of committed records, with batches made by hand."""

from __future__ import annotations

import pytest

from tallymark.client.reading.committed import AbortedTransaction, committed
from tallymark.client.reading.fetched import Fetched
from tallymark.client.reading.isolation import isolation_level
from tallymark.errors import CorruptRecordError, UserError
from tallymark.protocol.records.batch import Batch, BatchBuilder, split_batches

ABORT, COMMIT = 0, 1


class Log:
    """Batches one after the other."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.end = 0

    def add(
        self, producer: int, *values: bytes, transactional: bool = True, control: bool = False
    ) -> int:
        builder = BatchBuilder()
        for value in values:
            key = value if control else None
            builder.append(key, b"" if control else value, (), 1000)
        data = builder.build(
            base_offset=self.end,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=-1 if control else 0,
            transactional=transactional,
            control=control,
        )
        start, self.end = self.end, self.end + len(values)
        self.batches += split_batches(data)
        return start

    def mark(self, producer: int, kind: int) -> None:
        self.add(producer, b"\0\0" + kind.to_bytes(2, "big"), control=True)

    def committed(self, *aborted: tuple[int, int]) -> list[bytes | None]:
        """The values that are left when the broker tells of these."""
        kept = committed(self.batches, [AbortedTransaction(*one) for one in aborted])
        return Fetched("t", 0, 0, self.end, 0, kept, self.end, 0).values()


def test_only_the_aborted_producers_records_go() -> None:
    log = Log()
    first = log.add(7, b"a", b"b")
    log.add(9, b"x")
    log.add(-1, b"plain", transactional=False)
    log.add(7, b"c")
    log.mark(7, ABORT)
    log.add(7, b"d")
    log.mark(7, COMMIT)
    log.mark(9, COMMIT)
    assert log.committed((7, first)) == [b"x", b"plain", b"d"]
    assert log.committed() == [b"a", b"b", b"x", b"plain", b"c", b"d"]


def test_a_producer_may_abort_again_and_again() -> None:
    log = Log()
    starts = []
    for number in range(6):
        start = log.add(7, b"%d" % number)
        if number % 2:
            starts.append((7, start))
        log.mark(7, ABORT if number % 2 else COMMIT)
    assert log.committed(*reversed(starts)) == [b"0", b"2", b"4"]


def test_a_transaction_that_began_before_the_fetch() -> None:
    """Its first offset is below all that was fetched; its marker may not be among it."""
    log = Log()
    log.add(9, b"skipped")
    begun = log.add(7, b"a")
    log.add(7, b"b")
    log.add(9, b"x")
    del log.batches[:2]
    assert log.committed((7, begun)) == [b"x"]


def test_one_that_begins_later_does_not_hide_what_was_committed_before() -> None:
    log = Log()
    log.add(7, b"kept")
    log.mark(7, COMMIT)
    start = log.add(7, b"gone")
    log.mark(7, ABORT)
    assert log.committed((7, start)) == [b"kept"]


def test_records_outside_of_transactions_of_the_same_producer_stay() -> None:
    log = Log()
    start = log.add(7, b"a")
    log.add(7, b"plain", transactional=False)
    assert log.committed((7, start)) == [b"plain"]


def test_a_marker_that_is_none_is_corrupt() -> None:
    log = Log()
    start = log.add(7, b"a")
    log.add(7, b"\0", control=True)
    with pytest.raises(CorruptRecordError, match="marker of a transaction"):
        log.committed((7, start))


def test_levels() -> None:
    assert (isolation_level("read_uncommitted"), isolation_level("read_committed")) == (0, 1)
    with pytest.raises(UserError, match="give read_uncommitted or read_committed"):
        isolation_level("committed")
