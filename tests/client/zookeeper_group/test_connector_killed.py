"""Consumers of a group as processes that are killed and stopped, with a real ZooKeeper."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from connector_cluster import Cluster, names, running_cluster
from consumer_process import ConsumerProcess
from eventually import eventually

from tallymark.coordination import ConsumerRegistry, OffsetRegistry, ZooKeeper

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


class Delivered:
    """What a group's processes were handed out, together."""

    def __init__(self, *processes: ConsumerProcess) -> None:
        self.processes = list(processes)
        self.counts: Counter[bytes] = Counter()
        self.by: dict[tuple[int, int], set[str]] = {}

    def collect(self) -> None:
        for process in self.processes:
            for partition, offset, value in process.taken():
                self.counts[value] += 1
                self.by.setdefault((partition, offset), set()).add(process.name)

    def has(self, values: set[bytes]) -> bool:
        self.collect()
        return values <= set(self.counts)


def test_kill_nine_in_the_middle(cluster: Cluster) -> None:
    """Everything is handed out; twice only what the killed one had not committed yet; and its
    nodes do not outlive its session."""
    topic, group = cluster.topic(4), f"killed{next(names)}"
    with (
        ConsumerProcess(cluster.connect, group, topic, "a") as a,
        ConsumerProcess(cluster.connect, group, topic, "b") as b,
        ConsumerProcess(cluster.connect, group, topic, "c") as c,
        ZooKeeper(cluster.connect) as zookeeper,
    ):
        registry = ConsumerRegistry(zookeeper, group)
        delivered = Delivered(a, b, c)
        eventually(lambda: set(registry.owners(topic).values()) == {"a", "b", "c"})
        sent = cluster.publish(topic, 0, 400, 4)
        eventually(lambda: len(delivered.counts) > 100 or delivered.has(sent))
        a.signal(signal.SIGKILL)
        sent |= cluster.publish(topic, 1000, 400, 4)
        b.signal(signal.SIGKILL)
        eventually(lambda: delivered.has(sent))
        eventually(lambda: registry.owners(topic) == dict.fromkeys(range(4), "c"))
        assert list(registry.members()) == ["c"]
        assert (a.errors, b.errors, c.errors) == ([], [], [])
        repeated = {place for place, who in delivered.by.items() if len(who) > 1}
        assert set(delivered.counts) == sent
        assert all(delivered.by[place] & {"a", "b"} for place in repeated)
        offsets = OffsetRegistry(zookeeper, group)
        ends = {(topic, p): 200 for p in range(4)}
        eventually(lambda: {p: at.offset for p, at in offsets.read(list(ends)).items()} == ends)


def test_a_process_that_was_stopped_for_longer_than_its_session(cluster: Cluster) -> None:
    """It wakes up believing that it owns what others consume by now. What it commits then does
    not put the group back, it registers again, and nothing is lost."""
    topic, group = cluster.topic(2), f"stopped{next(names)}"
    with (
        ConsumerProcess(cluster.connect, group, topic, "a") as a,
        ConsumerProcess(cluster.connect, group, topic, "b") as b,
        ZooKeeper(cluster.connect) as zookeeper,
    ):
        registry = ConsumerRegistry(zookeeper, group)
        offsets = OffsetRegistry(zookeeper, group)
        delivered = Delivered(a, b)

        def stored() -> int:
            found = offsets.read([(topic, 0), (topic, 1)])
            return sum(position.offset for position in found.values())

        eventually(lambda: set(registry.owners(topic).values()) == {"a", "b"})
        sent = cluster.publish(topic, 0, 100)
        eventually(lambda: delivered.has(sent) and stored() == 100)
        a.signal(signal.SIGSTOP)
        eventually(lambda: registry.owners(topic) == {0: "b", 1: "b"})
        sent |= cluster.publish(topic, 1000, 100)
        eventually(lambda: delivered.has(sent) and stored() == 200)
        a.signal(signal.SIGCONT)
        eventually(lambda: set(registry.owners(topic).values()) == {"a", "b"})
        assert stored() == 200
        sent |= cluster.publish(topic, 2000, 100)
        eventually(lambda: delivered.has(sent) and stored() == 300)
        assert (a.errors, b.errors) == ([], [])
