"""Transactions in one log: where readers stop, what they leave out, and which markers are taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from compacting import CONFIG, FOLDER, closed, compact, open_log, read_all

from tallymark.errors import CODES, KafkaError
from tallymark.log import Log, LogConfig
from tallymark.log.compaction.swap import Swap
from tallymark.log.compaction.task import Cleaned
from tallymark.log.producers.aborted import (
    Aborted,
    AbortedEntries,
    decode_aborted,
    encode_aborted,
)
from tallymark.log.producers.state import ProducerStates
from tallymark.log.producers.transactions import OpenTransactions
from tallymark.log.segments.segment import ColdSegmentError
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.records.markers import Marker, marker_batch, marker_of
from tallymark.testing.memory_files import MemoryFiles

COMMIT: Final = Marker(commit=True, coordinator_epoch=3)
ABORT: Final = Marker(commit=False, coordinator_epoch=3)
PLAIN: Final = replace(CONFIG, compact=False, segment_bytes=10_000)


def new_log(config: LogConfig = PLAIN, files: MemoryFiles | None = None) -> Log:
    return open_log(files or MemoryFiles(), config)


def put(log: Log, producer: int, *keys: bytes, epoch: int = 0, transactional: bool = True) -> int:
    """Write records of these keys as the producer's next batch; returns the first offset."""
    entry = log.producers.get(producer)
    follows = entry is not None and entry.epoch == epoch and entry.batches
    sequence = entry.batches[-1].last_sequence + 1 if entry and follows else 0
    data = encode_batch(
        [(key, b"v", (), 5) for key in keys],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return log.append(data, 5, 1).first_offset


def end(
    log: Log, producer: int, marker: Marker, epoch: int = 0, version: int = 0, now_ms: int = 5
) -> int | None:
    info = log.append_marker(producer, epoch, marker, now_ms, 1, version=version)
    return None if info is None else info.first_offset


def refusal(code: str) -> pytest.RaisesExc[KafkaError]:
    return pytest.RaisesExc(KafkaError, check=lambda error: error.code == CODES[code])


# --- where readers of committed records stop


def test_readers_stop_at_the_first_open_transaction() -> None:
    log = new_log()
    assert log.first_unstable(0) is None
    assert [put(log, 7, b"a"), put(log, 9, b"x"), put(log, 7, b"b")] == [0, 1, 2]
    assert log.first_unstable(3) == 0
    end(log, 7, COMMIT)
    assert log.first_unstable(4) == 1
    end(log, 9, ABORT)
    assert log.first_unstable(5) is None


def test_a_transaction_is_over_for_readers_when_the_high_watermark_passes_its_marker() -> None:
    """Another leader may not have the marker."""
    transactions = OpenTransactions()
    transactions.begin(7, 0)
    transactions.end(7, 3, commit=True)
    assert transactions.first_unstable(3) == 0
    assert transactions.first_unstable(4) is None


def test_a_start_knows_of_markers_that_the_high_watermark_has_not_passed() -> None:
    """The snapshot at the end of the log has no open transaction; but of the one that ended behind
    the high watermark readers must see nothing yet."""
    files = MemoryFiles()
    log = new_log(files=files)
    put(log, 7, b"a")
    log.roll()
    put(log, 7, b"b")
    end(log, 7, COMMIT)
    log.close()
    again = open_log(files, PLAIN)
    again.hold_back(1, now_ms=0)
    assert again.first_unstable(1) == 0
    assert again.first_unstable(3) is None


def test_a_cut_keeps_what_ended_below_it_for_the_high_watermark_to_pass() -> None:
    log = new_log()
    put(log, 7, b"a")
    end(log, 7, COMMIT)
    log.roll()
    put(log, 9, b"x")
    end(log, 9, COMMIT)
    log.truncate_to(3, 5)
    assert log.first_unstable(1) == 0
    assert log.first_unstable(2) == 2, "that of 9 is open again"


def test_an_open_transaction_outlives_a_restart_and_a_new_epoch() -> None:
    files = MemoryFiles()
    log = new_log(files=files)
    put(log, 7, b"a")
    put(log, 7, b"b", epoch=1)  # a fence before the marker: the transaction stays open
    log.close()
    again = open_log(files, PLAIN)
    assert again.first_unstable(2) == 0
    end(again, 7, ABORT, epoch=1)
    assert again.first_unstable(3) is None
    assert again.aborted(0, 3) == [Aborted(7, 0, 2, 3)]


def test_what_was_deleted_of_an_open_transaction_does_not_hold_readers_up() -> None:
    log = new_log()
    put(log, 7, b"a", b"b", b"c")
    log.delete_records(2)
    assert log.first_unstable(3) == 2


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    log = new_log(replace(PLAIN, producer_id_expiration_ms=10))
    put(log, 7, b"a")
    put(log, 9, b"a", transactional=False)
    assert log.expire_producers(1_000) == 1
    assert log.first_unstable(2) == 0


# --- what they leave out


def test_only_transactions_that_overlap_the_read_are_named() -> None:
    log = new_log()
    put(log, 7, b"a")
    end(log, 7, ABORT)
    put(log, 7, b"b")
    put(log, 9, b"x")
    end(log, 7, ABORT)
    end(log, 9, COMMIT)
    put(log, 7, b"c")
    end(log, 7, ABORT)
    first, second, third = Aborted(7, 0, 1, 2), Aborted(7, 2, 4, 3), Aborted(7, 6, 7, 8)
    assert log.aborted(0, 8) == [first, second, third]
    assert log.aborted(2, 6) == [second]
    assert log.aborted(0, 2) == [first]


def test_a_reader_loads_the_index_of_no_segment_that_it_does_not_need() -> None:
    """A reader at the start of a log loaded the indexes of all segments behind it: of a log with a
    million aborted transactions, those of all of them."""
    files = MemoryFiles()
    log = new_log(files=files)
    for _ in range(4):
        put(log, 7, b"a")
        end(log, 7, ABORT)
        log.roll()
    put(log, 7, b"b")
    log.close()
    again = open_log(files, PLAIN)
    with pytest.raises(ColdSegmentError):
        again.aborted(0, 2, wait=False)
    again.warm_aborted(0)
    assert again.aborted(0, 2, wait=False) == [Aborted(7, 0, 1, 2)]
    with pytest.raises(ColdSegmentError):
        again.aborted(2, 4, wait=False)
    assert again.aborted(0, 8) == [Aborted(7, at, at + 1, at + 2) for at in range(0, 8, 2)]


def test_what_is_added_to_the_entries_of_a_file_is_behind_them() -> None:
    wanted = [Aborted(7, at, at + 1, at + 2) for at in range(0, 10, 2)]
    entries = AbortedEntries(encode_aborted(wanted[:3]) + b"torn")
    for each in wanted[3:]:
        entries.append(each)
    assert list(entries) == wanted
    assert (entries[-1], entries[2:4], len(entries)) == (wanted[-1], tuple(wanted[2:4]), 5)
    with pytest.raises(IndexError):
        entries[5]


def test_a_start_remembers_no_transaction_that_readers_have_passed() -> None:
    """It kept each one that had ended since the last snapshot until the first reader came: a
    million of them after a kill."""
    files = MemoryFiles()
    log = new_log(files=files)
    for _ in range(3):
        put(log, 7, b"a")
        end(log, 7, ABORT)
    put(log, 7, b"b")
    log.flush()
    files.kill()
    again = Log.open(files, FOLDER, PLAIN, clean=False, now_ms=0)
    assert (list(again.producers.transactions), again.producers.transactions.waiting) == (
        [(7, 6)],
        0,
    )
    again.hold_back(5, now_ms=0)
    assert (list(again.producers.transactions), again.producers.transactions.waiting) == (
        [(7, 6)],
        1,
    )


def test_a_marker_without_a_transaction_is_written_and_names_none() -> None:
    """KAFKA-10702."""
    log = new_log()
    assert end(log, 7, ABORT) == 0
    assert (log.end_offset, log.aborted(0, 1), log.first_unstable(1)) == (1, [], None)


def test_the_index_has_kafkas_bytes() -> None:
    data = encode_aborted([Aborted(7, 1, 2, 3)])
    assert data == b"\0\0" + b"".join(number.to_bytes(8, "big") for number in (7, 1, 2, 3))
    assert decode_aborted(data) == (Aborted(7, 1, 2, 3),)
    assert decode_aborted(data + data[:33]) == (Aborted(7, 1, 2, 3),)
    assert decode_aborted(data + data) == (Aborted(7, 1, 2, 3),)  # not after it
    assert decode_aborted(b"\0\1" + data[2:]) == ()


def test_a_kill_before_the_flush_loses_no_entry() -> None:
    """Nor does one whose file was torn, or lost with its segment's tail."""
    files = MemoryFiles()
    log = new_log(files=files)
    put(log, 7, b"a")
    log.flush()
    log.roll()
    put(log, 7, b"b")
    end(log, 7, ABORT)
    files.kill()
    files.remove(f"{FOLDER}/{1:020d}.txnindex")
    again = Log.open(files, FOLDER, PLAIN, clean=False, now_ms=0, recovery_point=1)
    assert again.aborted(0, 3) == [Aborted(7, 0, 2, 3)]
    assert files.exists(f"{FOLDER}/{1:020d}.txnindex")


def test_a_cut_of_the_marker_opens_the_transaction_again() -> None:
    log = new_log()
    put(log, 7, b"a")
    marker = end(log, 7, ABORT)
    assert marker == 1
    log.truncate_to(marker, 5)
    assert (log.first_unstable(1), log.aborted(0, 1)) == (0, [])
    end(log, 7, COMMIT)
    assert (log.first_unstable(2), log.aborted(0, 2)) == (None, [])


def test_a_follower_builds_the_same() -> None:
    leader, follower = new_log(), new_log()
    put(leader, 7, b"a")
    put(leader, 9, b"x")
    end(leader, 7, ABORT)
    put(leader, 7, b"b")
    follower.append_leaders(leader.read(0, 10_000).read(), 1, 5)
    for log in (leader, follower):
        assert log.first_unstable(4) == 1
        assert log.aborted(0, 4) == [Aborted(7, 0, 2, 1)]


# --- which batches and markers are taken


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    log = new_log()
    put(log, 7, b"a")
    with refusal("INVALID_TXN_STATE"):
        put(log, 7, b"b", transactional=False)
    end(log, 7, COMMIT)
    assert put(log, 7, b"b", transactional=False) == 2


@pytest.mark.parametrize(
    ("epoch", "version", "opened", "expected"),
    [
        (4, 0, True, "INVALID_PRODUCER_EPOCH"),
        (4, 2, True, "INVALID_PRODUCER_EPOCH"),
        (5, 0, True, "written"),
        (5, 0, False, "written"),
        (5, 2, True, "INVALID_PRODUCER_EPOCH"),  # its end has raised the epoch
        (5, 2, False, "repetition"),
        (6, 0, True, "written"),
        (6, 2, True, "written"),
        (6, 2, False, "written"),
    ],
)
def test_a_marker_by_epoch(epoch: int, version: int, opened: bool, expected: str) -> None:
    """KIP-890, KIP-1228: the producer is in epoch 5."""
    log = new_log()
    put(log, 7, b"a", epoch=5, transactional=opened)
    try:
        found = "repetition" if end(log, 7, COMMIT, epoch, version) is None else "written"
    except KafkaError as error:
        found = error.name
    assert found == expected
    assert log.end_offset == (2 if expected == "written" else 1)


def test_a_late_batch_of_an_ended_transaction_is_refused() -> None:
    log = new_log()
    put(log, 7, b"a")
    end(log, 7, ABORT, epoch=1, version=2)
    with refusal("INVALID_PRODUCER_EPOCH"):
        put(log, 7, b"late", epoch=0)


def test_a_marker_of_an_older_coordinator_is_refused() -> None:
    log = new_log()
    put(log, 7, b"a")
    end(log, 7, COMMIT)
    put(log, 7, b"b")
    with refusal("TRANSACTION_COORDINATOR_FENCED"):
        end(log, 7, Marker(commit=False, coordinator_epoch=2))
    assert log.first_unstable(3) == 2


def test_a_marker_has_kafkas_bytes() -> None:
    data = marker_batch(ABORT, 7, 2, 5)
    (batch,) = split_batches(data)
    (record,) = batch.records()
    assert (record.key, record.value) == (b"\0\0\0\0", b"\0\0\0\0\0\3")
    header = batch.header
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, -1)
    assert marker_of(batch) == ABORT


def test_a_snapshot_keeps_what_is_open_and_the_coordinators_epoch() -> None:
    files = MemoryFiles()
    log = new_log(files=files)
    put(log, 7, b"a")
    end(log, 7, COMMIT)
    put(log, 7, b"b")
    log.close()
    entry = open_log(files, PLAIN).producers.get(7)
    assert entry is not None
    assert (entry.coordinator_epoch, entry.txn_first_offset) == (3, 2)


def test_producers_without_transactions_have_none() -> None:
    states = ProducerStates()
    assert len(states.transactions) == 0
    assert states.transactions.first_unstable(100) is None


# --- compaction


def visible(log: Log) -> list[bytes | None]:
    hidden = log.aborted(log.start_offset, log.end_offset)
    return [
        record.key
        for record in read_all(log)
        if not any(each.first_offset <= record.offset <= each.last_offset for each in hidden)
    ]


def test_an_aborted_record_replaces_no_other_and_goes() -> None:
    files = MemoryFiles()
    log = new_log(CONFIG, files)
    put(log, 9, b"k", transactional=False)
    put(log, 7, b"k")
    end(log, 7, ABORT)
    closed(log)
    compact(files, log)
    assert [record.offset for record in read_all(log) if record.key == b"k"] == [0]


def test_a_marker_stays_while_its_records_do_and_then_until_its_horizon() -> None:
    files = MemoryFiles()
    log = new_log(CONFIG, files)
    put(log, 7, b"k")
    end(log, 7, COMMIT)
    closed(log)

    def compacted(now_ms: int) -> list[int]:
        compact(files, log, now_ms=now_ms)
        batches = split_batches(log.read(0, 10_000).read())
        return [each.header.base_offset for each in batches if each.header.is_control]

    assert compacted(10) == [1]
    assert compacted(10_000) == [1], "its record is still there"
    put(log, 9, b"k", transactional=False)
    closed(log)
    assert compacted(20_000) == [1], "from now on it has a horizon"
    assert compacted(20_099) == [1]
    assert compacted(20_100) == []


def test_the_index_goes_with_the_markers() -> None:
    files = MemoryFiles()
    log = new_log(CONFIG, files)
    put(log, 7, b"k")
    end(log, 7, ABORT)
    put(log, 9, b"k", transactional=False)
    closed(log)
    compact(files, log, now_ms=10)
    assert log.aborted(0, 3) == [Aborted(7, 0, 1, 2)]
    compact(files, log, now_ms=10_000)
    assert log.aborted(0, 3) == []
    log.close()
    assert open_log(files, CONFIG).aborted(0, 3) == []


def test_segments_that_become_one_keep_the_entries_of_all() -> None:
    files = MemoryFiles()
    log = new_log(CONFIG, files)
    for key in (b"a", b"b", b"c"):
        put(log, 7, key)
        end(log, 7, ABORT)
        log.roll()
    closed(log)
    before = log.aborted(0, 6)
    assert [each.first_offset for each in before] == [0, 2, 4]
    compact(files, log, now_ms=10)
    assert log.aborted(0, 6) == before
    log.close()
    assert open_log(files, CONFIG).aborted(0, 6) == before


def test_a_start_that_completes_a_compaction_has_its_index() -> None:
    """A crash between the name of the new segment and the names of its indexes. Unlike these the
    index of aborted transactions cannot be built from the segment: the records are gone."""
    files = MemoryFiles()
    log = new_log(CONFIG, files)
    for key in (b"a", b"b"):
        put(log, 7, key)
        end(log, 7, ABORT)
        log.roll()
    closed(log)
    before = log.aborted(0, 4)

    def crash(target: Log, cleaned: Cleaned) -> bool:
        Swap(target, cleaned).prepare()
        raise InterruptedError

    with pytest.raises(InterruptedError):
        compact(files, log, now_ms=10, swapping=crash)
    files.kill()
    again = Log.open(files, FOLDER, CONFIG, clean=False, now_ms=0, recovery_point=log.end_offset)
    assert again.aborted(0, 4) == before


def test_an_open_transaction_whose_last_batch_is_empty_does_not_open_again() -> None:
    """The story: the last batch of a producer stays without records, so that its sequences go on.
    Its marker went, and a start without a snapshot took the batch for an open transaction."""
    files = MemoryFiles()
    log = new_log(CONFIG, files)
    put(log, 7, b"k")
    end(log, 7, COMMIT)
    put(log, 9, b"k", transactional=False)
    closed(log)
    compact(files, log, now_ms=10)
    compact(files, log, now_ms=10_000)
    for name in files.listdir(FOLDER):
        if name.endswith(".snapshot"):
            files.remove(f"{FOLDER}/{name}")
    assert open_log(files, CONFIG).first_unstable(3) is None
