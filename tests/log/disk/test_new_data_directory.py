"""A data directory that a broker has made is there after a power failure."""

from __future__ import annotations

from tallymark.log.disk.data_dir import DataDir
from tallymark.testing.memory_files import MemoryFiles


def test_the_names_of_a_new_data_directory_are_on_the_disk() -> None:
    """Seed 5 of the simulation: a broker made its data directory and never synced the folders above
    it. A power failure in its first hours took the name of the directory, and with it every record
    that had been flushed and acknowledged."""
    files = MemoryFiles()
    data = DataDir.lock(files, "/var/lib/tallymark/data", 1)
    data.write_owner(1, "cluster")
    files.lose_unsynced()
    assert files.exists("/var/lib/tallymark/data/meta.properties")


def test_a_directory_that_was_there_is_not_synced_again() -> None:
    files = MemoryFiles()
    files.make_dirs("/data")
    DataDir.lock(files, "/data", 1)
    assert files.syncs == 0
