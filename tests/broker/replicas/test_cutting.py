"""The one place that cuts a replica's log: who is told, in which order, and what a crash leaves."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
from replica_broker import CONFIG, ORDERS, ReplicaBroker, batch

from tallymark.broker.maintenance.cleaner import Cleaner
from tallymark.broker.maintenance.cleaner_process import Step, ThreadWorker
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.cutting import ReplicaCutter
from tallymark.errors import KafkaError
from tallymark.log.compaction.checkpoint import read_clean_points, write_clean_points
from tallymark.log.compaction.task import CompactionTask
from tallymark.log.cutting import Cut
from tallymark.log.disk.checkpoint import read_checkpoint
from tallymark.log.disk.kept_offsets import HIGH_WATERMARKS
from tallymark.protocol.records.batch import Record, split_batches
from tallymark.testing.memory_files import MemoryFiles

EPOCHS = (0, 0, 1, 1, 1, 4, 4, 4, 4, 5)
"""Of ten batches of two records."""
BATCHES = [batch(2 * number, epoch) for number, epoch in enumerate(EPOCHS)]


def filled(*, committed: int = 12, cleaned: int = 10) -> ReplicaBroker:
    """All of it flushed, up to ``committed`` committed, up to ``cleaned`` compacted before."""
    files = MemoryFiles()
    files.make_dirs("/d")
    files.sync_dir("/")
    broker = ReplicaBroker(files)
    broker.follow(*EPOCHS)
    broker.log.flush()
    broker.manager.checkpoint()
    broker.commit(committed)
    write_clean_points(files, "/d", {ORDERS: cleaned})
    return broker


def cut(broker: ReplicaBroker, offset: int, *, fully: bool = False) -> Cut:
    return broker.run(lambda cutter, _: cutter.cut(broker.partition, offset, fully=fully))


def noted(files: MemoryFiles) -> int:
    ((_, _, offset),) = read_checkpoint(files, f"/d/{HIGH_WATERMARKS}", 3)
    return int(offset)


def bytes_of(broker: ReplicaBroker) -> bytes:
    found, log = b"", broker.log
    at = log.start_offset
    while at < log.end_offset:
        piece = log.read(at, 10**6)
        for each in split_batches(piece.read()):
            each.check_crc()
        found += piece.read()
        at = piece.next_offset
    return found


# --- who is told


def test_a_cut_is_durable_and_all_know_of_it() -> None:
    broker = filled()
    heard: list[tuple[int, int, int]] = []

    def hears(partition: Partition, done: Cut) -> None:
        heard.append((done.end_offset, partition.log.end_offset, partition.high_watermark))

    done = broker.run(lambda cutter, _: cutter.cut(broker.partition, 7), (hears,))
    assert (done.end_offset, done.old_end_offset, done.epochs) == (
        6,
        20,
        ((1, 6), (4, 10), (5, 18)),
    )
    assert heard == [(6, 6, 6)]
    assert noted(broker.files) == 6
    assert read_clean_points(broker.files, "/d") == {ORDERS: 6}
    broker.follow(7, 7)
    broker.files.lose_unsynced()
    again = ReplicaBroker(broker.files)
    assert (bytes_of(again), again.partition.high_watermark) == (b"".join(BATCHES[:3]), 6)


def test_above_the_high_watermark_nothing_of_it_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The usual cut: what goes was never committed."""
    broker = filled()
    assert cut(broker, 14).offsets == 6
    assert (broker.partition.high_watermark, noted(broker.files)) == (12, 12)
    assert read_clean_points(broker.files, "/d") == {ORDERS: 10}
    assert "committed records" not in caplog.text


def test_below_the_high_watermark_it_is_said_what_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """KAFKA-10751: acknowledged records were gone, and nobody could tell afterwards which, nor of
    which epochs."""
    cut(filled(), 8)
    assert "committed records are cut partition=orders-0 high_watermark=12" in caplog.text
    assert "epochs=((1, 8), (4, 10), (5, 18))" in caplog.text


@pytest.mark.parametrize("offset", [0, 5, 12, 20, 50])
def test_a_log_that_begins_anew_is_committed_up_to_there(offset: int) -> None:
    broker = filled()
    cut(broker, offset, fully=True)
    assert (broker.log.start_offset, broker.log.end_offset) == (offset, offset)
    assert broker.partition.high_watermark == offset
    assert noted(broker.files) <= offset


def test_a_hook_that_fails_keeps_no_other_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    def fails(_: Partition, done: Cut) -> None:
        raise ValueError("a bug")

    broker = filled()
    hooks = (fails, lambda _, done: heard.append(done.end_offset))
    broker.run(lambda cutter, _: cutter.cut(broker.partition, 8), hooks)
    assert heard == [8]
    assert "was not taken note of" in caplog.text


def test_a_fetch_that_is_parked_hears_of_a_cut_below_it() -> None:
    broker = filled()
    woken: list[bool] = []

    class Parked:
        def set(self) -> None:
            woken.append(True)

    broker.partition.watch(Parked())
    cut(broker, 8)
    assert woken


# --- one after the other


def test_two_cuts_of_a_log_come_one_after_the_other() -> None:
    broker = filled()

    async def twice(cutter: ReplicaCutter, _: Cleaner) -> list[int]:
        cuts = [cutter.cut(broker.partition, offset) for offset in (16, 4, 12)]
        return [each.end_offset for each in await asyncio.gather(*cuts)]

    assert broker.run(twice) == [16, 4, 4]


def test_a_caller_that_is_cancelled_does_not_leave_the_log_shut() -> None:
    """A follower's fetcher was stopped while its log was being cut: no thread would ever have
    opened the log again."""
    broker = filled()

    async def cancelled(cutter: ReplicaCutter, _: Cleaner) -> None:
        task = asyncio.create_task(cutter.cut(broker.partition, 8))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await cutter.settled([ORDERS])

    broker.run(cancelled)
    assert broker.log.end_offset == 8
    broker.follow(9)


# --- the cleaner


class HeldWorker(ThreadWorker):
    """Its first step waits for ``go_on``."""

    def __init__(self, files: MemoryFiles) -> None:
        super().__init__(files)
        self.began, self.go_on = threading.Event(), threading.Event()
        self.calls: list[str] = []

    def begin(self, task: CompactionTask) -> Step:
        self.calls.append("begin")
        self.began.set()
        self.go_on.wait(30)
        return super().begin(task)

    def next(self, directory: str) -> Step:
        self.calls.append("next")
        return super().next(directory)

    def drop(self, directory: str) -> None:
        self.calls.append("drop")
        super().drop(directory)


def test_a_compaction_has_stopped_before_the_log_is_cut() -> None:
    """It would read files while they change, and count the log as damaged for good."""
    files = MemoryFiles()
    broker = ReplicaBroker(files, replace(CONFIG, compact=True, min_cleanable_dirty_ratio=0.0))
    for number in range(12):
        broker.follow(0, key=b"%d" % (number % 2))
    broker.log.flush()
    broker.partition.commit(24)
    worker = HeldWorker(files)

    async def story(cutter: ReplicaCutter, cleaner: Cleaner) -> None:
        await asyncio.to_thread(worker.began.wait, 30)
        cutting = asyncio.create_task(cutter.cut(broker.partition, 15))
        for _ in range(50):
            await asyncio.sleep(0)
        assert broker.log.cuts == 0  # its turn has not ended
        worker.go_on.set()
        assert (await cutting).end_offset == 14
        first = list(worker.calls)
        while worker.calls.count("begin") < 2:  # it is compacted again
            await asyncio.sleep(0.005)
        assert first.count("begin") == 1

    broker.run(story, worker=worker)
    assert broker.log.end_offset == 14
    assert {record.key for record in records(broker)} == {b"0", b"1"}


def records(broker: ReplicaBroker) -> list[Record]:
    return [record for each in split_batches(bytes_of(broker)) for record in each.records()]


# --- crashes


CASES = [(0, False), (7, False), (18, False), (9, True), (30, True)]


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["killed", "power", "power, removed files are back"])
@pytest.mark.parametrize(("offset", "fully"), CASES)
def test_whatever_fails_at_whatever_moment_leaves_a_prefix(
    offset: int, fully: bool, ends: str
) -> None:
    """The disk fails at the n-th change, whichever that is, and the broker dies there: the log
    opens with what is below the cut, and perhaps with more of the old records; the high watermark
    is within it and not above what was committed, also after it has grown again."""
    number = 0
    while crash_in_a_cut(offset, fully, ends, number):
        number += 1
    assert number > 3


def crash_in_a_cut(offset: int, fully: bool, ends: str, number: int) -> bool:
    """Whether the cut failed."""
    broker, failed = filled(), False
    files = broker.files
    files.fail_operation(number)
    try:
        cut(broker, offset, fully=fully)
    except KafkaError:
        failed = True
    failed = failed or files.failed is not None
    assert broker.partition.high_watermark <= max(broker.log.end_offset, broker.log.start_offset)
    files.fail_operation(10**9)
    crash(files, ends)
    again = ReplicaBroker(files)
    check(again, offset, fully, failed)

    end, committed = again.log.end_offset, again.partition.high_watermark
    again.follow(9)
    again.log.flush()
    crash(files, ends)
    grown = ReplicaBroker(files)
    assert grown.log.end_offset == end + 2
    assert grown.partition.high_watermark == committed
    assert grown.log.end_offset_for_epoch(9) == (9, end + 2)
    return failed


def crash(files: MemoryFiles, ends: str) -> None:
    if ends == "killed":
        files.kill()
    else:
        files.lose_unsynced(removed_are_back="back" in ends)


def check(again: ReplicaBroker, offset: int, fully: bool, failed: bool) -> None:
    log, held = again.log, bytes_of(again)
    assert b"".join(BATCHES).startswith(held)
    assert again.partition.high_watermark <= max(12, log.start_offset)
    assert log.start_offset <= again.partition.high_watermark <= log.end_offset
    below = [each for each in range(0, 21, 2) if each <= offset][-1]
    if fully:
        assert failed or log.start_offset == log.end_offset == offset
    else:
        assert log.end_offset >= below
        assert failed or log.end_offset == below
        assert failed or read_clean_points(again.files, "/d")[ORDERS] <= max(below, 0)
    last = log.end_offset // 2 - 1
    if held and not fully:
        assert log.latest_epoch == EPOCHS[last]
