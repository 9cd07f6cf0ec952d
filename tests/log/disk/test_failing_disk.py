"""Every single thing that is asked of the disk fails once: creating, writing, cutting, syncing,
renaming, removing. Then the machine dies as well.

What must hold: what a flush had promised is there after the next start; what was said to be deleted
is not; and everything else that is missing had been named as being at risk.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pytest

from tallymark.errors import CODES, KafkaError, UserError
from tallymark.log import Log, LogConfig, LogManager
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.memory_files import MemoryFiles

CONFIG: Final = LogConfig(segment_bytes=300, index_interval_bytes=80, retention_ms=-1)
TOPICS: Final = {"a": uuid.UUID(int=1), "b": uuid.UUID(int=2), "gone": uuid.UUID(int=3)}


@dataclass
class Promises:
    """What the log has said to others."""

    acked: dict[str, int] = field(default_factory=dict[str, int])
    flushed: dict[str, int] = field(default_factory=dict[str, int])
    starts: dict[str, int] = field(default_factory=dict[str, int])
    deleted: bool = False
    at_risk: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    offline: bool = False


def open_manager(files: MemoryFiles, *dirs: str) -> LogManager:
    return LogManager.open(files, dirs or ("/d",), CONFIG, broker_id=0, now_ms=0, cluster_id="c")


def append(promises: Promises, topic: str, log: Log, count: int) -> None:
    for _ in range(count):
        number = promises.acked.get(topic, 0)
        records = [(None, b"%d" % number, (), number)]
        data = encode_batch(records, producer_id=9, producer_epoch=0, base_sequence=number)
        info = log.append(bytearray(data), 0, log.latest_epoch)
        assert info.first_offset == number
        promises.acked[topic] = number + 1


def flush(promises: Promises, topic: str, log: Log) -> None:
    log.flush()
    promises.flushed[topic] = log.end_offset


def work(manager: LogManager, promises: Promises) -> None:
    """Some of everything that a log does."""
    logs = {name: manager.create(name, 0, topic_id, 0) for name, topic_id in TOPICS.items()}
    for name, log in logs.items():
        log.start_epoch(0)
        append(promises, name, log, 4)
    flush(promises, "a", logs["a"])
    manager.checkpoint()
    append(promises, "a", logs["a"], 3)
    logs["b"].start_epoch(1)
    append(promises, "b", logs["b"], 3)
    flush(promises, "b", logs["b"])
    promises.starts["b"] = logs["b"].delete_records(5)
    manager.delete("gone", 0)
    promises.deleted = True
    append(promises, "a", logs["a"], 2)
    logs["a"].config = LogConfig(segment_bytes=300, retention_bytes=300)
    flush(promises, "a", logs["a"])
    logs["a"].apply_retention(0)
    append(promises, "a", logs["a"], 3)
    manager.checkpoint()


def live(files: MemoryFiles, promises: Promises) -> None:
    """One life of a broker: until its end or the first failure."""
    manager: LogManager | None = None
    refused = 0
    try:
        manager = open_manager(files)
        work(manager, promises)
        manager.close()
        if not manager.offline_dirs and not manager.at_risk("/d"):  # it was full for a moment
            promises.flushed = dict(promises.acked)
    except KafkaError as error:
        refused = error.code
    except UserError as error:
        refused = CODES["KAFKA_STORAGE_ERROR"] if "directory can be used" in error.what else -1
    assert refused in (0, CODES["KAFKA_STORAGE_ERROR"])
    if manager is not None:
        promises.offline = "/d" in manager.offline_dirs
        risks = manager.at_risk("/d")
        promises.at_risk = {name.removesuffix("-0"): (low, high) for name, low, high in risks}


def check(files: MemoryFiles, promises: Promises) -> None:
    """The next start, on a disk that works."""
    manager = open_manager(files)
    for topic in ("a", "b"):
        log = manager.get(topic, 0)
        acked, flushed = promises.acked.get(topic, 0), promises.flushed.get(topic, 0)
        if log is None:
            assert flushed == 0
            continue
        assert flushed <= log.end_offset <= max(acked, promises.starts.get(topic, 0)) + 1
        assert log.start_offset >= promises.starts.get(topic, 0)
        for offset in range(log.end_offset, acked):
            low, high = promises.at_risk[topic]
            assert low <= offset < high
        assert offsets(log) == list(range(log.start_offset, log.end_offset))
        log.start_epoch(log.next_epoch)
        log.append(encode_batch([(None, b"", (), 0)]), 0, log.latest_epoch)
    if promises.deleted:
        assert manager.get("gone", 0) is None
    manager.close()


def offsets(log: Log) -> list[int]:
    found, at = list[int](), log.start_offset
    while at < log.end_offset:
        piece = log.read(at, 10**6)
        for batch in split_batches(piece.read()):
            batch.check_crc()
            for record in batch.records():
                assert record.value in (b"%d" % record.offset, b"")
                found.append(record.offset)
        at = piece.next_offset
    return [offset for offset in found if offset >= log.start_offset]


def new_disk() -> MemoryFiles:
    files = MemoryFiles()
    files.make_dirs("/d")
    files.sync_dir("/")
    return files


def operations() -> int:
    files = new_disk()
    before = files.operations
    live(files, Promises())
    return files.operations - before


CRASHES: Final[dict[str, Callable[[MemoryFiles], None]]] = {
    "kill": MemoryFiles.kill,
    "power": MemoryFiles.lose_unsynced,
    "power, half survives": lambda files: files.lose_unsynced(
        lambda path, size: size // 2, removed_are_back=False
    ),
}


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.slow
def test_whatever_fails_nothing_promised_is_lost(crash: str) -> None:
    total = operations()
    assert total > 150
    kinds: set[str] = set()
    for number in range(total):
        files, promises = new_disk(), Promises()
        files.fail_operation(number, error=(5, 28)[number % 2], written=0.5)
        live(files, promises)
        assert files.failed is not None
        kinds.add(files.failed.split()[0])
        CRASHES[crash](files)
        check(files, promises)
    assert kinds == {"create", "append", "truncate", "sync", "rename", "remove", "make_dirs",
                     "remove_dir"}  # fmt: skip


def test_a_failure_is_never_taken_for_a_success() -> None:
    """Whatever fails after the start, the disk is offline and everybody is told."""
    total = operations()
    quiet: list[str] = []
    for number in range(total):
        files, promises = new_disk(), Promises()
        files.fail_operation(number)
        live(files, promises)
        if not promises.offline and promises.deleted and files.failed is not None:
            quiet.append(files.failed)
    assert quiet == []


def test_the_other_disks_go_on() -> None:
    files = MemoryFiles()
    manager = open_manager(files, "/d1", "/d2")
    logs = [manager.create("t", number, TOPICS["a"], 0) for number in range(4)]
    bad, good = (
        next(log for log in logs if log.directory.startswith(folder)) for folder in ("/d1", "/d2")
    )
    promises = Promises()
    append(promises, "bad", bad, 3)
    append(promises, "good", good, 3)
    files.break_disk("/d1")
    with pytest.raises(KafkaError):
        bad.flush()
    assert list(manager.offline_dirs) == ["/d1"]
    assert manager.at_risk("/d1") == [(bad.name, 0, 3)]
    assert manager.create("new", 0, TOPICS["b"], 0).directory.startswith("/d2")
    flush(promises, "good", good)
    manager.checkpoint()
    broken, sound = manager.dirs()
    assert (broken.path, broken.total_bytes, len(broken.logs)) == ("/d1", -1, 2)
    assert broken.error is not None
    assert (sound.path, sound.error, len(sound.logs)) == ("/d2", None, 3)
    assert sum(info.size for info in sound.logs) == good.size
    manager.close()


def test_a_damaged_log_does_not_take_its_neighbours_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its folder was the reason not to open the whole directory."""
    files = new_disk()
    manager = open_manager(files)
    for number in range(3):
        log = manager.create("t", number, TOPICS["a"], 0)
        append(Promises(), "t", log, 8)
        assert log.segment_count == 2
    manager.close()
    first = f"/d/t-1/{0:020d}.log"
    files.overwrite(first, bytes(len(files.content(first))))
    snapshots = [n for n in files.listdir("/d/t-1") if n.endswith(".snapshot")]
    for name in snapshots:  # so that the start has to read the damaged segment
        files.remove(f"/d/t-1/{name}")
    again = open_manager(files)
    assert [key.partition for key in again] == [0, 2]
    assert "/d/t-1 stays closed" in caplog.text
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        again.create("t", 1, TOPICS["a"], 0)
    assert again.offline_dirs == {}
    again.close()


def test_no_more_descriptors_is_not_the_disk() -> None:
    files = MemoryFiles()
    manager = open_manager(files, "/d")
    log = manager.create("t", 0, TOPICS["a"], 0)
    append(Promises(), "t", log, 1)
    files.fail_next_sync(".log", error=24)
    with pytest.raises(KafkaError, match="Too many open files"):
        log.flush()
    assert manager.offline_dirs == {}
    log.flush()
    assert log.recovery_point == 1
    manager.close()
