"""``replication-offset-checkpoint``: what a start reads there, and what is written."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from pathlib import Path

import pytest
from held_back import HeldBackFiles

from tallymark.broker.partitions.partition import Partition
from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig, LogManager, OsFiles
from tallymark.log.disk.checkpoint import read_checkpoint
from tallymark.log.disk.kept_offsets import HIGH_WATERMARKS, HighWatermarks
from tallymark.log.disk.partition_folder import LogKey
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.memory_files import MemoryFiles

CONFIG = LogConfig(retention_ms=-1)
PATH = f"/d/{HIGH_WATERMARKS}"
ORDERS = LogKey("orders", 0)
TOPIC_ID = uuid.UUID(int=1)


def open_manager(files: MemoryFiles, *dirs: str) -> LogManager:
    return LogManager.open(files, dirs or ("/d",), CONFIG, broker_id=0, now_ms=0, cluster_id="c")


def batch() -> bytearray:
    return bytearray(encode_batch([(None, b"v", (), n) for n in range(3)]))


def filled(manager: LogManager, partition: int = 0, batches: int = 4) -> Log:
    log = manager.create("orders", partition, TOPIC_ID, 0)
    for _ in range(batches):
        log.append(batch(), 0, 0)
    return log


def replicated(manager: LogManager) -> Partition:
    """The partition orders-0 as a broker opens it that has one of several replicas."""
    log = manager.get(*ORDERS)
    assert log is not None
    partition = Partition("orders", 0, TOPIC_ID, log, 0)
    partition.begin_replicated(manager.high_watermarks.of(*ORDERS))
    return partition


def stopped(files: MemoryFiles, high_watermark: int) -> None:
    """A broker wrote 12 records to orders-0 and stopped cleanly."""
    manager = open_manager(files)
    filled(manager)
    manager.high_watermarks.note(*ORDERS, high_watermark)
    manager.close()


def test_the_file_is_kafkas(tmp_path: Path) -> None:
    manager = LogManager.open(OsFiles(), [tmp_path], CONFIG, broker_id=0, now_ms=0, cluster_id="c")
    for partition in (1, 0):
        filled(manager, partition)
    manager.create("a b", 0, TOPIC_ID, 0)
    manager.high_watermarks.note("orders", 1, 4)
    manager.high_watermarks.note("orders", 0, 9)
    manager.high_watermarks.save()
    assert (tmp_path / HIGH_WATERMARKS).read_bytes() == b"0\n2\norders 0 9\norders 1 4\n"
    manager.close()


def test_a_high_watermark_begins_where_the_checkpoint_says() -> None:
    """A replica started with nothing committed: until it heard of its leader, consumers that had
    read up to there got OFFSET_OUT_OF_RANGE, or waited."""
    files = MemoryFiles()
    stopped(files, 9)
    manager = open_manager(files)
    partition = replicated(manager)
    assert partition.high_watermark == 9
    partition.commit(6)
    assert partition.high_watermark == 9
    partition.commit(12)
    assert partition.high_watermark == 12
    log = manager.get(*ORDERS)
    assert log is not None
    alone = Partition("orders", 0, TOPIC_ID, log, 0)
    assert alone.high_watermark == 12  # with one replica the file says nothing


@pytest.mark.parametrize(
    ("told", "found"), [(-7, 4), (0, 4), (3, 4), (5, 5), (12, 12), (10**18, 12)]
)
def test_it_is_within_the_log(told: int, found: int) -> None:
    files = MemoryFiles()
    stopped(files, 12)
    manager = open_manager(files)
    log = manager.get(*ORDERS)
    assert log is not None
    log.delete_records(4)
    manager.close()
    files.overwrite(PATH, b"0\n1\norders 0 %d\n" % told)
    assert replicated(open_manager(files)).high_watermark == found


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"1\n1\norders 0 9\n",
        b"0\n2\norders 0 9\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders 0 nine\n",
        b"0\n1\norders 0 " + b"9" * 5000 + b"\n",
        b"0\n" + b"9" * 5000 + b"\n",
        b"\xff\xfe\x00",
        b"\x00" * 4096,
    ],
)
def test_a_damaged_file_is_no_reason_not_to_start(
    text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A number of 5,000 digits ended the start with a traceback: Python refuses to read it."""
    files = MemoryFiles()
    stopped(files, 9)
    files.overwrite(PATH, text)
    manager = open_manager(files)
    assert f"{PATH} is damaged" in caplog.text
    assert replicated(manager).high_watermark == 0
    manager.high_watermarks.note(*ORDERS, 9)
    manager.high_watermarks.save()
    assert files.read(PATH) == b"0\n1\norders 0 9\n"


def test_a_missing_file_is_no_reason_not_to_start(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    stopped(files, 9)
    files.remove(PATH)
    with caplog.at_level("INFO"):
        manager = open_manager(files)
    assert f"/d has no {HIGH_WATERMARKS}" in caplog.text
    assert replicated(manager).high_watermark == 0


def test_entries_of_others_go() -> None:
    """The file is of another directory: partitions that were moved away, or never were here."""
    files = MemoryFiles()
    stopped(files, 9)
    files.overwrite(PATH, b"0\n4\norders 0 9\norders 1 5\nclicks 0 7\norders -1 3\n")
    manager = open_manager(files)
    assert manager.high_watermarks.of("clicks", 0) == 0
    manager.high_watermarks.save()
    assert files.read(PATH) == b"0\n1\norders 0 9\n"


def test_a_deleted_partition_leaves_the_file_and_its_successor_begins_at_0() -> None:
    """A topic was deleted and made again: the records of the new one would have been taken for
    committed up to the high watermark of the old one."""
    files = MemoryFiles()
    manager = open_manager(files)
    filled(manager)
    filled(manager, 1)
    manager.high_watermarks.note(*ORDERS, 9)
    manager.high_watermarks.note("orders", 1, 9)
    manager.high_watermarks.save()
    manager.delete(*ORDERS)
    manager.high_watermarks.note(*ORDERS, 8)  # from a broker that had not heard yet
    manager.high_watermarks.save()
    assert files.read(PATH) == b"0\n1\norders 1 9\n"
    filled(manager)
    assert manager.high_watermarks.of(*ORDERS) == 0

    manager.high_watermarks.note(*ORDERS, 9)
    manager.high_watermarks.save()
    files.rename("/d/orders-0", "/elsewhere")
    files.kill()
    again = open_manager(files)
    again.create(*ORDERS, uuid.UUID(int=2), 0)
    files.kill()
    assert open_manager(files).high_watermarks.of(*ORDERS) == 0


def test_a_log_that_cannot_be_opened_keeps_its_entry() -> None:
    files = MemoryFiles()
    stopped(files, 9)
    files.overwrite(PATH, b"0\n1\norders 0 9\n")
    marks = HighWatermarks(files, "/d")
    assert not marks.settle({ORDERS: None})
    assert marks.get(ORDERS) == 9


def test_after_a_power_failure_it_is_not_above_the_log_nor_rises_with_it() -> None:
    """The log lost its end, and was written further by another leader. With the next power failure
    the file, which nobody had lowered, told that these records were committed."""
    files = MemoryFiles()
    manager = open_manager(files)
    log = filled(manager, batches=2)
    log.flush()
    log.append(batch(), 0, 0)
    manager.high_watermarks.note(*ORDERS, 9)
    manager.high_watermarks.save()
    files.lose_unsynced()
    manager = open_manager(files)
    assert replicated(manager).high_watermark == 6
    log = filled(manager, batches=1)
    log.flush()
    files.lose_unsynced()
    again = replicated(open_manager(files))
    assert (again.log.end_offset, again.high_watermark) == (9, 6)


def test_a_clean_start_and_an_unmoved_high_watermark_write_nothing() -> None:
    files = MemoryFiles()
    stopped(files, 9)
    manager = open_manager(files)
    before = files.operations
    manager.high_watermarks.note(*ORDERS, 9)
    manager.high_watermarks.save()
    assert files.operations == before


def test_a_disk_that_fails_takes_its_own_high_watermarks_only() -> None:
    files = MemoryFiles()
    manager = open_manager(files, "/d", "/e")
    homes = {filled(manager, number).directory.split("/")[1]: number for number in range(2)}
    for number in range(2):
        manager.high_watermarks.note("orders", number, 9)
    files.fail_next_sync(PATH)
    manager.high_watermarks.save()
    assert list(manager.offline_dirs) == ["/d"]
    assert files.read(f"/e/{HIGH_WATERMARKS}") == b"0\n1\norders %d 9\n" % homes["e"]
    files.break_disk("/e")
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        manager.high_watermarks.lower("orders", homes["e"], 3)


def test_a_full_disk_at_a_start_keeps_no_log_away(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    stopped(files, 9)
    files.overwrite(PATH, b"0\n1\norders 0 99\n")
    files.fill(0)
    manager = open_manager(files)
    assert "tried again with the next checkpoint" in caplog.text
    assert replicated(manager).high_watermark == 12
    files.empty()
    manager.high_watermarks.save()
    assert files.read(PATH) == b"0\n1\norders 0 12\n"


@pytest.mark.parametrize("in_turn", [True, False])
def test_an_older_state_is_never_written_over_a_newer_one(in_turn: bool) -> None:
    """Two threads write the file, the checkpoint and a cut. The one that had read the high
    watermark before the cut was slower, and its older one stayed."""
    files = HeldBackFiles()
    files.make_dirs("/d")
    marks = HighWatermarks(files, "/d")
    if not in_turn:  # then the fault shows: this test can fail
        setattr(marks, "_saving", nullcontext())  # noqa: B010
    marks.put(ORDERS, 9)

    def lower() -> None:
        marks.put(ORDERS, 3)
        marks.save()

    files.overtake(PATH, marks.save, lower)
    assert read_checkpoint(files, PATH, 3) == [("orders", "0", "3" if in_turn else "9")]
