"""Deleting records up to an offset: where the log begins afterwards, for everybody who asks, and
after every kind of crash."""

from __future__ import annotations

from typing import Any

import pytest
from small_logs import refusal

from tallymark.log import Log, LogConfig
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark.testing.memory_files import MemoryFiles

FOLDER = "/d/orders-0"
CHECKPOINT = "/d/log-start-offset-checkpoint"
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
PER_BATCH = 3


def batch(first: int, **producer: Any) -> bytearray:
    records = [(None, b"value", (), 1000 + first + n) for n in range(PER_BATCH)]
    return bytearray(encode_batch(records, compression="none", **producer))


def filled(batches: int = 20) -> tuple[MemoryFiles, Log]:
    files = MemoryFiles()
    files.make_dirs(FOLDER)
    files.sync_dir("/")
    files.sync_dir("/d")
    log = reopen(files, clean=False)
    log.start_epoch(0)
    for number in range(batches):
        log.append(batch(number * PER_BATCH), 0, 0)
    return files, log


def reopen(files: MemoryFiles, *, clean: bool, point: int = 0) -> Log:
    return Log.open(files, FOLDER, CONFIG, clean=clean, now_ms=0, recovery_point=point)


def logs_of(files: MemoryFiles) -> list[int]:
    return [int(name[:-4]) for name in files.listdir(FOLDER) if name.endswith(".log")]


def test_the_start_lies_inside_of_a_batch() -> None:
    _, log = filled()
    assert log.delete_records(31) == 31
    assert log.start_offset == 31
    with refusal("OFFSET_OUT_OF_RANGE"):
        log.read(30, 100)
    first = split_batches(log.read(31, 1).read())[0].header
    assert first.base_offset <= 31 < first.next_offset  # a batch is never cut
    assert log.end_offset == 60


def test_whole_segments_below_go_and_no_other() -> None:
    files, log = filled()
    before = logs_of(files)
    log.delete_records(31)
    after = logs_of(files)
    assert after == before[before.index(after[0]) :]
    assert after[0] <= 31 < after[1]
    names = files.listdir(FOLDER)
    assert not [n for n in names if n.endswith("index") and int(n.split(".")[0]) not in after]


def test_deleting_everything_keeps_the_offset() -> None:
    files, log = filled()
    log.flush()
    assert log.delete_records(60) == 60
    assert (log.start_offset, log.end_offset, log.size) == (60, 60, 0)
    assert log.read(60, 100).data == b""
    assert log.append(batch(60), 0, 0).first_offset == 60
    log.close()
    assert reopen(files, clean=True).start_offset == 60


def test_what_is_out_of_range_and_what_has_no_effect() -> None:
    _, log = filled()
    for offset in (61, -2, -1):
        with refusal("OFFSET_OUT_OF_RANGE"):
            log.delete_records(offset)
    assert log.delete_records(40) == 40
    assert log.delete_records(7) == 40
    assert log.start_offset == 40


def test_times_are_those_of_the_records_that_are_left() -> None:
    """The greatest timestamp stands in a deleted part of a segment whose rest is kept."""
    files = MemoryFiles()
    files.make_dirs(FOLDER)
    log = Log.open(files, FOLDER, LogConfig(), clean=False, now_ms=0)
    stamps = [5, 90, 7, 8, 20, 9]
    for first in (0, 3):
        records = [(None, b"", (), stamp) for stamp in stamps[first : first + 3]]
        log.append(bytearray(encode_batch(records)), 0, -1)
    log.delete_records(2)
    assert log.max_timestamp() == (4, 20)
    assert log.offset_for_time(0) == (2, 7)
    assert log.offset_for_time(30) is None
    assert log.offsets_before(EARLIEST, 3) == [2]
    assert log.offsets_before(LATEST, 3) == [6, 2]


def test_it_is_durable_when_it_is_answered() -> None:
    """Kafka writes the checkpoint once a minute: a power failure in between brings back what was
    said to be deleted."""
    files, log = filled()
    log.flush()
    log.delete_records(31)
    assert files.content(CHECKPOINT) == b"0\n1\norders 0 31\n"
    for removed_are_back in (True, False):
        files.lose_unsynced(removed_are_back=removed_are_back)
        again = reopen(files, clean=False)
        assert (again.start_offset, again.end_offset) == (31, 60)
        with refusal("OFFSET_OUT_OF_RANGE"):
            again.read(30, 100)
        assert logs_of(files)[0] <= 31 < logs_of(files)[1]


@pytest.mark.parametrize("survives", [0, 150, 10**6])
@pytest.mark.parametrize("removed_are_back", [True, False])
def test_a_power_failure_that_takes_records_behind_the_start(
    survives: int, removed_are_back: bool
) -> None:
    """Nothing was flushed, records below 31 were deleted, and the disk has lost the end of the log:
    it begins at 31 nevertheless, and no offset is given out twice."""
    files, log = filled()
    log.delete_records(31)
    files.lose_unsynced(lambda path, size: min(size, survives), removed_are_back=removed_are_back)
    again = reopen(files, clean=False)
    assert again.start_offset == 31
    assert again.end_offset >= 31
    again.start_epoch(again.next_epoch)
    appended = again.append(batch(0), 0, again.latest_epoch)
    assert appended.first_offset == again.end_offset - PER_BATCH
    assert again.end_offset_for_epoch(again.latest_epoch) == (again.latest_epoch, again.end_offset)
    files.kill()
    assert reopen(files, clean=False).end_offset == again.end_offset


def test_a_deletion_that_a_crash_interrupted_goes_on() -> None:
    """The offset is on the disk, the files are not gone yet, and one of them is torn: nobody misses
    it, and it must not cut the log."""
    files, log = filled()
    log.flush()
    bases = logs_of(files)
    files.overwrite(CHECKPOINT, b"0\n1\norders 0 31\n")
    files.overwrite(f"{FOLDER}/{bases[0]:020d}.log", b"torn")
    files.kill()
    again = reopen(files, clean=False)
    assert (again.start_offset, again.end_offset) == (31, 60)
    assert again.recovered is not None
    assert again.recovered.cut == 0


def test_readers_keep_what_they_hold() -> None:
    _, log = filled()
    held = log.read(0, 1000)
    log.delete_records(59)
    assert len(held.read()) == len(held)


def test_epochs_begin_at_the_start() -> None:
    files, log = filled()
    log.start_epoch(4)
    log.append(batch(60), 0, 4)
    log.delete_records(31)
    assert log.end_offset_for_epoch(0) == (0, 60)
    log.delete_records(62)
    assert log.end_offset_for_epoch(0) == (0, 62)  # older than all: ends where they begin
    assert log.end_offset_for_epoch(4) == (4, 63)
    log.close()
    again = reopen(files, clean=True)
    assert again.end_offset_for_epoch(0) == (0, 62)
    assert again.end_offset_for_epoch(4) == (4, 63)


def test_producers_are_still_known() -> None:
    files, log = filled(2)
    data = bytes(batch(0, producer_id=5, producer_epoch=0, base_sequence=0))
    log.append(data, 0, 0)
    log.delete_records(log.end_offset)
    assert log.append(data, 0, 0).duplicate
    log.close()
    again = reopen(files, clean=True)
    assert again.append(data, 0, 0).duplicate


def test_a_removed_segment_that_comes_back_torn_cuts_nothing() -> None:
    """Everything was deleted, so the log began with a new segment, and the offset was no longer in
    the checkpoint. The power failed, the old segment was back without its records, the recovery
    found a torn log there, and cut the new segment off: the log began at 0 again."""
    files, log = filled(1)
    log.delete_records(3)
    files.lose_unsynced(removed_are_back=True)
    again = reopen(files, clean=False)
    assert (again.start_offset, again.end_offset) == (3, 3)


def test_a_failing_disk_is_told() -> None:
    files, log = filled()
    files.fail_next_sync("log-start-offset")
    with refusal("KAFKA_STORAGE_ERROR"):
        log.delete_records(31)
    assert log.is_offline
    files.lose_unsynced()
    assert reopen(files, clean=False).start_offset == 0


def test_a_reader_in_a_segment_that_goes_looks_again() -> None:
    """A search has taken the list of segments, and the oldest goes before its file is opened. (The
    file used to be made anew, empty, and the next start found a log that begins at 0.)"""
    files, log = filled()
    log.flush()
    log.close()
    cold = reopen(files, clean=True)
    read, files.read = files.read, lambda path: (cold.delete_records(31), read(path))[1]  # type: ignore[method-assign]  # the disk is slow, a deletion overtakes the search
    found = cold.offset_for_time(0)
    files.read = read  # type: ignore[method-assign]  # as before
    assert found == (31, 1031)
    assert logs_of(files)[0] > 0
