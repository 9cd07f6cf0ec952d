"""Admin on a cluster of two brokers: every request finds the broker that can answer it, and one
that goes away takes only its own part along."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tallymark.client import Admin, Producer
from tallymark.client.admin.groups import GroupListing
from tallymark.client.admin.records import END_OF_LOG
from tallymark.client.admin.topic_admin import NewTopic
from tallymark.errors import TallymarkError
from tallymark.protocol.topic_partition import LATEST
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.process

PARTITIONS = [("t", number) for number in range(4)]


class Two:
    """A ZooKeeper and two brokers."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        connect = stack.enter_context(ZooKeeperServer(folder)).connect + "/two"
        self.brokers = {
            node: stack.enter_context(
                BrokerThread(
                    folder / str(node),
                    node_id=node,
                    enable_zookeeper=True,
                    zookeeper_connect=connect,
                    offsets_topic_num_partitions=4,
                )
            )
            for node in range(2)
        }
        self.connect = connect


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with ExitStack() as stack:
        yield Two(tmp_path, stack)


def test_every_request_finds_its_broker_and_half_a_cluster_is_half_an_answer(two: Two) -> None:
    with Admin(zookeeper_connect=two.connect, request_timeout_ms=3000) as admin:
        admin.create_topic("t", 4)
        with Producer(zookeeper_connect=two.connect, audit=False) as producer:
            for _, partition in PARTITIONS:
                producer.send("t", b"x", partition=partition).result(30)
        described = admin.describe_topics(["t"])["t"]
        assert {part.leader for part in described.partitions} == {0, 1}
        ends = admin.list_offsets(dict.fromkeys(PARTITIONS, LATEST)).check()
        assert [one.offset for one in ends.values()] == [1, 1, 1, 1]
        deleted = admin.delete_records(dict.fromkeys(PARTITIONS, END_OF_LOG)).check()
        assert deleted == dict.fromkeys(PARTITIONS, 1)
        assert set(admin.describe_log_dirs()) == {0, 1}
        groups = {f"g{number}" for number in range(8)}
        for group in groups:
            admin.alter_group_offsets(group, {("t", 0): 1}).check()
        listed = admin.list_groups().groups
        assert set(listed) == groups
        assert {one.coordinator for one in listed.values()} == {0, 1}
        assert set(admin.describe_groups(groups)) == groups

        gone = admin.describe_cluster().controller
        two.brokers[gone].stop()
        check_half(admin, 1 - gone, listed)


def check_half(admin: Admin, left: int, listed: Mapping[str, GroupListing]) -> None:
    """What the broker that is left can do it does; the rest has an error each."""
    assert admin.create_topics([NewTopic("after", 1)]).check()
    assert admin.describe_cluster().controller == left
    described = admin.describe_topics(["t"])["t"]
    mine = {("t", part.partition) for part in described.partitions if part.leader == left}
    ends = admin.list_offsets(dict.fromkeys(PARTITIONS, LATEST))
    assert set(ends) == mine
    assert set(ends.errors) == set(PARTITIONS) - mine
    assert all("LEADER_NOT_AVAILABLE" in str(error) for error in ends.errors.values())
    folders = admin.describe_log_dirs([0, 1])
    assert list(folders) == [left]
    held = {name for name, one in listed.items() if one.coordinator == left}
    groups = admin.describe_groups(listed)
    assert set(groups) == held
    assert all(isinstance(error, TallymarkError) for error in groups.errors.values())
    assert set(admin.list_groups().groups) == held
