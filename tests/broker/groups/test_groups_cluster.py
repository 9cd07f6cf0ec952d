"""Groups over the brokers of a cluster: each has one coordinator, and others say so."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cluster_members import member, state_of, zookeeper_or_skip
from confluent_kafka import Consumer, Producer
from eventually import eventually

from tallymark.errors import CODES
from tallymark.protocol.coordinator_partition import coordinator_partition
from tallymark.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

pytestmark = pytest.mark.process

PARTITIONS = 4


def coordinator(broker: BrokerThread, group: str) -> FindCoordinatorResponse:
    """Whom this broker names; it may take a moment until the first leader is there."""
    deadline = time.monotonic() + 60
    with WireClient(broker.bootstrap_servers) as wire:
        while True:
            found = wire.ask(FindCoordinatorRequest(key=group), 2)
            if found.error_code == 0 or time.monotonic() > deadline:
                return found
            time.sleep(0.05)


def heartbeat(broker: BrokerThread, group: str) -> int:
    with WireClient(broker.bootstrap_servers) as wire:
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
        return wire.ask(request, 3).error_code


def read(addresses: str, group: str, topic: str, count: int) -> set[int]:
    """Read so many messages as a new member of the group, and commit."""
    consumer = Consumer(
        {"bootstrap.servers": addresses, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found = set[int]()
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, found
        for message in consumer.consume(50, 0.1):
            found.add(int(message.value() or b""))
    consumer.close()
    return found


def knows_no_member(broker: BrokerThread, group: str) -> bool:
    """The coordinator answers, once it has loaded the group's partition."""
    return heartbeat(broker, group) == CODES["UNKNOWN_MEMBER_ID"]


def test_every_group_has_one_coordinator(tmp_path: Path) -> None:
    settings = {
        "offsets_topic_num_partitions": PARTITIONS,
        "num_partitions": 2,
        "group_initial_rebalance_delay_ms": 0,
    }
    with (
        zookeeper_or_skip(tmp_path) as zookeeper,
        member(tmp_path, zookeeper, "c", 0, **settings) as one,
        member(tmp_path, zookeeper, "c", 1, **settings) as other,
    ):
        brokers = {0: one, 1: other}
        addresses = ",".join(broker.bootstrap_servers for broker in brokers.values())
        producer = Producer({"bootstrap.servers": addresses})
        for number in range(40):
            producer.produce("t", b"%d" % number, partition=number % 2)
        assert producer.flush(60) == 0

        # One group for each partition of __consumer_offsets.
        groups = {coordinator_partition(f"g{n}", PARTITIONS): f"g{n}" for n in range(40)}
        told = {group: coordinator(one, group) for group in groups.values()}
        assert {found.node_id for found in told.values()} == {0, 1}
        for group, found in told.items():
            assert coordinator(other, group) == found
            leader, stranger = brokers[found.node_id], brokers[1 - found.node_id]
            eventually(knows_no_member, leader, group)
            assert heartbeat(stranger, group) == CODES["NOT_COORDINATOR"]
            assert read(addresses, group, "t", 40) == set(range(40))
            kept = [shard.state.groups() for shard in state_of(leader).group_shards.shards()]
            assert group in set().union(*kept)

        group = next(group for group, found in told.items() if found.node_id == 1)
        other.kill()
        other.start()
        for number in range(40, 60):
            producer.produce("t", b"%d" % number, partition=number % 2)
        assert producer.flush(60) == 0
        assert read(addresses, group, "t", 20) == set(range(40, 60)), "it goes on where it was"
