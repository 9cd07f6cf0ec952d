"""A compaction that is interrupted at every single thing it asks of the disk: the log has its old
records or its new ones, and every last value in either case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from compacting import compact, read_all

from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig
from tallymark.log.compaction.compaction import Compaction
from tallymark.log.compaction.job import closed_segments, dirt_of, task_of
from tallymark.log.compaction.plan import group_segments
from tallymark.log.compaction.swap import Swap, swap
from tallymark.log.compaction.task import Cleaned
from tallymark.protocol.records.batch import Record, encode_batch
from tallymark.testing.memory_files import MemoryFiles

FOLDER = "/d/t-0"
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, retention_ms=-1, compact=True)
KEYS = 3


def filled() -> tuple[MemoryFiles, Log]:
    """A log of small segments, three of which make a full one, in which most records are replaced
    by later ones; all on the disk."""
    files = MemoryFiles()
    files.make_dirs(FOLDER)
    log = Log.open(files, FOLDER, CONFIG, clean=True, now_ms=0)
    log.start_epoch(1)
    for number in range(10):
        key = b"k%d" % (number % KEYS)
        log.append(encode_batch([(key, b"%d" % number, (), number)] * 2), 0, 1)
        if number % 2:
            log.roll()
    log.roll()
    log.flush()
    for folder in ("/", "/d"):
        files.sync_dir(folder)
    facts = closed_segments(log)
    assert [len(group) for group in group_segments(facts, CONFIG.segment_bytes)] == [3, 2]
    return files, log


def last_values(records: list[Record]) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {record.key: (record.offset, record.value) for record in records}


def reopen(files: MemoryFiles, recovery_point: int) -> Log:
    return Log.open(files, FOLDER, CONFIG, clean=False, now_ms=0, recovery_point=recovery_point)


def operations() -> int:
    """How many things a whole compaction asks of the disk."""
    files, log = filled()
    before = files.operations
    compact(files, log)
    return files.operations - before


def power_lost(files: MemoryFiles) -> None:
    files.lose_unsynced()


def power_lost_removed_for_good(files: MemoryFiles) -> None:
    files.lose_unsynced(lambda path, size: size // 2, removed_are_back=False)


def killed(files: MemoryFiles) -> None:
    files.kill()


@pytest.mark.parametrize("crash", [killed, power_lost, power_lost_removed_for_good])
@pytest.mark.parametrize("recovery", ["all", "nothing"])
def test_a_crash_at_any_operation(crash: Callable[[MemoryFiles], None], recovery: str) -> None:
    for number in range(operations()):
        files, log = filled()
        before = read_all(log)
        files.fail_operation(number, written=0.5)
        with pytest.raises((KafkaError, OSError)):
            compact(files, log)
        crash(files)
        again = reopen(files, log.recovery_point if recovery == "all" else 0)
        after = read_all(again)
        assert again.end_offset == log.end_offset, files.failed
        assert last_values(after) == last_values(before), files.failed
        assert all(record in before for record in after), files.failed
        left = [name for name in files.listdir(FOLDER) if name.endswith((".cleaned", ".swap"))]
        assert left == [], files.failed
        again.flush()
        compact(files, again)
        assert len(read_all(again)) == KEYS, files.failed


@pytest.mark.slow
def test_a_crash_while_a_start_completes_it() -> None:
    """The second crash comes at any operation of the start after the first."""
    for first in range(0, operations(), 3):
        for second in range(10):
            files, log = filled()
            before = read_all(log)
            files.fail_operation(first)
            with pytest.raises((KafkaError, OSError)):
                compact(files, log)
            files.lose_unsynced(removed_are_back=False)
            files.fail_operation(second)
            try:
                reopen(files, log.recovery_point)
            except (KafkaError, OSError):
                files.lose_unsynced(removed_are_back=False)
            else:
                files.kill()
            again = reopen(files, log.recovery_point)
            assert last_values(read_all(again)) == last_values(before), files.failed


def test_a_full_disk_while_it_is_written_hurts_nobody() -> None:
    """The worker's failure is not the log's: the disk stays online, appends go on."""
    files, log = filled()
    files.fail_next_write(".cleaned", written=10)
    with pytest.raises(OSError, match="No space"):
        compact(files, log)
    log.append(encode_batch([(b"k", b"v", (), 1)]), 0, 1)
    assert not log.is_offline


def test_a_disk_that_fails_in_the_swap_goes_offline() -> None:
    files, log = filled()
    job, _ = started(log, files)
    files.fail_next_sync(FOLDER)
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        job.prepare()
    assert log.is_offline


def started(log: Log, files: MemoryFiles) -> tuple[Swap, Compaction]:
    run = Compaction(files, task_of(log, dirt_of(log, -1, 0), 0, 1 << 20))
    cleaned = next(iter(run))
    assert isinstance(cleaned, Cleaned)
    return Swap(log, cleaned), run


def test_retention_that_takes_a_source_wins() -> None:
    """Between the steps of a swap the owner goes on: what he deletes must not come back."""
    files, log = filled()
    job, _ = started(log, files)
    job.prepare()
    log.delete_records(log.closed_segments[1].base_offset)
    start = log.start_offset
    assert start > 0
    assert not job.exchange()
    job.withdraw()
    files.kill()
    again = reopen(files, log.recovery_point)
    assert again.start_offset == start
    assert read_all(again)[0].offset >= start


def test_retention_that_takes_the_new_segment_before_it_has_its_name() -> None:
    """The files that it takes the place of are still there then, and must go with it: the next
    start would take them for the beginning of the log."""
    files, log = filled()
    job, _ = started(log, files)
    job.prepare()
    assert job.exchange()
    log.config = replace(CONFIG, retention_bytes=0)
    assert log.apply_retention(0) > 0
    assert log.start_offset == log.end_offset
    job.finish()
    files.kill()
    again = reopen(files, log.recovery_point)
    assert (again.start_offset, again.end_offset) == (log.end_offset, log.end_offset)
    assert not any(name.endswith((".swap", ".cleaned")) for name in files.listdir(FOLDER))


def test_a_log_that_is_deleted_meanwhile_is_no_error() -> None:
    files, log = filled()
    job, _ = started(log, files)
    job.prepare()
    assert job.exchange()
    log.abandon()
    for name in files.listdir(FOLDER):
        files.remove(f"{FOLDER}/{name}")
    job.finish()
    assert not log.is_offline


def test_readers_keep_what_they_hold() -> None:
    """The flow: a fetch has found its bytes, the segment is compacted before they are sent."""
    files, log = filled()
    held = log.read(2, 10_000)
    whole = held.read()
    segments = log.closed_segments
    compact(files, log)
    assert held.read() == whole
    assert all(segment.removed for segment in segments[:2])
    assert log.read(2, 10_000).read() != whole


def test_a_log_goes_on_while_it_is_compacted() -> None:
    files, log = filled()

    def busy(target: Log, cleaned: object) -> bool:
        target.append(encode_batch([(b"k0", b"new", (), 1)]), 0, 1)
        assert swap(target, cleaned)  # type: ignore[arg-type]  # what compact() passes on
        assert read_all(target)[-1].value == b"new"
        return True

    compact(files, log, swapping=busy)
    log.close()
    values = last_values(read_all(Log.open(files, FOLDER, CONFIG, clean=True, now_ms=0)))
    assert values[b"k0"][1] == b"new"
    assert len(values) == KEYS
