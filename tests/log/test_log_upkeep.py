"""What a log does besides appending and reading: repetitions, flushes, retention."""

from __future__ import annotations

import pytest
from small_logs import SMALL, batch, fill, new_log, refusal

from tallymark.log import Log, LogConfig
from tallymark.testing.memory_files import MemoryFiles


def test_a_repeated_batch_gets_its_first_offsets() -> None:
    log = new_log()
    log.append(batch(1), 0, -1)
    data = batch(7, 8, producer_id=1, producer_epoch=0, base_sequence=0)
    assert log.append(bytes(data), 0, -1) == (1, 2, False, 8, -1)
    log.append(batch(9, producer_id=1, producer_epoch=0, base_sequence=2), 0, -1)
    assert log.append(bytes(data), 0, -1) == (1, 2, True, 8, -1)
    assert log.end_offset == 4
    with refusal("OUT_OF_ORDER_SEQUENCE_NUMBER"):
        log.append(batch(9, producer_id=1, producer_epoch=0, base_sequence=4), 0, -1)
    with refusal("INVALID_PRODUCER_EPOCH"):
        log.append(batch(1, producer_id=2, producer_epoch=4, base_sequence=0), 0, -1)
        log.append(batch(1, producer_id=2, producer_epoch=3, base_sequence=1), 0, -1)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("roll", [True, False])
def test_repetitions_are_recognised_after_a_restart(clean: bool, roll: bool) -> None:
    """A broker dies after it wrote five batches and before it answered: the producer sends all five
    again. A snapshot holds the last one only."""
    files = MemoryFiles()
    log = new_log(files=files)
    kept = [batch(n, n, producer_id=1, producer_epoch=0, base_sequence=2 * n) for n in range(7)]
    for each in kept:
        log.append(bytes(each), 0, -1)
    if roll:
        log.roll()
    log.close() if clean else files.kill()
    again = Log.open(files, "/d/orders-0", SMALL, clean=clean, now_ms=0)
    for number in range(2, 7):
        assert again.append(bytes(kept[number]), 0, -1) == (
            2 * number,
            2 * number + 1,
            True,
            number,
            -1,
        )
    assert not again.append(
        batch(1, producer_id=1, producer_epoch=0, base_sequence=14), 0, -1
    ).duplicate


def test_idle_producers_are_forgotten() -> None:
    log = new_log(LogConfig(producer_id_expiration_ms=1000))
    log.append(batch(1, producer_id=1, producer_epoch=3, base_sequence=0), 0, -1)
    assert log.expire_producers(999) == 0
    with refusal("INVALID_PRODUCER_EPOCH"):
        log.append(batch(1, producer_id=1, producer_epoch=2, base_sequence=0), 999, -1)
    assert log.expire_producers(1000) == 1
    log.append(batch(1, producer_id=1, producer_epoch=2, base_sequence=9), 1000, -1)


# --- flush


def test_flush_policy_and_recovery_point() -> None:
    files = MemoryFiles()
    log = new_log(LogConfig(flush_messages=4, flush_ms=100), files)
    assert not log.flush_due(10**6)
    log.append(batch(1, 2, 3), 1000, -1)
    assert not log.flush_due(1099)
    assert log.flush_due(1100)
    log.append(batch(1), 1050, -1)
    assert log.flush_due(1051)
    job = log.begin_flush()
    assert job is not None
    assert log.begin_flush() is None  # one at a time
    log.append(batch(1), 1060, -1)
    assert not log.flush_due(10**6)
    job.run()
    log.finish_flush(job)
    assert log.recovery_point == 4
    assert not log.flush_due(1159)
    assert log.flush_due(1160)
    log.flush()
    assert log.recovery_point == log.end_offset == 5


def test_a_flush_during_a_flush_covers_both() -> None:
    files = MemoryFiles()
    log = new_log(files=files)
    fill(log, 20)
    job = log.begin_flush()
    assert job is not None
    fill(log, 20)
    log.flush()
    files.lose_unsynced()
    again = Log.open(files, "/d/orders-0", SMALL, clean=False, now_ms=0, recovery_point=120)
    assert again.end_offset == 120
    assert again.offset_for_time(59) == (59, 59)
    log.abandon()
    log.finish_flush(job)  # of a log that is gone: nothing happens


def test_a_flush_during_a_flush_syncs_the_indexes_of_both() -> None:
    """The first flush has written the time index but not synced it when the second one, which has
    nothing to add to it, moves the recovery point: from there on nobody would build it again."""
    files = MemoryFiles()
    config = LogConfig(index_interval_bytes=100)
    log = new_log(config, files)
    fill(log, 20)
    job = log.begin_flush()
    assert job is not None
    log.roll()
    fill(log, 1)
    log.flush()
    files.lose_unsynced(lambda path, size: size // 24 * 12)
    again = Log.open(files, "/d/orders-0", config, clean=False, now_ms=0, recovery_point=63)
    assert again.offset_for_time(59) == (59, 59)


def test_the_greatest_timestamp_is_in_the_file_after_every_flush() -> None:
    """A segment that was flushed to its end and then rolled is not looked at by a recovery. Its
    time index must not end with the last entry of the regular interval."""
    files = MemoryFiles()
    config = LogConfig(index_interval_bytes=300)
    log = new_log(config, files)
    fill(log, 20)
    log.flush()
    log.roll()
    files.kill()
    again = Log.open(files, "/d/orders-0", config, clean=False, now_ms=0, recovery_point=60)
    assert again.recovered is not None
    assert again.recovered.first == 60
    for target in range(60):
        assert again.offset_for_time(target) == (target, target)


# --- retention


def test_retention_moves_the_start() -> None:
    files = MemoryFiles()
    log = new_log(LogConfig(segment_bytes=500, retention_bytes=1000), files)
    log.start_epoch(0)
    for number in range(30):
        log.append(batch(number), 0, 0)
    held = log.read(0, 100)
    assert log.apply_retention(0) == 0  # not before it is flushed
    log.flush()
    deleted = log.apply_retention(0)
    assert deleted > 0
    assert 1000 <= log.size < 1500
    assert log.start_offset > 0
    assert log.read(log.start_offset, 10**6).read()
    with refusal("OFFSET_OUT_OF_RANGE"):
        log.read(0, 100)
    assert len(held.read()) == len(held)  # a reader keeps what it holds
    assert log.end_offset_for_epoch(0) == (0, 30)
    log.close()
    again = Log.open(files, "/d/orders-0", SMALL, clean=True, now_ms=0)
    assert (again.start_offset, again.end_offset) == (log.start_offset, 30)


def test_retention_by_age_may_take_everything_but_not_the_offset() -> None:
    files = MemoryFiles()
    log = new_log(LogConfig(segment_bytes=500, retention_ms=1000), files)
    for number in range(30):
        log.append(batch(number), 0, -1)
    log.flush()
    assert log.apply_retention(1000) == 0
    log.apply_retention(2000)
    assert (log.start_offset, log.end_offset, log.size) == (30, 30, 0)
    files.lose_unsynced()  # offset 30 must not be forgotten even so
    again = Log.open(files, "/d/orders-0", SMALL, clean=False, now_ms=0)
    assert again.end_offset == 30


def test_a_closed_log_refuses() -> None:
    log = new_log()
    log.close()
    log.close()
    with refusal("KAFKA_STORAGE_ERROR"):
        log.append(batch(1), 0, -1)


def test_a_log_that_is_deleted_to_its_end_goes_on_at_its_offset() -> None:
    """The last segment is new and empty, those before it are deleted, and the power fails: were its
    name not on the disk, the folder would be empty and the log begin again at 0."""
    files = MemoryFiles()
    log = new_log(LogConfig(retention_bytes=0), files)
    fill(log, 3)
    log.flush()
    assert log.apply_retention(0) == 1
    files.lose_unsynced(removed_are_back=False)
    again = Log.open(files, "/d/orders-0", SMALL, clean=False, now_ms=0, recovery_point=9)
    assert (again.start_offset, again.end_offset) == (9, 9)
