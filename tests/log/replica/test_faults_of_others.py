"""Faults that others found in replicated logs, each by its story: writes of the leader epochs that
overtake each other, checkpoints and snapshots beyond a log that a crash has shortened, and answers
about an epoch that nobody knows."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from typing import Any

import pytest
from held_back import HeldBackFiles

from tallymark.broker.partitions.partition import Partition
from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig, LogManager
from tallymark.log.disk.checkpoint import read_checkpoint
from tallymark.log.leader_epochs import FILE_NAME, LeaderEpochs
from tallymark.protocol.records.batch import encode_batch, place_batch
from tallymark.replication.truncation import EpochEnd, cut_for
from tallymark.testing.memory_files import MemoryFiles

CONFIG = LogConfig(segment_bytes=250, index_interval_bytes=100, retention_ms=-1)
FOLDER = "/d/t-0"
EPOCHS = f"{FOLDER}/{FILE_NAME}"
TOPIC_ID = uuid.UUID(int=1)


def batch(offset: int, epoch: int = 0, **options: Any) -> bytes:
    """Two records as a leader has them."""
    records = [(None, b"value", (), offset + n) for n in range(2)]
    data = bytearray(encode_batch(records, **options))
    place_batch(data, 0, offset, epoch)
    return bytes(data)


def sent(sequence: int) -> dict[str, Any]:
    return {"producer_id": 1, "producer_epoch": 0, "base_sequence": sequence}


def opened(files: MemoryFiles, *, clean: bool = True, recovery_point: int = 0) -> Log:
    files.make_dirs(FOLDER)
    files.sync_dir("/")
    files.sync_dir("/d")
    return Log.open(files, FOLDER, CONFIG, clean=clean, now_ms=0, recovery_point=recovery_point)


def followed(log: Log, *epochs: int) -> None:
    """Append two records of a leader in each of these epochs."""
    for epoch in epochs:
        log.append_leaders(batch(log.end_offset, epoch), epoch, 0)


def on_disk(files: MemoryFiles) -> list[tuple[int, int]]:
    return [(int(epoch), int(start)) for epoch, start in read_checkpoint(files, EPOCHS, 2)]


# --- KAFKA-16541


@pytest.mark.parametrize("in_turn", [True, False])
def test_a_slow_write_of_the_epochs_does_not_undo_a_truncation(in_turn: bool) -> None:
    """KAFKA-16541: the epoch file was written by another thread, without the lock. A truncation
    wrote the shorter list, and then the write that had begun before it put the longer one back.
    After a crash the leader told of epochs at offsets at which it had other records."""
    files = HeldBackFiles()
    files.make_dirs(FOLDER)
    epochs = LeaderEpochs(files, FOLDER)
    if not in_turn:  # then the fault shows: this test can fail
        setattr(epochs, "_saving", nullcontext())  # noqa: B010
    for epoch, start in ((0, 0), (3, 10), (4, 20)):
        epochs.note(epoch, start)
    files.overtake(EPOCHS, epochs.save, lambda: epochs.cut(10))
    assert epochs.entries == ((0, 0),)
    assert on_disk(files) == ([(0, 0)] if in_turn else [(0, 0), (3, 10), (4, 20)])


def test_a_flush_that_a_truncation_overtakes_leaves_the_epochs_of_the_cut_log() -> None:
    """The same with the whole log: the flush saves the epochs of what it has flushed, and the
    follower is told to cut meanwhile."""
    files = HeldBackFiles()
    log = opened(files)
    followed(log, 0, 0, 3, 3, 4)
    flush = log.begin_flush()
    assert flush is not None
    files.overtake(EPOCHS, flush.run, lambda: void(log.truncate_to(4, 0)))
    log.finish_flush(flush)
    assert (on_disk(files), log.end_offset, log.recovery_point) == ([(0, 0)], 4, 0)
    followed(log, 5)
    log.flush()
    files.lose_unsynced()
    again = opened(files, clean=False, recovery_point=6)
    assert [again.end_offset_for_epoch(epoch) for epoch in (0, 3, 5)] == [(0, 4), (0, 4), (5, 6)]


def test_a_truncation_that_a_new_epoch_overtakes_leaves_both() -> None:
    """The epoch of a new leader is noted while the cut before it still writes the file."""
    files = HeldBackFiles()
    files.make_dirs(FOLDER)
    epochs = LeaderEpochs(files, FOLDER)
    for epoch, start in ((0, 0), (3, 10)):
        epochs.assign(epoch, start)
    files.overtake(EPOCHS, lambda: epochs.cut(10), lambda: epochs.assign(5, 10))
    assert on_disk(files) == [(0, 0), (5, 10)]


def void(_: object) -> None:
    """For a result that is not looked at."""


# --- KAFKA-15608


def test_nothing_beyond_a_log_that_a_crash_has_shortened_is_believed() -> None:
    """KAFKA-15608: after an unclean stop the checkpointed high watermark and the snapshots of
    producers were beyond the end of what was left of the log. The log was opened with them: records
    that came to stand there later were taken for committed, and the retry of a lost batch for a
    duplicate, so it was acknowledged and written nowhere."""
    files = MemoryFiles()
    manager = LogManager.open(files, ["/d"], CONFIG, broker_id=0, now_ms=0, cluster_id="c")
    log = manager.create("t", 0, TOPIC_ID, 0)
    for number in range(10):
        log.append(bytearray(batch(0, **sent(2 * number))), 0, number // 4)
    manager.high_watermarks.note("t", 0, 18)
    manager.high_watermarks.save()
    log.start_epoch(7)  # led, and wrote nothing
    above = [name for name in files.listdir(FOLDER) if name.endswith(".snapshot")]
    assert int(max(above)[:20]) > 6
    files.kill()
    bases = sorted(name for name in files.listdir(FOLDER) if name.endswith(".log"))
    assert int(bases[1][:20]) <= 6
    for name in bases[2:]:
        files.remove(f"{FOLDER}/{name}")
    second = files.content(f"{FOLDER}/{bases[1]}")
    files.overwrite(f"{FOLDER}/{bases[1]}", second[:-1])

    manager = LogManager.open(files, ["/d"], CONFIG, broker_id=0, now_ms=0, cluster_id="c")
    found = manager.get("t", 0)
    assert found is not None
    end = found.end_offset
    assert 0 < end < 18
    partition = Partition("t", 0, TOPIC_ID, found, 8)
    partition.begin_replicated(manager.high_watermarks.of("t", 0))
    assert partition.high_watermark == end
    (producer,) = found.producers
    assert producer.batches[-1].last_offset == end - 1
    left = [name for name in files.listdir(FOLDER) if name.endswith(".snapshot")]
    assert all(int(name[:20]) <= end for name in left)
    assert found.end_offset_for_epoch(found.latest_epoch) == (found.latest_epoch, end)
    assert found.next_epoch == 8  # it was used, so it is not used again

    again = found.append(bytearray(batch(0, **sent(end))), 0, 8)
    assert (again.first_offset, again.duplicate) == (end, False)
    assert partition.high_watermark == end
    with pytest.raises(KafkaError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        found.append(bytearray(batch(0, **sent(18))), 0, 8)


# --- KAFKA-6857


@pytest.mark.parametrize("epoch", [-1, 4, 2**31 - 1])
def test_a_leader_says_of_an_epoch_that_it_does_not_know_that_it_does_not(epoch: int) -> None:
    """KAFKA-6857: it answered with the end of its log, so followers kept records there that it had
    never had."""
    log = opened(MemoryFiles())
    assert log.end_offset_for_epoch(epoch) == (-1, -1)
    followed(log, 0, 3)
    assert log.end_offset_for_epoch(epoch) == (-1, -1)


@pytest.mark.parametrize(("high_watermark", "left"), [(6, 6), (5, 4), (0, 0), (10, 10), (99, 10)])
def test_told_that_its_epoch_is_unknown_a_follower_keeps_what_is_committed(
    high_watermark: int, left: int
) -> None:
    """The leader's disk had lost its epochs: nothing tells where the logs part, only that both have
    what is below the high watermark."""
    leader, files = opened(MemoryFiles()), MemoryFiles()
    followed(leader, 0, 0, 0)
    follower = opened(files)
    followed(follower, 0, 0, 0, 5, 5)
    follower.flush()
    told = EpochEnd(*leader.end_offset_for_epoch(5))
    cut = cut_for(told, on_disk(files), follower.end_offset, high_watermark)
    assert cut == (min(high_watermark, 10), True)
    follower.truncate_to(cut.to, 0)
    assert follower.end_offset == left  # a whole batch goes
    if left:
        ours, theirs = follower.read(0, 10**6).read(), leader.read(0, 10**6).read()
        size = min(len(ours), len(theirs))
        assert ours[:size] == theirs[:size] != b""
    files.lose_unsynced()
    assert opened(files, clean=False, recovery_point=left).end_offset == left
