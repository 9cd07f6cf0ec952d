"""Logs of replicas that were moved to other brokers: when they go, and when they stay."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers_in_memory import BrokersInMemory
from eventually import eventually

from tallymark import Admin
from tallymark.broker.leadership.unneeded_logs import is_elsewhere
from tallymark.broker.metadata.image import PartitionImage
from tallymark.replication.model import Assignment
from tallymark.testing.memory_files import MemoryFiles

HOUR_MS = 3_600_000
SETTING = "log.segment.delete.delay.ms"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersInMemory]:
    with BrokersInMemory(tmp_path, 4, log_segment_delete_delay_ms=HOUR_MS) as brokers:
        brokers.create("t", min_insync_replicas=2)
        assert brokers.produce("t", b"x").error_code == 0
        brokers.wait_until_equal("t", *brokers.topic("t").of(0).replicas)
        yield brokers


def folders(cluster: BrokersInMemory, node_id: int, suffix: str = "") -> list[str]:
    """Those of the topic's partition on a broker's disk."""
    disk: MemoryFiles = cluster.disks[node_id]
    home = str((cluster._folder / f"broker-{node_id}" / "broker").absolute())
    names = [name for name in disk.listdir(home) if name.startswith("t-0")]
    return [name for name in names if name.endswith(suffix)]


def moved(cluster: BrokersInMemory) -> tuple[int, int]:
    """One replica moves to the broker that has none: from, to."""
    now = cluster.topic("t").of(0).replicas
    (free,) = set(cluster.brokers) - set(now)
    target = (*now[:2], free)
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        admin.move_partitions({("t", 0): target}).check()
    eventually(lambda: cluster.topic("t").of(0) == Assignment(target))
    return now[2], free


@pytest.mark.soak
def test_a_log_that_was_moved_away_is_renamed_and_removed_after_the_delay(
    cluster: BrokersInMemory,
) -> None:
    left, _ = moved(cluster)
    eventually(lambda: folders(cluster, left, "-stray"))
    assert len(folders(cluster, left)) == 1
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        admin.alter_configs({("broker", str(left)): {SETTING: "0"}}).check()
    eventually(lambda: not folders(cluster, left))


def test_a_replica_that_comes_back_begins_anew_beside_what_it_left(
    cluster: BrokersInMemory,
) -> None:
    left, new = moved(cluster)
    eventually(lambda: folders(cluster, left, "-stray"))
    now = cluster.topic("t").of(0).replicas
    back = tuple(left if one == new else one for one in now)
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        admin.move_partitions({("t", 0): back}).check()
    eventually(lambda: cluster.topic("t").of(0) == Assignment(back))
    assert cluster.wait_until_equal("t", *back) == [b"x"]
    assert len(folders(cluster, left)) == 2
    eventually(lambda: folders(cluster, new, "-stray"))


def test_a_log_that_was_moved_while_its_broker_was_down_goes_at_its_start(
    cluster: BrokersInMemory,
) -> None:
    now = cluster.topic("t").of(0).replicas
    cluster.brokers[now[2]].stop()
    left, _ = moved(cluster)
    assert folders(cluster, left) == ["t-0"]
    cluster.brokers[left].start()
    eventually(lambda: folders(cluster, left, "-stray"))
    assert "t-0" not in folders(cluster, left)


def test_a_log_of_another_topic_id_is_left_alone(cluster: BrokersInMemory) -> None:
    """A topic of that name was deleted and created elsewhere: the log is not that topic's."""
    now = cluster.topic("t").of(0).replicas
    (free,) = set(cluster.brokers) - set(now)
    manager = cluster.running(free).logs
    assert manager is not None
    manager.create("t", 0, uuid.uuid4(), 0)
    cluster.brokers[free].stop()
    cluster.brokers[free].start()
    assert folders(cluster, free) == ["t-0"]


@pytest.mark.parametrize(
    ("leader", "replicas", "elsewhere"),
    [
        (2, (2, 3), True),
        (1, (1, 2), False),
        (2, (2, 1), False),
        (-1, (2, 3), False),  # nobody can serve it yet
        (1, (2, 3), False),  # we lead it still
        (4, (2, 3), False),
        (-1, (), False),
    ],
)
def test_a_log_is_elsewhere_when_its_replicas_are_and_one_leads(
    leader: int, replicas: tuple[int, ...], elsewhere: bool
) -> None:
    assert is_elsewhere(PartitionImage.of(leader, 0, replicas, replicas), 1) is elsewhere
