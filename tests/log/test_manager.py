"""The logs of a broker: who owns a directory, what a start finds, what a failing disk takes."""

from __future__ import annotations

import itertools
import os
import re
import uuid
from pathlib import Path

import pytest

from tallymark.errors import CODES, KafkaError, UserError
from tallymark.log import LogConfig, LogManager, OsFiles
from tallymark.log.disk.partition_folder import LogKey, deleted_name, parse_folder
from tallymark.log.progress import Progress
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.memory_files import MemoryFiles

CONFIG = LogConfig(retention_ms=-1)
ORDERS = uuid.UUID(int=1)
CLICKS = uuid.UUID(int=2)


def batch(count: int = 3) -> bytearray:
    return bytearray(encode_batch([(None, b"v", (), n) for n in range(count)]))


def open_manager(
    files: MemoryFiles, *dirs: str, broker_id: int = 0, cluster_id: str | None = "c1"
) -> LogManager:
    return LogManager.open(
        files, dirs or ("/d",), CONFIG, broker_id=broker_id, now_ms=0, cluster_id=cluster_id
    )


def test_create_close_open() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    log = manager.create("orders", 0, ORDERS, 0)
    assert manager.create("orders", 0, ORDERS, 0) is log
    log.append(batch(), 0, -1)
    manager.create("a-b.c_d", 12, CLICKS, 0)
    manager.close()
    assert files.read("/d/meta.properties") == b"#\nversion=0\nbroker.id=0\ncluster.id=c1\n"
    assert files.read("/d/recovery-point-offset-checkpoint") == b"0\n2\na-b.c_d 12 0\norders 0 3\n"
    assert files.exists("/d/.kafka_cleanshutdown")

    again = open_manager(files)
    assert [str(key) for key in again] == ["a-b.c_d-12", "orders-0"]
    found = again.get("orders", 0)
    assert found is not None
    assert (found.end_offset, found.recovered) == (3, None)
    assert again.topic_id("orders", 0) == ORDERS
    assert again.get("orders", 1) is None
    assert not files.exists("/d/.kafka_cleanshutdown")  # from here on a crash is a crash


def test_after_a_kill_logs_are_verified_from_the_recovery_point() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    log = manager.create("orders", 0, ORDERS, 0)
    log.append(batch(), 0, -1)
    log.flush()
    manager.checkpoint()
    log.append(batch(), 0, -1)
    files.kill()
    again = open_manager(files).get("orders", 0)
    assert again is not None
    assert again.recovered is not None
    assert (again.end_offset, again.recovery_point) == (6, 3)


def test_partition_metadata_is_kafkas() -> None:
    files = MemoryFiles()
    topic_id = uuid.UUID("0a83b60a-1e25-4e61-9452-83c1cc8666af")
    open_manager(files).create("orders", 0, topic_id, 0)
    text = files.read("/d/orders-0/partition.metadata")
    assert text == b"version: 0\ntopic_id: CoO2Ch4lTmGUUoPBzIZmrw"


@pytest.mark.parametrize(
    "text", [b"", b"version: 0\ntopic_id: x", b"\xff", b"topic_id: " + b"A" * 99]
)
def test_damaged_metadata_is_written_again(text: bytes) -> None:
    files = MemoryFiles()
    open_manager(files).create("orders", 0, ORDERS, 0)
    files.overwrite("/d/orders-0/partition.metadata", text)
    files.kill()
    again = open_manager(files)
    assert again.topic_id("orders", 0) is None
    again.create("orders", 0, ORDERS, 0)
    files.kill()
    assert open_manager(files).topic_id("orders", 0) == ORDERS


def test_a_topic_created_again_is_not_the_old_one() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    manager.create("orders", 0, ORDERS, 0).append(batch(), 0, -1)
    with pytest.raises(KafkaError) as refusal:
        manager.create("orders", 0, CLICKS, 0)
    assert refusal.value.code == CODES["INCONSISTENT_TOPIC_ID"]
    manager.delete("orders", 0)
    assert manager.create("orders", 0, CLICKS, 0).end_offset == 0


def test_delete() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    log = manager.create("orders", 0, ORDERS, 0)
    log.append(batch(), 0, -1)
    job = log.begin_flush()
    held = log.read(0, 100)
    manager.delete("orders", 0)
    manager.delete("orders", 0)
    assert manager.get("orders", 0) is None
    assert "orders-0" not in "".join(files.listdir("/d"))
    assert held.read()
    with pytest.raises(KafkaError):
        log.append(batch(), 0, -1)
    assert job is not None
    job.run()  # a flush under way does not stumble
    log.finish_flush(job)


def test_many_logs_are_deleted_with_one_sync_and_their_files_later() -> None:
    """Deleting 100 topics of 10 partitions took 8 s: every partition's folder was synced and
    emptied by itself, one after the other, before anybody was answered."""
    files = MemoryFiles()
    manager = open_manager(files)
    keys = [LogKey("orders", number) for number in range(50)]
    for key in keys:
        manager.create(key.topic, key.partition, ORDERS, 0)
    synced: list[str] = []
    sync_dir = files.sync_dir

    def counted(path: str) -> None:
        synced.append(path)
        sync_dir(path)

    files.sync_dir = counted  # type: ignore[method-assign] # it counts
    assert manager.delete_all([*keys, LogKey("clicks", 0)]) == {}
    assert synced == ["/d"]
    assert len(manager) == 0
    left = [name for name in files.listdir("/d") if "orders" in name]
    assert len(left) == 50
    assert all(name.endswith("-delete") for name in left)
    manager.remove_deleted(stopping=lambda: len(files.listdir("/d")) < 40)
    assert manager.has_deleted
    files.kill()
    open_manager(files)
    assert not [name for name in files.listdir("/d") if "orders" in name]


def strays(files: MemoryFiles) -> list[str]:
    return [name for name in files.listdir("/d") if name.endswith("-stray")]


def test_a_log_that_was_moved_away_stays_until_it_is_released_also_after_a_restart() -> None:
    """Its name is Kafka's. A log of the same name is another one."""
    files = MemoryFiles()
    manager = open_manager(files)
    manager.create("orders", 0, ORDERS, 0).append(batch(), 0, -1)
    assert manager.delete_all([LogKey("orders", 0)], stray_since_ms=1000) == {}
    (folder,) = strays(files)
    assert re.fullmatch(r"orders-0\.[0-9a-f]{32}-stray", folder)
    assert any(name.endswith(".log") for name in files.listdir(f"/d/{folder}"))
    assert manager.create("orders", 0, ORDERS, 0).end_offset == 0
    assert not manager.deleted.release(999)
    manager.remove_deleted()
    assert strays(files) == [folder]
    files.kill()
    again = LogManager.open(files, ["/d"], CONFIG, broker_id=0, now_ms=5000)
    assert list(again) == [LogKey("orders", 0)]
    assert not again.deleted.release(4999)
    assert again.deleted.release(5000)
    assert not again.deleted.has_strays
    again.remove_deleted()
    assert strays(files) == []


def test_a_disk_that_fails_keeps_no_other_from_deleting() -> None:
    files = MemoryFiles()
    files.make_dirs("/e")
    both = LogManager.open(files, ["/d", "/e"], CONFIG, broker_id=3, now_ms=0)
    keys = [LogKey("orders", number) for number in range(4)]
    for key in keys:
        both.create(key.topic, key.partition, ORDERS, 0)
    files.break_disk("/d")
    failed = both.delete_all(keys)
    assert len(failed) == 2
    both.remove_deleted()
    assert not [name for name in files.listdir("/e") if "orders" in name]


def test_a_delete_that_a_crash_interrupted_goes_on() -> None:
    files = MemoryFiles()
    open_manager(files).create("orders", 0, ORDERS, 0)
    files.rename("/d/orders-0", f"/d/{deleted_name('orders-0')}")
    files.kill()
    again = open_manager(files)
    assert len(again) == 0
    assert not [name for name in files.listdir("/d") if "orders" in name]


def test_who_uses_the_directory(tmp_path: Path) -> None:
    files = OsFiles()
    manager = LogManager.open(files, [tmp_path], CONFIG, broker_id=3, now_ms=0)
    with pytest.raises(UserError) as refusal:
        LogManager.open(files, [tmp_path], CONFIG, broker_id=4, now_ms=0)
    assert str(tmp_path) in refusal.value.what
    assert f"broker 3, process {os.getpid()}" in refusal.value.what
    assert refusal.value.do
    manager.close()
    LogManager.open(files, [tmp_path], CONFIG, broker_id=3, now_ms=0).close()


def test_whose_directory_it_is() -> None:
    files = MemoryFiles()
    open_manager(files).close()
    with pytest.raises(UserError, match="is broker 0's, this is broker 5"):
        open_manager(files, broker_id=5)
    with pytest.raises(UserError, match="of the cluster c1, this broker is in the cluster c2"):
        open_manager(files, cluster_id="c2")
    manager = open_manager(files, cluster_id=None)
    assert manager.cluster_id == "c1"
    with pytest.raises(UserError, match="c1"):
        manager.adopt("c2")


def test_a_new_directory_learns_its_cluster_later() -> None:
    files = MemoryFiles()
    manager = open_manager(files, cluster_id=None)
    assert manager.cluster_id is None
    manager.adopt("c9")
    files.kill()
    assert open_manager(files, cluster_id=None).cluster_id == "c9"


def test_two_directories_share_the_partitions_and_one_may_fail() -> None:
    files = MemoryFiles()
    manager = open_manager(files, "/d1", "/d2")
    logs = [manager.create("orders", number, ORDERS, 0) for number in range(4)]
    assert {log.directory.split("/")[1] for log in logs} == {"d1", "d2"}
    files.fail_next_write("/d1", written=5, error=5)
    bad = next(log for log in logs if log.directory.startswith("/d1"))
    good = next(log for log in logs if log.directory.startswith("/d2"))
    with pytest.raises(KafkaError, match="Input/output error"):
        bad.append(batch(), 0, -1)
    assert list(manager.offline_dirs) == ["/d1"]
    good.append(batch(), 0, -1)
    for log in logs:
        if log.directory.startswith("/d1"):
            with pytest.raises(KafkaError) as refusal:
                log.read(0, 10)
            assert refusal.value.code == CODES["KAFKA_STORAGE_ERROR"]
    assert manager.create("orders", 9, ORDERS, 0).directory.startswith("/d2")
    assert manager.at_risk("/d2") == [(good.name, 0, 3)]
    manager.close()
    assert files.exists("/d2/.kafka_cleanshutdown")
    assert not files.exists("/d1/.kafka_cleanshutdown")


def test_a_disk_that_is_dead_at_the_start_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    manager = open_manager(files, "/d1", "/d2")
    for number in range(4):
        manager.create("orders", number, ORDERS, 0)
    manager.close()
    files.break_disk("/d1")
    again = open_manager(files, "/d1", "/d2")
    assert len(again) == 2
    assert "/d1 cannot be used" in caplog.text
    again.close()
    files.break_disk("/d2")
    with pytest.raises(UserError, match="no data directory can be used"):
        open_manager(files, "/d1", "/d2")


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError) as refusal:
        LogManager.open(OsFiles(), [tmp_path / "file"], CONFIG, broker_id=0, now_ms=0)
    assert str(tmp_path / "file") in str(refusal.value)


def test_a_partition_in_two_directories() -> None:
    files = MemoryFiles()
    open_manager(files, "/d1").create("orders", 0, ORDERS, 0)
    files.kill()
    open_manager(files, "/d2").create("orders", 0, ORDERS, 0)
    files.kill()
    with pytest.raises(UserError, match=r"orders-0 is in /d1 and in /d2"):
        open_manager(files, "/d1", "/d2")


def test_strange_folders_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    files.make_dirs("/d/lost+found")
    assert len(open_manager(files)) == 0
    assert "lost+found is not the folder of a partition" in caplog.text


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b-12", ("a-b", 12)),
        ("__consumer_offsets-49", ("__consumer_offsets", 49)),
        ("orders", None),
        ("-0", None),
        ("orders-", None),
        ("orders-00", None),
        ("orders-x", None),
        ("orders-١", None),
    ],
)
def test_folder_names(name: str, key: tuple[str, int] | None) -> None:
    assert parse_folder(name) == key


def test_deleted_names_fit_into_a_file_name() -> None:
    assert len(deleted_name("t" * 249 + "-10000")) <= 255


def test_on_the_disk(tmp_path: Path) -> None:
    files = OsFiles()
    manager = LogManager.open(files, [tmp_path], CONFIG, broker_id=0, now_ms=0, cluster_id="c")
    for number in range(3):
        manager.create("orders", number, ORDERS, 0).append(batch(), 0, -1)
    manager.delete("orders", 1)
    manager.close()
    again = LogManager.open(files, [tmp_path], CONFIG, broker_id=0, now_ms=0, cluster_id="c")
    assert [key.partition for key in again] == [0, 2]
    again.close()


def test_a_log_made_again_knows_nothing_of_the_one_before() -> None:
    """A topic was deleted and made again under its name. The checkpoints still told of the old one:
    the new log would have begun at offset 5, and after a crash nothing below 9 would have been
    verified."""
    files = MemoryFiles()
    files.make_dirs("/d")
    files.sync_dir("/")
    manager = open_manager(files)
    log = manager.create("orders", 0, ORDERS, 0)
    for _ in range(3):
        log.append(batch(), 0, -1)
    log.flush()
    log.delete_records(5)
    manager.checkpoint()
    manager.delete("orders", 0)
    again = manager.create("orders", 0, CLICKS, 0)
    assert again.start_offset == 0
    again.append(batch(), 0, -1)
    again.roll()
    again.append(batch(), 0, -1)
    files.kill()
    first = f"/d/orders-0/{0:020d}.log"
    files.overwrite(first, files.content(first)[:-1])
    found = open_manager(files).get("orders", 0)
    assert found is not None
    assert (found.start_offset, found.end_offset) == (0, 0)
    assert found.recovered is not None
    assert found.recovered.cut > 0


def test_many_logs_tell_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    for number in range(7):
        manager.create("orders", number, ORDERS, 0)
    manager.close()
    seconds = itertools.count()
    monkeypatch.setattr(
        Progress.__init__, "__kwdefaults__", {"seconds": 3.0, "clock": lambda: float(next(seconds))}
    )
    with caplog.at_level("INFO"):
        open_manager(files)
    told = [each for each in caplog.messages if each.startswith("opened")]
    assert told == ["opened 3 of 7 logs of /d", "opened 6 of 7 logs of /d"]


def test_a_clean_start_changes_nothing_on_the_disk() -> None:
    """Ten thousand partitions are to start in seconds: nothing is synced or written for each."""
    files = MemoryFiles()
    manager = open_manager(files)
    for number in range(20):
        log = manager.create("orders", number, ORDERS, 0)
        log.start_epoch(4)
        for _ in range(number % 3):
            log.append(batch(), 0, 4)
    manager.close()
    before = files.operations
    again = open_manager(files)
    for key in again:
        found = again.get(*key)
        assert found is not None
        assert found.latest_epoch == 4
        found.start_epoch(4)  # an empty log used to have forgotten its epoch, and wrote it again
    assert len(again) == 20
    assert files.operations - before == 2  # the marker of the clean stop goes


def test_open_logs_hold_no_descriptors(tmp_path: Path) -> None:
    manager = LogManager.open(OsFiles(), [tmp_path], CONFIG, broker_id=0, now_ms=0, cluster_id="c")
    for number in range(5):
        manager.create("orders", number, ORDERS, 0).append(batch(), 0, -1)
    manager.close()
    before = len(os.listdir("/proc/self/fd"))
    again = LogManager.open(OsFiles(), [tmp_path], CONFIG, broker_id=0, now_ms=0, cluster_id="c")
    assert len(os.listdir("/proc/self/fd")) == before + 1  # the lock
    again.close()


def test_a_log_for_which_a_start_had_no_room_is_tried_again() -> None:
    """The story: a broker was started on a full disk, after a power failure. One log could not be
    recovered, and stayed closed as damaged when there was room again, until the next start."""
    files = MemoryFiles()
    log = open_manager(files).create("orders", 0, ORDERS, 0)
    log.append(batch(), 0, -1)
    log.append(batch(), 0, -1)
    files.lose_unsynced(lambda path, size: min(size, len(batch()) + 20))
    files.fill(0)
    again = open_manager(files)
    assert again.get("orders", 0) is None
    files.empty()
    assert again.create("orders", 0, ORDERS, 0).end_offset == 3
    again.close()
    assert files.exists("/d/.kafka_cleanshutdown")


def test_a_stop_is_not_clean_while_a_log_was_never_verified() -> None:
    """Its tail would be trusted at the next start."""
    files = MemoryFiles()
    log = open_manager(files).create("orders", 0, ORDERS, 0)
    log.append(batch(), 0, -1)
    log.append(batch(), 0, -1)
    files.lose_unsynced(lambda path, size: min(size, len(batch()) + 20))
    files.fill(0)
    again = open_manager(files)
    files.empty()
    again.close()
    assert not files.exists("/d/.kafka_cleanshutdown")
    found = open_manager(files).get("orders", 0)
    assert found is not None
    assert (found.end_offset, found.recovered is not None) == (3, True)
