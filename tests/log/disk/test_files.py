"""The Files port: what holds for the real disk holds for the one in memory, and the latter fails as
told."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tallymark.log.disk.files import Files, FileSlice, LockHeldError, OsFiles, write_file
from tallymark.testing.memory_files import MemoryFiles


@pytest.fixture(params=[OsFiles, MemoryFiles])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    make: Callable[[], Files] = request.param
    made = make()
    made.make_dirs(str(tmp_path))
    return made


@pytest.fixture
def memory() -> MemoryFiles:
    files = MemoryFiles()
    files.make_dirs("/d")
    files.sync_dir("/")
    return files


def test_append_read_truncate(files: Files, tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/a")
    file.append(b"hello ")
    file.append(bytearray(b"wor"))
    file.append(memoryview(b"ld"))
    assert file.size() == 11
    assert file.pread(5, 6) == b"world"
    assert file.pread(100, 6) == b"world"
    file.truncate(6)
    file.append(b"you")
    assert files.read(f"{tmp_path}/a") == b"hello you"
    file.handle.sync()
    file.close()
    with pytest.raises(OSError, match=r"."):
        file.append(b"more")


def test_names(files: Files, tmp_path: Path) -> None:
    root = str(tmp_path)
    files.make_dirs(f"{root}/x/y")
    files.make_dirs(f"{root}/x/y")
    files.open(f"{root}/x/b").close()
    files.open(f"{root}/x/a").close()
    assert files.listdir(f"{root}/x") == ["a", "b", "y"]
    files.rename(f"{root}/x/a", f"{root}/x/b")
    assert files.listdir(f"{root}/x") == ["b", "y"]
    assert files.is_dir(f"{root}/x/y")
    assert not files.is_dir(f"{root}/x/b")
    files.rename(f"{root}/x", f"{root}/z")
    assert files.exists(f"{root}/z/b")
    assert not files.exists(f"{root}/x")
    files.remove(f"{root}/z/b")
    files.remove(f"{root}/z/b")
    with pytest.raises(OSError, match=r"(?i)not empty"):
        files.remove_dir(f"{root}/z")
    files.remove_dir(f"{root}/z/y")
    files.remove_dir(f"{root}/z")
    files.sync_dir(root)
    assert files.listdir(root) == []


def test_missing_files(files: Files, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(f"{tmp_path}/none", create=False)
    with pytest.raises(FileNotFoundError):
        files.read(f"{tmp_path}/none")
    with pytest.raises(FileNotFoundError):
        files.listdir(f"{tmp_path}/none")


def test_sizes_and_readers(files: Files, tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/a")
    file.append(b"hello")
    assert files.size(f"{tmp_path}/a") == 5
    reader = files.reader(f"{tmp_path}/a")
    file.append(b" you")
    assert reader.pread(100, 3) == b"lo you"
    total, usable = files.space(str(tmp_path))
    assert 0 < usable <= total
    for missing in (files.size, files.reader, files.read):
        with pytest.raises(FileNotFoundError):
            missing(f"{tmp_path}/none")


def test_a_lock_tells_who_holds_it(files: Files, tmp_path: Path) -> None:
    lock = files.lock(f"{tmp_path}/.lock", "broker 7")
    with pytest.raises(LockHeldError, match="broker 7"):
        files.lock(f"{tmp_path}/.lock", "broker 8")
    lock.release()
    lock.release()
    files.lock(f"{tmp_path}/.lock", "broker 8").release()


def test_a_slice_outlives_the_removal_of_its_file(files: Files, tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/a")
    file.append(b"0123456789")
    piece = FileSlice(file.handle, 2, 3)
    file.close()
    files.remove(f"{tmp_path}/a")
    del file
    assert piece.read() == b"234"
    assert len(piece) == 3


def test_a_slice_of_a_file_that_became_shorter(files: Files, tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/a")
    file.append(b"0123")
    with pytest.raises(EOFError, match="2 of 5 bytes"):
        FileSlice(file.handle, 2, 5).read()


@pytest.mark.slow
def test_a_descriptor_closes_with_its_last_reader(tmp_path: Path) -> None:
    file = OsFiles().open(f"{tmp_path}/a")
    piece = FileSlice(file.handle, 0, 0)
    number = piece.fileno()
    inode = os.fstat(number).st_ino
    del file
    assert os.fstat(number).st_ino == inode
    del piece
    gc.collect()
    # Once the number was free a thread of another test took it for a socket: look at whose it is.
    with suppress(OSError):
        assert os.fstat(number).st_ino != inode


def test_write_file_replaces(files: Files, tmp_path: Path) -> None:
    path = f"{tmp_path}/a"
    write_file(files, path, b"one")
    write_file(files, path, b"two", durable=False)
    assert files.read(path) == b"two"
    assert files.listdir(str(tmp_path)) == ["a"]


# --- what only the memory can do


def test_power_failure_takes_unsynced_bytes(memory: MemoryFiles) -> None:
    file = memory.open("/d/a")
    file.append(b"kept")
    file.handle.sync()
    memory.sync_dir("/d")
    file.append(b"lost")
    assert memory.unsynced("/d/a")
    memory.lose_unsynced()
    assert memory.read("/d/a") == b"kept"
    with pytest.raises(OSError, match="dead"):
        file.append(b"x")


def test_power_failure_may_leave_a_torn_tail(memory: MemoryFiles) -> None:
    file = memory.open("/d/a")
    file.append(b"kept")
    file.handle.sync()
    memory.sync_dir("/d")
    file.append(b"lost")
    memory.lose_unsynced(lambda path, size: size - 1)
    assert memory.read("/d/a") == b"keptlos"


def test_power_failure_takes_names_and_brings_removed_ones_back(memory: MemoryFiles) -> None:
    memory.open("/d/old").handle.sync()
    memory.sync_dir("/d")
    memory.open("/d/new").handle.sync()
    memory.remove("/d/old")
    memory.lose_unsynced()
    assert memory.listdir("/d") == ["old"]
    memory.remove("/d/old")
    memory.lose_unsynced(removed_are_back=False)
    assert memory.listdir("/d") == []


def test_a_kill_loses_nothing_but_the_lock(memory: MemoryFiles) -> None:
    memory.lock("/d/.lock", "one")
    memory.open("/d/a").append(b"data")
    memory.kill()
    memory.lock("/d/.lock", "two")
    assert memory.read("/d/a") == b"data"


def test_faults_strike_once_and_where_they_should(memory: MemoryFiles) -> None:
    file, other = memory.open("/d/a"), memory.open("/d/b")
    memory.fail_next_write("/a", written=2)
    memory.fail_next_sync("/a")
    other.append(b"fine")
    with pytest.raises(OSError, match=r".") as full:
        file.append(b"abcd")
    assert full.value.errno == errno.ENOSPC
    assert memory.read("/d/a") == b"ab"
    other.handle.sync()
    with pytest.raises(OSError, match=r"."):
        file.handle.sync()
    file.append(b"cd")
    file.handle.sync()
    assert memory.read("/d/a") == b"abcd"


def test_a_broken_disk(memory: MemoryFiles) -> None:
    file = memory.open("/d/a")
    memory.break_disk("/d")
    for act in (lambda: file.append(b"x"), lambda: memory.listdir("/d"), file.handle.sync):
        with pytest.raises(OSError, match=r"."):
            act()
    memory.make_dirs("/e")


def test_the_nth_operation_fails_whatever_it_is(memory: MemoryFiles) -> None:
    def change() -> None:
        memory.make_dirs("/d/x")
        file = memory.open("/d/x/a")
        file.append(b"0123456789")
        file.truncate(8)
        file.handle.sync()
        memory.rename("/d/x/a", "/d/x/b")
        memory.sync_dir("/d/x")
        memory.remove("/d/x/b")
        memory.remove_dir("/d/x")

    failed: list[str | None] = []
    for number in range(9):
        memory.fail_operation(number, error=28, written=0.5)
        with pytest.raises(OSError, match="No space left"):
            change()
        failed.append((memory.failed or "").split()[0])
        if number == 2:
            assert memory.content("/d/x/a") == b"01234"
        for name in ("a", "b"):
            memory.remove(f"/d/x/{name}") if memory.exists(f"/d/x/{name}") else None
        if memory.is_dir("/d/x"):
            memory.remove_dir("/d/x")
    assert failed == ["make_dirs", "create", "append", "truncate", "sync", "rename", "sync",
                      "remove", "remove_dir"]  # fmt: skip
    before = memory.operations
    change()  # each failed once
    assert memory.operations - before == 9
