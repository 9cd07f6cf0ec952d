"""One cluster is looked at: a real broker in memory, and one that is scripted."""

import threading
from collections.abc import Iterator

import pytest

from tallymark.client import Admin, Producer
from tallymark.client.admin.zookeeper_groups import ZooKeeperGroups
from tallymark.deployment import BrokerAddress, Cluster
from tallymark.errors import ConnectError
from tallymark.net.addresses import parse_address
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.testing import MemoryBroker, ScriptedBroker
from tallymark.testing.scripted_broker import Late
from tallymark_dashboards.snapshots.cluster_watch import ClusterWatch
from tallymark_dashboards.snapshots.shapes import ClusterState, Status

EVERY = 10_000


class Clock:
    """Moves ten seconds with every look."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


def cluster_at(address: str) -> Cluster:
    place = parse_address(address)
    return Cluster(name="dc1", brokers=(BrokerAddress(host=place.host, port=place.port),))


@pytest.fixture(scope="module")
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker(auto_create_topics_enable=False) as running:
        yield running


def watch_of(address: str, clock: Clock) -> ClusterWatch:
    return ClusterWatch(cluster_at(address), "", clock, lambda: None)


def test_a_look_finds_brokers_topics_ends_and_groups_with_their_lag(broker: MemoryBroker) -> None:
    clock = Clock()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("clicks", 3)
        with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
            for number in range(30):
                timestamp = clock.now - 50_000 + number
                producer.send("clicks", b"x", partition=0, timestamp=timestamp)
        admin.alter_group_offsets("loader", {("clicks", 0): 10, ("clicks", 1): 0})
        watch = watch_of(broker.bootstrap_servers, clock)
        try:
            assert watch.look(EVERY)
            first = watch.state
            clock.now += EVERY
            assert watch.look(EVERY)
        finally:
            watch.close()
    assert first.brokers.value is not None
    assert [one.address for one in first.brokers.value.brokers] == [broker.bootstrap_servers]
    assert first.brokers.at == first.topics.at == first.groups.at == 1_000_000
    topic = first.topics.value["clicks"]
    assert [(one.start, one.end) for one in topic.partitions] == [(0, 30), (0, 0), (0, 0)]
    assert (topic.leaderless, topic.under_replicated) == ((), ())
    group = watch.state.groups.value["loader"]
    assert (group.lag, group.state, group.kept) == (20, "Empty", "brokers")
    assert group.status is Status.UNKNOWN  # seen twice, and it has not moved yet
    # The first look has fetched the record at offset 10: it is older than the watching.
    assert group.delay is not None
    assert (group.delay.ms, group.delay.least) == (60_000 - 10, False)
    assert watch.state.topics.value["clicks"].partitions == topic.partitions
    assert [one.lag for one in watch.book.course_of("loader")] == [20, 20]


def test_a_cluster_that_is_away_keeps_what_was_read_and_says_why(broker: MemoryBroker) -> None:
    clock = Clock()
    watch = watch_of(broker.bootstrap_servers, clock)
    try:
        assert watch.look(EVERY)
        there = watch.state
        broker.stop()
        clock.now += EVERY
        assert not watch.look(EVERY)
        away = watch.state
        assert away.brokers.value == there.brokers.value
        assert away.topics.value.keys() == there.topics.value.keys()
        for part in (away.brokers, away.topics, away.groups):
            assert "connect" in part.error
            assert part.age(clock.now) == EVERY
            assert part.tried == clock.now
        broker.start()
        clock.now += EVERY
        assert watch.look(EVERY)
        assert watch.state.brokers.error == ""
        assert watch.state.topics.age(clock.now) == 0
    finally:
        watch.close()


def test_what_brokers_tell_is_not_held_back_by_a_zookeeper_that_is_away(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first page had no group for the three seconds for which ZooKeeper was waited for."""
    watch = ClusterWatch(
        cluster_at(broker.bootstrap_servers), "127.0.0.1:1/dc1", Clock(), lambda: None
    )
    told: list[ClusterState] = []
    watch.on_state = told.append

    def refuse(connect: str, timeout_ms: int) -> ZooKeeperGroups:
        assert [bool(one.topics.at) for one in told] == [True]
        raise ConnectError(connect, "connect", "refused")

    monkeypatch.setattr(ZooKeeperGroups, "open", refuse)
    try:
        assert watch.look(EVERY)
    finally:
        watch.close()
    assert "refused" in watch.state.zookeeper.error
    assert len(told) == 1


def test_a_broker_that_does_not_list_its_groups_does_not_hide_its_topics() -> None:
    """Each part has an error of its own."""
    without = {ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}
    served: dict[ApiKey, tuple[int, int]] = {
        key: span for key, span in ADVERTISED.items() if key not in without
    }
    with ScriptedBroker({"t": 2}, served=served) as broker:
        watch = watch_of(broker.address, Clock())
        try:
            assert watch.look(EVERY)
        finally:
            watch.close()
    assert list(watch.state.topics.value) == ["t"]
    assert watch.state.topics.error == ""
    assert "UNSUPPORTED_VERSION" in watch.state.groups.error
    assert watch.state.groups.value == {}


def test_a_broker_that_does_not_answer_holds_a_look_for_seconds_and_not_for_minutes() -> None:
    with ScriptedBroker({"t": 1}) as broker:
        broker.script(ApiKey.METADATA, *[Late(60)] * 20)
        watch = watch_of(broker.address, Clock())
        ended = threading.Event()

        def look() -> None:
            watch.look(EVERY)
            ended.set()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            assert ended.wait(30)
            assert watch.state.brokers.error
        finally:
            watch.close()
            thread.join(30)
