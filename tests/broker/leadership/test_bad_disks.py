"""Three brokers, one of them with a bad disk: it stops leading, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from brokers_in_memory import BrokersInMemory
from eventually import eventually
from rotten_bytes import rot

from tallymark.broker.replicas import lead
from tallymark.broker.replicas.bad_batches import fault_at

VALUES = [b"%d" % number for number in range(6)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersInMemory]:
    with BrokersInMemory(tmp_path) as brokers:
        brokers.create("t", min_insync_replicas=2)
        yield brokers


def write(cluster: BrokersInMemory, values: list[bytes]) -> None:
    for value in values:
        eventually(partial(is_written, cluster, value))


def values_at(cluster: BrokersInMemory, *nodes: int) -> list[bytes | None]:
    """What all of them have. A value whose answer was an error may be there twice."""
    return list(dict.fromkeys(cluster.wait_until_equal("t", *nodes)))


def is_written(cluster: BrokersInMemory, value: bytes) -> bool:
    return cluster.produce("t", value).error_code == 0


def test_a_follower_that_cannot_copy_a_corrupt_batch_gets_another_leader(
    cluster: BrokersInMemory,
) -> None:
    """It stayed behind for ever: no broker looked whose disk was wrong. The broker with the bad
    batch copies it again from the next leader, and no incident of lost records is reported."""
    write(cluster, VALUES[:2])
    cluster.wait_until_equal("t")
    first = cluster.leader("t")
    other, last = (one for one in cluster.brokers if one != first)
    cluster.brokers[last].stop()
    write(cluster, VALUES[2:5])
    bad = cluster.partition(first, "t")
    assert bad is not None
    rot(cluster.disks[first], bad.log, 3, -2)  # a byte of the value
    cluster.brokers[last].start()
    eventually(lambda: cluster.state("t").leader not in (first, -1))
    assert values_at(cluster) == VALUES[:5]
    eventually(lambda: set(cluster.state("t").isr) == {1, 2, 3})
    state = cluster.state("t")
    assert (state.leader, state.incomplete, state.unclean) == (other, {}, False)
    write(cluster, VALUES[5:])
    assert values_at(cluster) == VALUES
    assert fault_at(bad.log, 3) is None
    homes = cluster.disks[first].names(bad.log.directory.rpartition("/")[0])
    assert not [name for name in homes if "truncated" in name]


def test_a_leader_whose_disk_fails_is_replaced(cluster: BrokersInMemory) -> None:
    """Its partitions had no leader that could write until an operator restarted it."""
    write(cluster, VALUES[:3])
    cluster.wait_until_equal("t")
    first = cluster.leader("t")
    found = cluster.partition(first, "t")
    assert found is not None
    cluster.disks[first].break_disk("/")
    assert cluster.produce("t", b"refused", leader=first).error_code != 0
    eventually(lambda: cluster.state("t").leader not in (first, -1))
    others = [one for one in cluster.brokers if one != first]
    assert set(cluster.state("t").isr) == set(others)
    write(cluster, VALUES[3:])
    assert values_at(cluster, *others) == VALUES
    cluster.disks[first].mend_disk("/")


def test_a_leader_whose_disk_is_full_is_replaced_and_comes_back_with_room(tmp_path: Path) -> None:
    """A file filled the disk of one broker of three: its partitions refused all writes for as long
    as it was there, though two other brokers had the records and room. That broker has nothing to
    copy at first, so it is in sync until the next record: that one waits until it is out."""
    with BrokersInMemory(tmp_path, replica_lag_time_max_ms=1500) as cluster:
        cluster.create("t", min_insync_replicas=2)
        write(cluster, VALUES[:3])
        cluster.wait_until_equal("t")
        first = cluster.leader("t")
        cluster.disks[first].fill(0)
        assert cluster.produce("t", b"refused", leader=first).error_code != 0
        eventually(lambda: cluster.state("t").leader not in (first, -1))
        write(cluster, VALUES[3:])
        others = [one for one in cluster.brokers if one != first]
        assert values_at(cluster, *others) == VALUES
        assert set(cluster.state("t").isr) == set(others)
        cluster.disks[first].empty()
        eventually(lambda: set(cluster.state("t").isr) == {1, 2, 3})
        assert values_at(cluster) == VALUES
        assert cluster.state("t").incomplete == {}


def test_a_leader_whose_disk_was_full_for_a_moment_goes_on(
    cluster: BrokersInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lead, "_LOOKS_WITHOUT_ROOM", 1_000)  # its moment is one of a slow machine
    first = cluster.leader("t")
    cluster.disks[first].fill(0)
    assert cluster.produce("t", b"refused", leader=first).error_code != 0
    cluster.disks[first].empty()
    write(cluster, VALUES)
    found = cluster.partition(first, "t")
    assert found is not None
    assert not found.log.lacks_room
    assert cluster.state("t").leader == first
    assert cluster.state("t").leader_epoch == 0
