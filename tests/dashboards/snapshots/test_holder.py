"""What pages ask of the snapshots."""

from dataclasses import replace

from tallymark.deployment import Deployment
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.registry_shapes import RegistryState
from tallymark_dashboards.snapshots.shapes import (
    ClusterState,
    Delay,
    GroupPartition,
    GroupState,
    Part,
    Status,
)


def partition(topic: str, lag: int | None, status: Status, number: int = 0) -> GroupPartition:
    delay = None if lag is None else Delay(lag * 1000)
    return GroupPartition(topic, number, 5, 0, 10, lag, delay, status=status)


def group(name: str, *partitions: GroupPartition) -> GroupState:
    return GroupState(name, "brokers", "Stable", partitions=partitions)


def cluster(name: str, *groups: GroupState) -> ClusterState:
    return ClusterState(name, groups=Part({one.group: one for one in groups}, at=1))


def test_the_lag_of_a_topic_names_the_worst_group_first() -> None:
    snapshots = Snapshots(
        [
            cluster(
                "dc1",
                group("calm", partition("clicks", 9, Status.OK)),
                group(
                    "bad",
                    partition("clicks", 3, Status.OK),
                    partition("clicks", 4, Status.STOPPED, 1),
                ),
            ),
            cluster("dc2", group("far", partition("clicks", None, Status.UNKNOWN))),
        ],
        RegistryState(),
    )
    found = snapshots.lag_of("clicks")
    assert [(one.cluster, one.group, one.lag, one.status) for one in found] == [
        ("dc1", "bad", 7, Status.STOPPED),
        ("dc2", "far", None, Status.UNKNOWN),
        ("dc1", "calm", 9, Status.OK),
    ]
    assert found[0].delay == Delay(4000)
    assert [one.group for one in snapshots.lag_of("clicks", "dc2")] == ["far"]
    assert snapshots.lag_of("views") == ()
    assert snapshots.lag_of("clicks", "no such cluster") == ()


def test_a_new_state_replaces_the_old_one_and_grows_the_version() -> None:
    snapshots = Snapshots.of(Deployment())
    assert [one.name for one in snapshots.clusters] == ["dc1", "dc2", "aggregate"]
    before = snapshots.cluster("dc1")
    assert before is not None
    assert before.brokers.age(5) is None
    snapshots.put(replace(before, groups=Part({"g": group("g", partition("t", 1, Status.OK))})))
    assert snapshots.version == 1
    assert [one.group for one in snapshots.lag_of("t")] == ["g"]
    again = snapshots.cluster("dc1")
    assert again is not None
    snapshots.put(replace(again, groups=replace(again.groups, at=99, tried=99)))
    assert snapshots.version == 1  # read again, and nothing else is to be seen
    assert before.groups.value == {}  # who has taken the old state keeps it
    assert [one.name for one in snapshots.clusters] == ["dc1", "dc2", "aggregate"]


def test_a_part_that_was_never_read_is_stale_and_one_that_was_read_becomes_it() -> None:
    assert Part(0).stale(10)
    read = Part(0, at=1_000_000, every=10_000)
    assert not read.stale(1_040_000)
    assert read.stale(1_040_001)
    assert read.age(1_005_000) == 5_000
    assert read.age(999_000) == 0  # the clock was set back
