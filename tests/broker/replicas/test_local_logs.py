"""Which logs a broker may go on claiming when it registers."""

from __future__ import annotations

from uuid import UUID

import pytest

from tallymark.broker.ports import kernel_boot_id
from tallymark.broker.replicas.local_logs import BOOT_FILE, LocalLogs, tail_of
from tallymark.log import LogConfig, LogManager
from tallymark.protocol.records.batch import encode_batch
from tallymark.replication.model import Tail
from tallymark.replication.registration import LocalLog, decode_boot
from tallymark.testing.memory_files import MemoryFiles

A = "aaaaaaaa-0000-4000-8000-aaaaaaaaaaaa"
B = "bbbbbbbb-0000-4000-8000-bbbbbbbbbbbb"
KEY = ("t", 0)
OTHER = ("u", 0)
ID = UUID(int=1)


def opened(files: MemoryFiles, *dirs: str) -> LogManager:
    return LogManager.open(files, dirs or ("/d",), LogConfig(), broker_id=1, now_ms=0)


def written(manager: LogManager, key: tuple[str, int] = KEY) -> None:
    manager.create(*key, ID, 0).append(
        bytearray(encode_batch([(None, b"v", (), n) for n in range(3)])), 0, 4
    )


def first_life(files: MemoryFiles, boot: str = A) -> LogManager:
    """A broker that has registered once, and has written three records."""
    manager = opened(files)
    LocalLogs(manager, files, boot).remember_boot()
    written(manager)
    return manager


def claims(files: MemoryFiles, boot: str) -> LocalLog:
    return LocalLogs(opened(files), files, boot).logs([KEY])[KEY]


def test_after_kill_9_the_log_is_intact() -> None:
    files = MemoryFiles()
    first_life(files)
    files.kill()
    assert claims(files, A) == LocalLog(Tail(4, 3), intact=True)


def test_after_a_power_failure_it_is_not() -> None:
    files = MemoryFiles()
    first_life(files)
    files.kill()
    assert not claims(files, B).intact


def test_after_a_clean_stop_a_new_kernel_takes_nothing() -> None:
    files = MemoryFiles()
    first_life(files).close()
    assert claims(files, B) == LocalLog(Tail(4, 3), intact=True)


@pytest.mark.parametrize("content", [None, b"", bytes(39), b"1\n", b"2\n" + A.encode() + b"\n"])
def test_a_boot_that_is_not_known_is_another_one(content: bytes | None) -> None:
    files = MemoryFiles()
    first_life(files)
    files.kill()
    if content is None:
        files.remove(f"/d/{BOOT_FILE}")
    else:
        files.overwrite(f"/d/{BOOT_FILE}", content)
    assert not claims(files, A).intact


def test_a_machine_without_boot_ids_has_clean_stops_only() -> None:
    files = MemoryFiles()
    first_life(files, "")
    files.kill()
    assert not files.exists(f"/d/{BOOT_FILE}")
    manager = opened(files)
    local = LocalLogs(manager, files, "")
    assert not local.logs([KEY])[KEY].intact
    local.remember_boot()
    assert not files.exists(f"/d/{BOOT_FILE}")
    manager.close()
    assert claims(files, "").intact


def test_a_start_that_ended_before_it_remembered_the_boot_reports_its_logs_again() -> None:
    """A process that is killed in between must not find the present boot: it would take the log for
    intact that an earlier power failure has cut."""
    files = MemoryFiles()
    first_life(files)
    files.kill()
    assert not claims(files, B).intact
    files.kill()
    assert not claims(files, B).intact


@pytest.mark.parametrize("boot", [B, ""])
def test_a_start_that_was_stopped_in_order_before_its_report_reports_its_logs_again(
    boot: str,
) -> None:
    """After a power failure a broker started and was stopped in order before it was registered: it
    left the marker of a clean stop, so the next start voted with a log that lacked its tail, led,
    and cut committed records. The simulation of the machines found it (seed 1398)."""
    files = MemoryFiles()
    first_life(files)
    files.kill()
    manager = opened(files)
    LocalLogs(manager, files, boot)
    manager.close()
    files.kill()
    manager = opened(files)
    local = LocalLogs(manager, files, boot)
    assert not local.logs([KEY])[KEY].intact
    local.remember_boot()
    manager.close()
    assert claims(files, A).intact


def test_once_the_boot_is_remembered_the_logs_of_the_process_stay_intact() -> None:
    """In a later session of the same process nothing was lost below it; the log may have grown."""
    files = MemoryFiles()
    first_life(files)
    files.kill()
    manager = opened(files)
    local = LocalLogs(manager, files, B)
    assert not local.logs([KEY])[KEY].intact
    local.remember_boot()
    written(manager)
    written(manager, OTHER)
    assert local.logs([KEY, OTHER]) == {
        KEY: LocalLog(Tail(4, 6), intact=True),
        OTHER: LocalLog(Tail(4, 3), intact=True),
    }


def test_the_boot_is_durable_before_the_call_returns() -> None:
    files = MemoryFiles()
    LocalLogs(opened(files), files, A).remember_boot()
    assert decode_boot(files.durable(f"/d/{BOOT_FILE}")) == A


def test_it_is_written_when_it_has_changed_only() -> None:
    files = MemoryFiles()
    first_life(files).close()
    manager = opened(files)
    files.fail_next_write(BOOT_FILE, error=5)
    LocalLogs(manager, files, A).remember_boot()
    assert not manager.offline_dirs
    LocalLogs(manager, files, B).remember_boot()
    assert set(manager.offline_dirs) == {"/d"}, "now it is written, and fails"


def test_a_full_disk_leaves_the_boot_of_before() -> None:
    """The broker goes on; after its next crash its logs do not count as intact."""
    files = MemoryFiles()
    first_life(files).close()
    manager = opened(files)
    local = LocalLogs(manager, files, B)
    files.fill(0)
    local.remember_boot()
    assert local.logs([KEY])[KEY].intact
    files.empty()
    files.kill()
    assert not claims(files, B).intact


def test_a_disk_that_fails_has_no_logs_and_leaves_the_others_alone() -> None:
    files = MemoryFiles()
    manager = opened(files, "/d", "/e")
    written(manager)
    written(manager, OTHER)
    local = LocalLogs(manager, files, A)
    assert {home.path for key in (KEY, OTHER) if (home := manager.home_of(*key))} == {"/d", "/e"}
    here = manager.home_of(*KEY)
    assert here is not None
    files.break_disk(here.path)
    local.remember_boot()
    assert set(local.logs([KEY, OTHER])) == {OTHER}
    other = manager.home_of(*OTHER)
    assert other is not None
    assert files.exists(f"{other.path}/{BOOT_FILE}")


def test_what_is_not_here_is_left_out() -> None:
    files = MemoryFiles()
    manager = opened(files)
    assert LocalLogs(manager, files, A).logs([KEY]) == {}


def test_an_epoch_without_a_record_is_not_of_the_tail() -> None:
    """A leader that was elected and wrote nothing has no more than before; of two tails the longer
    log must win."""
    manager = opened(MemoryFiles())
    log = manager.create(*KEY, ID, 0)
    assert tail_of(log) == Tail(-1, 0)
    log.start_epoch(2)
    assert tail_of(log) == Tail(-1, 0)
    written(manager)
    log.start_epoch(7)
    assert tail_of(log) == Tail(4, 3)


def test_this_machine_has_a_boot_id() -> None:
    boot = kernel_boot_id()
    assert boot == kernel_boot_id()
    assert len(boot) in (0, 36)
