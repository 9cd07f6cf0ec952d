"""Groups with members: of brokers, with a real consumer, and in ZooKeeper."""

from collections.abc import Mapping

import pytest

from tallymark.client import Admin, ConsumerConnector, Producer
from tallymark.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from tallymark.client.admin.zookeeper_groups import ZooKeeperGroups
from tallymark.deployment import BrokerAddress, Cluster
from tallymark.errors import ConnectError, KafkaError, UserError
from tallymark.net.addresses import parse_address
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.testing import MemoryBroker
from tallymark_dashboards.snapshots.cluster_watch import ClusterWatch
from tallymark_dashboards.snapshots.shapes import Status
from tallymark_dashboards.snapshots.zookeeper_reading import ZooKeeperReader


class InZooKeeper:
    """What :class:`ZooKeeperGroups` would say of two groups, one of which is just deleted."""

    def __init__(self) -> None:
        self.asked = 0
        self.closed = 0
        self.away = False

    def list_groups(self) -> dict[str, GroupListing]:
        self.asked += 1
        if self.away:
            raise ConnectError("zk:2181", "connect", "refused")
        return {name: GroupListing(name, "consumer", "Stable") for name in ("gone", "loader")}

    def describe_group(self, group: str) -> GroupDescription:
        if group == "gone":
            raise KafkaError(69, "group gone")
        owner = MemberDescription("loader_1", partitions=(("clicks", 0),))
        return GroupDescription(group, "Stable", "consumer", "range", members=(owner,))

    def group_offsets(self, group: str) -> Mapping[TopicPartition, int]:
        return {("clicks", 0): 41}

    def close(self) -> None:
        self.closed += 1


def test_groups_in_zookeeper_are_read_by_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    double, opened = InZooKeeper(), list[str]()

    def open_double(connect: str, timeout_ms: int) -> InZooKeeper:
        opened.append(connect)
        return double

    monkeypatch.setattr(ZooKeeperGroups, "open", open_double)
    reader = ZooKeeperReader("zk:2181/dc1")
    reader.read(lambda: 7, lambda: None)
    reader.read(lambda: 8, lambda: None)
    assert opened == ["zk:2181/dc1"]
    assert list(reader.seen) == ["loader"]
    assert reader.seen["loader"].offsets == {("clicks", 0): 41}
    double.away = True
    for now in (9, 10, 10_000):  # it is asked once, and then left alone for a while
        with pytest.raises(ConnectError):
            reader.read(lambda now=now: now, lambda: None)  # type: ignore[misc]
    assert (double.asked, list(reader.seen)) == (3, ["loader"])
    double.away = False
    reader.read(lambda: 30_000, lambda: None)
    assert (double.asked, opened) == (4, ["zk:2181/dc1"] * 2)
    reader.close()
    reader.close()
    assert double.closed == 2


def test_a_cluster_without_a_place_in_zookeeper_has_no_groups_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(connect: str, timeout_ms: int) -> ZooKeeperGroups:
        raise UserError("there is no /dc1")

    monkeypatch.setattr(ZooKeeperGroups, "open", refuse)
    reader = ZooKeeperReader("zk:2181/dc1")
    reader.read(lambda: 7, lambda: None)
    assert reader.seen == {}


def test_a_consumer_that_reads_is_the_owner_of_its_partitions() -> None:
    with MemoryBroker(auto_create_topics_enable=False) as broker:
        servers = broker.bootstrap_servers
        with (
            Admin(bootstrap_servers=servers) as admin,
            Producer(bootstrap_servers=servers, audit=False) as producer,
        ):
            admin.create_topic("clicks", 1)
            for _ in range(10):
                producer.send("clicks", b"x", partition=0)
        place = parse_address(servers)
        address = BrokerAddress(host=place.host, port=place.port)
        watch = ClusterWatch(
            Cluster(name="dc1", brokers=(address,)), "", lambda: 1_000_000, lambda: None
        )
        try:
            with ConsumerConnector(
                bootstrap_servers=servers, group="readers", auto_offset_reset="smallest"
            ) as consumer:
                (stream,) = consumer.create_message_streams({"clicks": 1})["clicks"]
                for _ in range(10):
                    next(stream)
                consumer.commit_offsets()
                assert watch.look(10_000)
                group = watch.state.groups.value["readers"]
        finally:
            watch.close()
    (part,) = group.partitions
    (member,) = group.members
    assert (part.owner, member.partitions) == (member.member_id, (("clicks", 0),))
    assert (part.offset, part.end, part.lag, part.status) == (10, 10, 0, Status.OK)
    assert group.state == "Stable"
    assert group.delay is not None
    assert group.delay.ms == 0
