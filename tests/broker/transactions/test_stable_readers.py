"""Readers of committed records wait for the last stable offset, whatever moves it."""

from __future__ import annotations

import uuid
from typing import Final

from transactional_appends import end, put

from tallymark.broker.partitions.partition import Partition
from tallymark.log import Log, LogConfig
from tallymark.testing.memory_files import MemoryFiles

FOLDER: Final = "/d/orders-0"


class Counted:
    """A fetch that is parked."""

    def __init__(self, partition: Partition) -> None:
        self.woken = 0
        partition.stable_readers.watch(self)

    def set(self) -> None:
        self.woken += 1


def new_partition() -> Partition:
    files = MemoryFiles()
    files.make_dirs(FOLDER)
    log = Log.open(files, FOLDER, LogConfig(), clean=False, now_ms=0)
    log.start_epoch(0)
    return Partition("orders", 0, uuid.UUID(int=1), log, 0)


def test_records_without_a_transaction_wake_them() -> None:
    partition = new_partition()
    put(partition, b"a")
    end(partition, commit=True)
    reader = Counted(partition)
    put(partition, b"b", first=1)
    assert reader.woken == 0
    end(partition, commit=False)
    assert reader.woken == 1


def test_with_replicas_the_marker_wakes_them_when_it_is_committed() -> None:
    """Another leader may not have it before."""
    partition = new_partition()
    partition.begin_replicated(0)
    put(partition, b"a")
    partition.commit(1)
    reader = Counted(partition)
    end(partition, commit=True)
    assert (reader.woken, partition.last_stable_offset) == (0, 0)
    partition.commit(2)
    assert (reader.woken, partition.last_stable_offset) == (1, 2)


def test_one_that_left_is_not_woken() -> None:
    partition = new_partition()
    reader = Counted(partition)
    partition.stable_readers.unwatch(reader)
    put(partition, b"a")
    end(partition, commit=True)
    assert reader.woken == 0


def test_all_are_woken_when_the_lead_is_lost() -> None:
    partition = new_partition()
    put(partition, b"a")
    reader = Counted(partition)
    partition.withdraw()
    assert reader.woken == 1
