"""What a power failure leaves of the files of a process (``synced_files``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from synced_files import SyncedFiles, lose_power

from tallymark.log.disk.files import write_file


class Disk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self.folder.mkdir()
        self.journal = folder / "journal"
        self.files = SyncedFiles(self.journal)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def lose_power(self) -> int:
        lost = lose_power(self.folder, self.journal)
        self.files = SyncedFiles(self.journal)
        return lost

    def content(self) -> dict[str, bytes]:
        return {one.name: one.read_bytes() for one in self.folder.iterdir()}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_bytes_behind_the_last_sync_are_gone(disk: Disk) -> None:
    file = disk.files.open(disk.path("a"))
    disk.files.sync_dir(str(disk.folder))
    file.append(b"synced")
    file.handle.sync()
    file.append(b", not synced")
    assert disk.lose_power() == len(b", not synced")
    assert disk.content() == {"a": b"synced"}


def test_a_file_whose_folder_was_not_synced_is_gone(disk: Disk) -> None:
    file = disk.files.open(disk.path("a"))
    file.append(b"synced")
    file.handle.sync()
    assert disk.lose_power() == len(b"synced")
    assert disk.content() == {}


def test_what_is_left_is_lost_no_more(disk: Disk) -> None:
    file = disk.files.open(disk.path("a"))
    file.append(b"one")
    file.handle.sync()
    disk.files.sync_dir(str(disk.folder))
    disk.lose_power()
    again = disk.files.open(disk.path("a"), create=False)
    again.append(b" two")
    assert disk.lose_power() == len(b" two")
    assert disk.lose_power() == 0
    assert disk.content() == {"a": b"one"}


def test_another_reader_of_the_file_may_sync_it(disk: Disk) -> None:
    file = disk.files.open(disk.path("a"))
    disk.files.sync_dir(str(disk.folder))
    file.append(b"one")
    disk.files.reader(disk.path("a")).sync()
    disk.lose_power()
    assert disk.content() == {"a": b"one"}


def test_after_a_cut_only_what_is_synced_anew_counts(disk: Disk) -> None:
    file = disk.files.open(disk.path("a"))
    disk.files.sync_dir(str(disk.folder))
    file.append(b"one two")
    file.handle.sync()
    file.truncate(3)
    file.append(b" six")
    disk.lose_power()
    assert disk.content() == {"a": b"one"}


def test_a_file_that_takes_the_inode_of_a_removed_one_is_a_new_one(disk: Disk) -> None:
    write_file(disk.files, disk.path("a"), b"old")
    disk.files.remove(disk.path("a"))
    write_file(disk.files, disk.path("b"), b"new", durable=False)
    disk.lose_power()
    assert disk.content() == {"b": b""}, "renamed, and nothing of it was synced"


def test_a_durable_file_stays(disk: Disk) -> None:
    write_file(disk.files, disk.path("a"), b"whole")
    (disk.folder / "lock").write_text("of others")
    assert disk.lose_power() == 0
    assert disk.content() == {"a": b"whole", "lock": b"of others"}
