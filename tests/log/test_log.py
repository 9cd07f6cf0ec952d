"""One log: append, read, search, epochs, flush, retention; in memory and, for smoke, on a disk."""

from __future__ import annotations

import itertools
import os
import threading
import uuid
from pathlib import Path

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_logs import SMALL, batch, fill, new_log, refusal

from tallymark.log import FileSlice, Log, LogConfig, OffsetAt, OsFiles
from tallymark.protocol.records.batch import split_batches
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark.testing.memory_files import MemoryFiles


def test_offsets_and_epoch_are_placed() -> None:
    log = new_log()
    log.start_epoch(4)
    data = batch(1, 2, 3)
    assert log.append(data, 0, 4) == (0, 2, False, 3, -1)
    second = log.append(bytes(batch(4)), 0, 4)
    third = log.append(memoryview(bytes(batch(5))), 0, 4)
    assert (second.first_offset, third.first_offset, log.end_offset) == (3, 4, 5)
    found = split_batches(log.read(0, 10_000).read())
    assert [b.header.base_offset for b in found] == [0, 3, 4]
    assert {b.header.partition_leader_epoch for b in found} == {4}
    for each in found:
        each.check_crc()
    assert split_batches(data)[0].header.partition_leader_epoch == 4  # in place


def test_read_whole_batches_from_any_offset() -> None:
    log = new_log()
    fill(log, 60)
    assert log.segment_count > 2
    for offset in range(180):
        piece = log.read(offset, 1)
        (only,) = split_batches(piece.read())
        assert only.header.base_offset == offset - offset % 3
        assert piece.next_offset == only.header.next_offset
        assert only.header.size == len(piece)


@pytest.mark.parametrize("max_bytes", [0, 1, 99, 100, 101, 300, 500, 10**9])
def test_a_reader_meets_every_batch_once(max_bytes: int) -> None:
    log = new_log()
    fill(log, 60)
    at, seen = 0, list[int]()
    while at < log.end_offset:
        piece = log.read(at, max_bytes)
        batches = split_batches(piece.read())
        assert sum(b.header.size for b in batches) == len(piece)  # none is cut
        assert len(batches) == 1 or len(piece) <= max_bytes
        seen += [record.offset for b in batches for record in b.records()]
        at = piece.next_offset
    assert seen == list(range(180))


def test_without_min_one_a_large_batch_is_not_returned() -> None:
    log = new_log()
    fill(log, 2)
    piece = log.read(4, 10, min_one=False)
    assert (piece.data, piece.next_offset) == (b"", 4)
    assert len(log.read(4, 1000, min_one=False)) > 0


def test_reading_outside_of_the_log() -> None:
    log = new_log()
    fill(log, 2)
    assert log.read(6, 100).data == b""
    for offset in (-1, 7):
        with refusal("OFFSET_OUT_OF_RANGE"):
            log.read(offset, 100)


def test_roll_by_time_counts_from_the_first_batch() -> None:
    log = new_log(LogConfig(segment_ms=1000))
    for now in (5000, 5999, 6000, 6500, 7000):
        log.append(batch(now), now, -1)
    assert log.segment_count == 3


def test_roll_of_an_empty_segment_does_nothing() -> None:
    log = new_log()
    log.roll()
    assert log.segment_count == 1


def test_a_refused_batch_changes_nothing() -> None:
    files = MemoryFiles()
    log = new_log(files=files)
    fill(log, 1)
    broken = batch(1)
    broken[-1] ^= 1
    with refusal("CORRUPT_MESSAGE"):
        log.append(broken, 0, -1)
    with refusal("FENCED_LEADER_EPOCH"):
        log.start_epoch(3)
        log.append(batch(1), 0, 2)
    assert log.end_offset == 3
    assert len(files.content("/d/orders-0/00000000000000000000.log")) == len(log.read(0, 10**6))


@pytest.mark.parametrize("written", [0, 1, 40, 70])
def test_a_short_write_leaves_no_torn_middle(written: int) -> None:
    files = MemoryFiles()
    log = new_log(files=files)
    fill(log, 2)
    files.fail_next_write(".log", written=written, error=5)
    data = batch(1, 2, producer_id=5, producer_epoch=0, base_sequence=0)
    with refusal("KAFKA_STORAGE_ERROR"):
        log.append(data, 0, -1)
    for act in (lambda: log.append(batch(1), 0, -1), lambda: log.read(0, 10)):
        with refusal("KAFKA_STORAGE_ERROR"):  # the disk is offline until a restart
            act()
    files.kill()
    again = Log.open(files, "/d/orders-0", SMALL, clean=False, now_ms=0)
    assert again.end_offset == 6
    assert again.recovered is not None
    assert again.recovered.cut == 0
    assert not again.append(data, 0, -1).duplicate


def test_a_failed_sync_takes_the_disk_offline() -> None:
    """The kernel reports a failed write-back once; a second sync would succeed and mean nothing."""
    files = MemoryFiles()
    log = new_log(files=files)
    fill(log, 1)
    files.fail_next_sync()
    with refusal("KAFKA_STORAGE_ERROR"):
        log.flush()
    with refusal("KAFKA_STORAGE_ERROR"):
        log.flush()
    assert log.recovery_point == 0


# --- time


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=5), min_size=1, max_size=30),
    st.sampled_from(["none", "gzip"]),
    st.booleans(),
)
def test_offset_for_time_is_a_naive_search(
    batches: list[list[int]], compression: str, reopen: bool
) -> None:
    files = MemoryFiles()
    config = LogConfig(segment_bytes=600, index_interval_bytes=80)
    log = new_log(config, files)
    for stamps in batches:
        log.append(batch(*stamps, compression=compression), 0, -1)
    if reopen:
        log.close()
        log = Log.open(files, "/d/orders-0", config, clean=True, now_ms=0)
    stamps = list(itertools.chain(*batches))
    for target in range(-1, 42):
        naive = next(((o, t) for o, t in enumerate(stamps) if t >= target), None)
        assert log.offset_for_time(target) == naive
    top = max(stamps)
    assert log.max_timestamp() == (stamps.index(top), top)


def test_times_of_an_empty_log() -> None:
    log = new_log()
    assert log.offset_for_time(0) is None
    assert log.max_timestamp() is None
    assert log.offsets_before(LATEST, 5) == [0]
    assert log.offsets_before(EARLIEST, 5) == [0]


def test_a_batch_that_does_not_decode_is_one_record_for_the_search() -> None:
    """Rubbish with a right CRC stands in logs that were written when nobody looked at records."""
    log = new_log()
    log.config = LogConfig(record_validation="header")
    bad = batch(5, 9, 7)
    bad[61:] = b"\xff" * (len(bad) - 61)
    bad[17:21] = crc32c.crc32c(memoryview(bad)[21:]).to_bytes(4, "big")
    log.append(batch(1), 0, -1)
    log.append(bad, 0, -1)
    assert log.offset_for_time(6) == OffsetAt(1, 9)


def test_offsets_before_are_segment_starts_newest_first() -> None:
    log = new_log()
    fill(log, 60)
    everything = log.offsets_before(LATEST, 100)
    assert everything[0] == 180
    assert everything[-1] == 0
    assert everything == sorted(everything, reverse=True)
    assert log.offsets_before(LATEST, 2) == everything[:2]
    assert log.offsets_before(EARLIEST, 9) == [0]
    assert log.offsets_before(LATEST, 0) == []
    second = everything[-2]
    assert log.offsets_before(second - 1, 10) == [0]
    assert log.offsets_before(second - 2, 10) == []


# --- epochs


def test_epochs_tell_where_each_ended() -> None:
    log = new_log()
    assert log.end_offset_for_epoch(0) == (-1, -1)
    log.start_epoch(1)
    log.append(batch(1, 2), 0, 1)
    log.start_epoch(5)
    log.append(batch(3), 0, 5)
    assert [log.end_offset_for_epoch(e) for e in (-1, 0, 1, 3, 5, 6)] == [
        (-1, -1),
        (0, 0),
        (1, 2),
        (1, 2),
        (5, 3),
        (-1, -1),
    ]
    assert (log.latest_epoch, log.next_epoch) == (5, 6)


def test_a_noted_epoch_writes_nothing_and_is_there_with_its_first_record() -> None:
    """A broker that took over thousands of leads waited for two syncs for each. The epoch is in the
    state of the partition, and in each batch; the flush of these stores it."""
    files = MemoryFiles()
    log = new_log(files=files)
    log.start_epoch(1)
    log.append(batch(1, 2), 0, 1)
    log.flush()
    before = files.content("/d/orders-0/leader-epoch-checkpoint")
    log.note_epoch(5)
    assert files.content("/d/orders-0/leader-epoch-checkpoint") == before
    assert (log.epochs, log.next_epoch) == (((1, 0), (5, 2)), 6)
    with refusal("FENCED_LEADER_EPOCH"):
        log.note_epoch(4)
    log.append(batch(3), 0, 5)
    log.flush()
    assert b"5 2" in files.content("/d/orders-0/leader-epoch-checkpoint")


@pytest.mark.parametrize("written", [False, True])
def test_after_a_crash_a_noted_epoch_is_that_of_the_records_that_were_left(written: bool) -> None:
    files = MemoryFiles()
    log = new_log(files=files)
    log.start_epoch(1)
    log.append(batch(1, 2), 0, 1)
    log.flush()
    log.note_epoch(5)
    if written:
        log.append(batch(3), 0, 5)
    files.kill()
    again = Log.open(files, "/d/orders-0", SMALL, clean=False, now_ms=0)
    assert again.epochs == (((1, 0), (5, 2)) if written else ((1, 0),))


# --- the real disk


def test_on_the_disk(tmp_path: Path) -> None:
    folder = f"{tmp_path}/{uuid.uuid4().hex}-0"
    os.mkdir(folder)
    log = Log.open(OsFiles(), folder, SMALL, clean=False, now_ms=0)
    log.start_epoch(0)
    for number in range(50):
        log.append(batch(*range(3 * number, 3 * number + 3)), 0, 0)
    piece = log.read(4, 10**6)
    assert isinstance(piece.data, FileSlice)
    out, inn = os.pipe()
    sent = os.sendfile(inn, piece.data.fileno(), piece.data.position, 100)
    assert os.read(out, 100) == piece.read()[:sent]
    os.close(out)
    os.close(inn)
    log.close()
    names = sorted(os.listdir(folder))
    assert names[:2] == ["00000000000000000000.index", "00000000000000000000.log"]
    assert "leader-epoch-checkpoint" in names
    again = Log.open(OsFiles(), folder, SMALL, clean=True, now_ms=0)
    assert again.recovered is None
    assert (again.end_offset, again.latest_epoch) == (150, 0)
    assert again.offset_for_time(77) == (77, 77)
    again.close()
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]


def test_no_descriptor_leaks(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    folder = f"{tmp_path}/orders-0"
    os.mkdir(folder)
    log = Log.open(OsFiles(), folder, SMALL, clean=False, now_ms=0)
    fill(log, 60)
    log.read(0, 100)
    log.close()
    del log
    assert len(os.listdir("/proc/self/fd")) == before


def test_reading_in_another_thread_while_appending(tmp_path: Path) -> None:
    """A broker replays committed offsets in a thread while commits go on."""
    folder = f"{tmp_path}/orders-0"
    os.mkdir(folder)
    config = LogConfig(segment_bytes=5000, index_interval_bytes=50)
    log = Log.open(OsFiles(), folder, config, clean=False, now_ms=0)
    fill(log, 1)
    problems, done = list[object](), threading.Event()

    def read() -> None:
        at = expected = 0
        while not (done.is_set() and at == log.end_offset):
            piece = log.read(at, 700)
            for each in split_batches(piece.read()):
                if each.header.base_offset != expected:
                    problems.append((expected, each.header))
                expected = each.header.next_offset
            at = piece.next_offset

    reader = threading.Thread(target=read)
    reader.start()
    fill(log, 600, per_batch=1)
    done.set()
    reader.join(30)
    assert not reader.is_alive()
    assert problems == []
    log.close()
