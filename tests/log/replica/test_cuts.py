"""Cutting a log at its end: what goes, what stays, in which order, and what was under way then."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from compacting import CONFIG as COMPACTED
from compacting import FOLDER, closed, contents, open_log, put

from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig, LogManager
from tallymark.log.compaction.compaction import Compaction
from tallymark.log.compaction.job import dirt_of, task_of
from tallymark.log.compaction.swap import Swap
from tallymark.log.compaction.task import Cleaned
from tallymark.protocol.records.batch import encode_batch, place_batch
from tallymark.testing.memory_files import MemoryFiles

CONFIG = LogConfig(segment_bytes=250, index_interval_bytes=100, retention_ms=-1)


def batch(offset: int, epoch: int = 0, count: int = 2, **options: Any) -> bytes:
    records = [(None, b"value", (), offset + n) for n in range(count)]
    data = bytearray(encode_batch(records, **options))
    place_batch(data, 0, offset, epoch)
    return bytes(data)


def sent(sequence: int) -> dict[str, Any]:
    return {"producer_id": 1, "producer_epoch": 0, "base_sequence": sequence}


def filled(count: int = 10) -> tuple[MemoryFiles, Log]:
    """Batches of two records, three a segment; a new epoch every four batches. All is flushed."""
    files = MemoryFiles()
    files.make_dirs("/d/t-0")
    files.sync_dir("/")
    files.sync_dir("/d")
    log = Log.open(files, "/d/t-0", CONFIG, clean=True, now_ms=0)
    for number in range(count):
        options: dict[str, Any] = {
            "producer_id": 1,
            "producer_epoch": 0,
            "base_sequence": 2 * number,
        }
        log.append_leaders(batch(2 * number, number // 4, **options), number // 4, 0)
    log.flush()
    return files, log


def test_a_cut_says_before_and_afterwards_what_it_takes() -> None:
    """Nobody could tell afterwards which acknowledged records a follower had cut (KAFKA-10751)."""
    _, log = filled()
    told = log.tail(7)
    assert (told.start_offset, told.end_offset, told.old_end_offset, told.offsets) == (0, 6, 20, 14)
    assert told.epochs == ((0, 6), (1, 8), (2, 16))
    assert told.size == 7 * len(batch(0))
    assert told.is_below(7)
    assert not told.is_below(6)
    size = log.size
    assert log.truncate_to(7, 0) == told
    assert (log.end_offset, log.recovery_point, size - log.size) == (6, 6, told.size)
    assert log.truncate_to(7, 0).offsets == 0


def test_epochs_are_cut_also_where_no_byte_is() -> None:
    """A broker led, wrote nothing, and followed the next leader: asked later, it told of an epoch
    that this leader never had, at an offset at which it has other records."""
    files, log = filled()
    log.start_epoch(7)
    assert log.end_offset_for_epoch(7) == (7, 20)
    assert log.truncate_to(20, 0).epochs == ((7, 20),)
    assert (log.latest_epoch, log.end_offset_for_epoch(7)) == (2, (-1, -1))
    log.append_leaders(batch(20, 2), 8, 0)  # of an older epoch than the one without records
    log.close()
    again = Log.open(files, "/d/t-0", CONFIG, clean=True, now_ms=0)
    assert (again.latest_epoch, again.end_offset_for_epoch(2)) == (2, (2, 22))


def test_where_nothing_would_remain_the_log_begins_anew() -> None:
    _, log = filled()
    log.delete_records(9)
    cut = log.truncate_to(5, 0)
    assert (cut.start_offset, cut.end_offset, cut.offsets) == (5, 5, 11)
    assert (log.start_offset, log.end_offset) == (5, 5)
    log.append_leaders(batch(5, 3), 3, 0)
    assert log.read(5, 1000).read() == batch(5, 3)


@pytest.mark.parametrize("offset", [0, 6, 7, 20, 1000])
def test_a_log_may_begin_anywhere_anew(offset: int) -> None:
    files, log = filled()
    cut = log.truncate_fully_and_start_at(offset, 0)
    assert (cut.offsets, cut.epochs) == (20, ((0, 0), (1, 8), (2, 16)))
    log.append_leaders(batch(offset), 9, 0)
    assert not len(log.producers)
    log.close()
    files.lose_unsynced()
    again = Log.open(files, "/d/t-0", CONFIG, clean=False, now_ms=0)
    assert (again.start_offset, again.end_offset) == (offset, offset + 2)
    assert len([name for name in files.listdir("/d/t-0") if name.endswith(".log")]) == 1


def test_the_recovery_point_is_lowered_on_the_disk_before_a_file_is_cut() -> None:
    """Were it higher after a crash, what was written behind the cut would be trusted unread."""
    files = MemoryFiles()
    manager = LogManager.open(files, ["/d"], CONFIG, broker_id=0, now_ms=0, cluster_id="c")
    log = manager.create("t", 0, uuid.UUID(int=1), 0)
    for number in range(10):
        log.append_leaders(batch(2 * number), 0, 0)
    log.flush()
    manager.checkpoint()
    before = {name: files.content(f"/d/t-0/{name}") for name in files.listdir("/d/t-0")}
    job = log.begin_cut(8, 0)
    files.fail_next_sync("recovery-point-offset-checkpoint")
    job.run()
    assert isinstance(job.error, OSError)
    assert before == {name: files.content(f"/d/t-0/{name}") for name in files.listdir("/d/t-0")}
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        log.finish_cut(job)

    files = MemoryFiles()
    manager = LogManager.open(files, ["/d"], CONFIG, broker_id=0, now_ms=0, cluster_id="c")
    log = manager.create("t", 0, uuid.UUID(int=1), 0)
    for number in range(10):
        log.append_leaders(batch(2 * number), 0, 0)
    log.flush()
    manager.checkpoint()
    log.truncate_to(8, 0)
    assert files.read("/d/recovery-point-offset-checkpoint") == b"0\n1\nt 0 8\n"


def test_a_log_that_is_cut_is_shut_until_that_is_done() -> None:
    """A reader would see the end of the old log, or nothing at all."""
    _, log = filled()
    job = log.begin_cut(8, 0)
    for use in (
        lambda: log.read(0, 100),
        lambda: log.offset_for_time(3),
        lambda: log.append_leaders(batch(20), 9, 0),
        lambda: log.begin_cut(4, 0),
        log.flush,
    ):
        with pytest.raises(KafkaError, match="REPLICA_NOT_AVAILABLE"):
            use()
    assert log.begin_flush() is None
    assert not log.flush_due(10**9)
    job.run()
    log.finish_cut(job)
    assert log.read(6, 1000).read() == batch(6, **sent(6))


def test_a_flush_that_began_before_the_cut_counts_for_nothing() -> None:
    """It would say that records are on the disk that were written behind the cut since then."""
    files, log = filled()
    log.append_leaders(batch(20, 2), 9, 0)
    job = log.begin_flush()
    assert job is not None
    log.truncate_to(8, 0)
    for number in range(4, 12):
        log.append_leaders(batch(2 * number, 3), 9, 0)
    job.run()
    log.finish_flush(job)
    assert log.recovery_point == 8
    assert log.flush_due(10**9)
    files.lose_unsynced()
    again = Log.open(files, "/d/t-0", CONFIG, clean=False, now_ms=0, recovery_point=8)
    assert again.end_offset == 8


def test_segments_that_retention_was_removing_are_gone_before_others_have_their_names() -> None:
    _, log = filled()
    job = log.begin_deletion(12)
    log.truncate_fully_and_start_at(6, 0)  # a segment had begun there
    log.append_leaders(batch(6, 3), 9, 0)
    job.run()
    log.finish_deletion(job)
    assert log.read(6, 1000).read() == batch(6, 3)


def test_a_snapshot_of_producers_is_kept_for_each_segment() -> None:
    """With the newest two only, a log that was cut further down was read from its start
    (KAFKA-5435)."""
    files, log = filled()
    names = [name for name in files.listdir("/d/t-0") if name.endswith(".snapshot")]
    bases = [each.base_offset for each in log.closed_segments][1:]
    assert len(bases) >= 2
    assert set(names) >= {f"{base:020d}.snapshot" for base in bases}
    log.truncate_to(bases[0] + 2, 0)
    (entry,) = log.producers
    assert entry.batches[-1].last_offset == bases[0] + 1
    assert [n for n in files.listdir("/d/t-0") if n.endswith(".snapshot")] == [
        f"{bases[0]:020d}.snapshot"
    ]
    log.truncate_to(0, 0)
    assert not len(log.producers)


# --- compactions


def dirty() -> tuple[MemoryFiles, Log]:
    files = MemoryFiles()
    log = open_log(files, COMPACTED)
    for number in range(30):
        put(log, (b"k%d" % (number % 4), b"%d" % number))
    closed(log)
    files.sync_dir("/")
    files.sync_dir("/d")
    return files, log


def cleaned(files: MemoryFiles, log: Log) -> list[Cleaned]:
    made = list(Compaction(files, task_of(log, dirt_of(log, -1, 0), 0, 1 << 20)))
    return [each for each in made if isinstance(each, Cleaned)]


@pytest.mark.parametrize("prepared", [False, True])
def test_a_compaction_puts_nothing_into_a_log_that_was_cut(prepared: bool) -> None:
    """The new segment has the records from before the cut, under the offsets of others."""
    files, log = dirty()
    cuts = log.cuts
    first = cleaned(files, log)[0]
    job = Swap(log, first, cuts)
    if prepared:
        job.prepare()
    log.truncate_to(10, 0)
    assert not [name for name in files.listdir(FOLDER) if name.endswith(".swap")]
    for number in range(30):
        put(log, (b"new%d" % (number % 3), b"%d" % number))
    held = contents(log)
    job = job if prepared else Swap(log, first, cuts)
    if not prepared:
        job.prepare()
    assert not job.exchange()
    job.withdraw()
    assert contents(log) == held
    log.close()
    assert contents(open_log(files, COMPACTED)) == held


@pytest.mark.parametrize("exchanged", [False, True])
def test_a_cut_in_the_middle_of_a_compaction_leaves_a_prefix_after_any_crash(
    exchanged: bool,
) -> None:
    number = 0
    while True:
        files, log = dirty()
        records = {n: (b"k%d" % (n % 4), b"%d" % n) for n in range(30)}
        swap = Swap(log, cleaned(files, log)[0])
        swap.prepare()
        if exchanged:
            assert swap.exchange()
        job = log.begin_cut(21, 0)
        files.fail_operation(number)
        job.run()
        files.fail_operation(10**9)
        files.lose_unsynced(removed_are_back=bool(number % 2))
        again = open_log(files, COMPACTED, clean=False)
        assert 21 <= again.end_offset <= 30 or job.error is None
        assert job.error is not None or again.end_offset == 21
        newest = {records[n][0]: records[n][1] for n in range(again.end_offset)}
        found = contents(again)
        assert {key: found.get(key) for key in newest} == newest or again.end_offset < 30
        assert set(found.items()) <= set(records.values())
        if job.error is None:
            break
        number += 1
    assert number > 5
