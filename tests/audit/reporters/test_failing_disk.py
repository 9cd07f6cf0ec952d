"""The double of the disk under a journal does what it says, and otherwise what the disk does."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tallymark_audit.reporters.journal.disk import Disk
from tallymark_audit.testing import FailingDisk, ProcessDiedError


def life(disk: Disk, folder: Path) -> None:
    """Six steps."""
    disk.make_folder(folder)
    mapped = disk.create(folder / "new", 64)
    disk.write(mapped, 8, b"12345678")
    disk.rename(folder / "new", folder / "old")
    disk.write(mapped, 16, b"more")
    disk.remove(folder / "old")


def test_counts_the_steps_and_does_them(tmp_path: Path) -> None:
    disk = FailingDisk()
    life(disk, tmp_path / "deep" / "er")
    assert disk.names == ["make_folder", "create", "write", "rename", "write", "remove"]
    assert disk.steps == 6
    assert list((tmp_path / "deep" / "er").iterdir()) == []
    disk.remove(tmp_path / "gone")


def test_fails_once_or_for_ever(tmp_path: Path) -> None:
    disk = FailingDisk(fail_at=3)
    with pytest.raises(OSError, match="no space left"):
        life(disk, tmp_path)
    assert (tmp_path / "new").read_bytes()[8:16] == b"12345678"
    disk.rename(tmp_path / "new", tmp_path / "old")
    disk = FailingDisk(fail_at=0, for_ever=True)
    for _ in range(3):
        with pytest.raises(OSError, match="no space left"):
            disk.remove(tmp_path / "old")
    assert (tmp_path / "old").exists()


@pytest.mark.parametrize(("torn", "kept"), [(0.0, b"\0" * 8), (0.5, b"1234\0\0\0\0"), (1.0, None)])
def test_dies_in_the_midst_of_a_write(tmp_path: Path, torn: float, kept: bytes | None) -> None:
    disk = FailingDisk(die_at=2, torn=torn)
    with pytest.raises(ProcessDiedError):
        life(disk, tmp_path)
    assert (tmp_path / "new").read_bytes()[8:16] == (kept or b"12345678")
    with pytest.raises(ProcessDiedError):
        disk.remove(tmp_path / "new")
    assert (tmp_path / "new").exists()


def test_a_step_that_is_not_a_write_has_happened_or_not(tmp_path: Path) -> None:
    for torn, name in ((0.0, "new"), (1.0, "old")):
        with pytest.raises(ProcessDiedError):
            life(FailingDisk(die_at=3, torn=torn), tmp_path / name)
        assert [path.name for path in (tmp_path / name).iterdir()] == [name]


def test_the_lock_is_held_until_it_is_buried(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.create(tmp_path / "file", 64)
    file = os.open(tmp_path / "file", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    disk.bury()
    disk.bury()
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(file)


def test_a_file_that_is_locked_is_not_made_again(tmp_path: Path) -> None:
    disk = Disk()
    mapped = disk.create(tmp_path / "file", 64)
    with pytest.raises(OSError, match=r"."):
        disk.create(tmp_path / "file", 64)
    mapped.close()
    mapped.close()
