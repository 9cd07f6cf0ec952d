"""How far consumers may read: to the end of the log with one replica, to what is flushed with
``flush.before.expose`` (the paper's rule), to what the replicas have in common with several."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

import pytest
from exposure import exposed

from tallymark.broker.partitions.partition import Partition
from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig
from tallymark.log.compaction.job import dirt_of
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.topic_partition import LATEST
from tallymark.testing.memory_files import MemoryFiles

FOLDER = "/d/orders-0"
PLAIN = LogConfig(segment_bytes=500, index_interval_bytes=100)
CONFIG = replace(PLAIN, flush_before_expose=True)


def batch(first: int, count: int = 3) -> bytearray:
    return bytearray(encode_batch([(None, b"value", (), first + n) for n in range(count)]))


def new_partition(config: LogConfig = CONFIG) -> tuple[MemoryFiles, Partition]:
    files = MemoryFiles()
    files.make_dirs(FOLDER)
    files.sync_dir("/")
    files.sync_dir("/d")
    return files, opened(files, config)


def opened(files: MemoryFiles, config: LogConfig = CONFIG) -> Partition:
    log = Log.open(files, FOLDER, config, clean=False, now_ms=0)
    log.start_epoch(log.next_epoch)
    return Partition("orders", 0, uuid.UUID(int=1), log, log.latest_epoch)


def filled(count: int = 10) -> Partition:
    """A partition with ``count`` batches of three records, all of them flushed."""
    _, partition = new_partition(replace(PLAIN, segment_bytes=250))
    for number in range(count):
        partition.append(batch(3 * number), 0)
    partition.log.flush()
    return partition


def seen(partition: Partition, at: int = 0, max_bytes: int = 10**6) -> list[int]:
    offsets: list[int] = []
    while (piece := partition.log.read(at, max_bytes, partition.high_watermark)).data:
        for each in split_batches(piece.read()):
            offsets += [record.offset for record in each.records()]
        at = piece.next_offset
    return offsets


class Counted:
    """A fetch that is parked."""

    def __init__(self) -> None:
        self.woken = 0

    def set(self) -> None:
        self.woken += 1


# --- what is flushed


@pytest.mark.parametrize("max_bytes", [0, 150, 400, 10**6])
def test_readers_see_what_is_flushed(max_bytes: int) -> None:
    _, partition = new_partition()
    log = partition.log
    for number in range(20):
        partition.append(batch(3 * number), 0)
        if number == 12:
            assert seen(partition, 0, max_bytes) == []
            log.flush()
    assert (partition.high_watermark, partition.last_stable_offset, log.end_offset) == (39, 39, 60)
    assert seen(partition, 0, max_bytes) == list(range(39))
    assert log.read(50, 100, 39).data == b""  # not an error: it will be there
    log.flush()
    assert seen(partition, 30, max_bytes) == list(range(30, 60))


def test_a_flush_under_way_shows_nothing_yet() -> None:
    _, partition = new_partition()
    partition.append(batch(0), 0)
    job = partition.log.begin_flush()
    assert job is not None
    partition.append(batch(3), 0)
    job.run()
    assert partition.high_watermark == 0
    partition.log.finish_flush(job)
    assert seen(partition) == [0, 1, 2]


def test_what_was_seen_survives_a_power_failure() -> None:
    files, partition = new_partition()
    for number in range(10):
        partition.append(batch(3 * number), 0)
        if number % 4 == 3:
            partition.log.flush()
    shown = seen(partition)
    files.lose_unsynced()
    assert seen(opened(files))[: len(shown)] == shown


def test_a_new_leader_shows_what_was_shown_before() -> None:
    """After a kill the log knows its recovery point only as of the last checkpoint. Were it shown
    up to there, readers would be beyond the end until the next flush."""
    files, partition = new_partition()
    partition.append(batch(0), 0)
    partition.log.flush()
    files.kill()
    assert opened(files).high_watermark == 3
    files.lose_unsynced()
    assert Log.open(files, FOLDER, CONFIG, clean=False, now_ms=0).end_offset == 3


def test_switched_on_while_it_runs_it_hides_nothing() -> None:
    _, partition = new_partition(PLAIN)
    partition.append(batch(0), 0)
    partition.configure(CONFIG)
    assert seen(partition) == [0, 1, 2]
    partition.append(batch(3), 0)
    assert seen(partition) == [0, 1, 2]
    partition.configure(PLAIN)
    assert seen(partition) == list(range(6))


def test_a_flush_that_was_given_up_shows_nothing() -> None:
    """The broker stops while a flush waits for its thread: the job counted as done, and the marker
    of a clean stop was written over records that no sync had seen."""
    files, partition = new_partition()
    partition.append(batch(0), 0)
    log = partition.log
    job = log.begin_flush()
    assert job is not None
    log.finish_flush(job)  # without job.run()
    assert partition.high_watermark == 0
    assert log.flush_due(10**6)
    log.close()
    assert not files.unsynced(f"{FOLDER}/{0:020d}.log")


# --- what the replicas have in common


def test_one_replica_commits_with_its_append() -> None:
    _, partition = new_partition(PLAIN)
    partition.append(batch(0), 0)
    assert partition.high_watermark == partition.log.end_offset == 3
    assert partition.when_exposed(2, lambda _: None, 0) is None


def test_nothing_is_read_or_found_beyond_what_is_committed() -> None:
    partition = filled()
    partition.commit(12)
    log, until = partition.log, partition.high_watermark
    assert seen(partition) == list(range(12))
    assert log.read(12, 10**6, until).data == b""
    assert log.read(30, 10**6, until).data == b""  # between high watermark and end: wait
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        log.read(31, 10**6, until)
    assert log.offset_for_time(11, until) == (11, 11)
    assert log.offset_for_time(12, until) is None
    assert log.max_timestamp(until) == (11, 11)
    assert log.offsets_before(LATEST, 1, until) == [12]
    assert (partition.epoch_at(12), partition.epoch_at(13)) == (partition.leader_epoch, -1)


def test_a_high_watermark_never_falls_in_an_epoch_nor_passes_the_end() -> None:
    """It was learnt in another epoch, or from an answer that came late."""
    partition = filled()
    watching = Counted()
    partition.watch(watching)
    partition.commit(12)
    partition.commit(6)
    partition.commit(12)
    assert (partition.high_watermark, watching.woken) == (12, 1)
    partition.commit(99)
    assert partition.high_watermark == 30


def test_a_producer_that_waits_for_all_replicas_is_answered_by_their_commit() -> None:
    """It must not have the log flushed at each append: other replicas are waited for, no disk."""
    asyncio.run(_wait_for_all())


async def _wait_for_all() -> None:
    _, partition = new_partition(PLAIN)
    flushes: list[Partition] = []
    partition = Partition("t", 0, partition.topic_id, partition.log, 0, flushes.append)
    partition.commit(0)
    partition.append(batch(0), 0)
    waiting = exposed(partition, 2)
    assert waiting is not None
    partition.flushed()
    await asyncio.sleep(0)
    assert not waiting.done()
    partition.commit(3)
    await waiting
    assert flushes == []


def test_records_that_are_not_committed_are_not_deleted_on_request() -> None:
    partition = filled()
    partition.commit(12)
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        asyncio.run(partition.delete_records(13))
    assert asyncio.run(partition.delete_records(-1)) == 12


def test_only_what_is_seen_can_be_deleted() -> None:
    _, partition = new_partition()
    partition.append(batch(0), 0)
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        partition.log.delete_records(1, partition.high_watermark)


def test_retention_and_compaction_stop_at_the_high_watermark() -> None:
    """They looked at the flushed end alone: a segment behind the high watermark went on one replica
    and stayed on the others, though a new leader might have cut it."""
    partition = filled()
    log = partition.log
    bases = [each.base_offset for each in log.closed_segments]
    assert len(bases) > 2
    log.config = replace(PLAIN, retention_ms=1, compact=True)
    partition.commit(bases[2] + 1)
    assert dirt_of(log, -1, 0, partition.last_stable_offset).end == bases[2]
    assert log.apply_retention(10**6, partition.high_watermark) == 2
    assert log.start_offset == bases[2]
