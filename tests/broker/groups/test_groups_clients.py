"""Groups of other people's clients: they share partitions, take over from one another, go on after
a restart of the broker, and may be of different make."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from foreign_clients.kafka_python import kafka

from tallymark.groups.group import Group
from tallymark.testing.broker_thread import BrokerThread

pytestmark = pytest.mark.process

aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed")

PARTITIONS = 4
SETTINGS: dict[str, Any] = {
    "num_partitions": PARTITIONS,
    "group_initial_rebalance_delay_ms": 100,
    "group_min_session_timeout_ms": 500,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), **SETTINGS) as running:
        yield running


@pytest.fixture
def topic(broker: BrokerThread) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    produce(broker, name, range(100))
    return name


def produce(broker: BrokerThread, topic: str, numbers: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(10) == 0


class Confluent:
    """A consumer of librdkafka that notes what it reads."""

    def __init__(self, broker: BrokerThread, group: str, topic: str, **config: Any) -> None:
        self.rebalances = 0
        self.read: list[int] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 200,
                **{name.replace("_", "."): value for name, value in config.items()},
            }
        )
        self.consumer.subscribe([topic], on_assign=self._rebalanced)

    def _rebalanced(self, _: Any, __: Any) -> None:
        self.rebalances += 1

    def poll(self) -> None:
        for message in self.consumer.consume(50, 0.05):
            assert message.error() is None, message.error()
            self.read.append(int(message.value() or b""))

    def assigned(self) -> set[int]:
        return {place.partition for place in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


class KafkaPython:
    """The same of kafka-python."""

    def __init__(self, broker: BrokerThread, group: str, topic: str) -> None:
        self.read: list[int] = []
        self.consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[
                kafka.coordinator.assignors.range.RangePartitionAssignor
            ],
        )

    def poll(self) -> None:
        for records in self.consumer.poll(50).values():
            self.read += [int(record.value) for record in records]

    def assigned(self) -> set[int]:
        return {place.partition for place in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


Member = Confluent | KafkaPython


def drive(members: Sequence[Member], done: Callable[[], bool], seconds: float = 60) -> None:
    """Poll all members until ``done``."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, [(m.assigned(), len(m.read)) for m in members]
        for member in members:
            member.poll()


def shared(members: Sequence[Member]) -> bool:
    """Whether every partition has one reader, and every member as many as the others."""
    parts = [member.assigned() for member in members]
    every = Counter(partition for part in parts for partition in part)
    return every == Counter(range(PARTITIONS)) and len({len(part) for part in parts}) == 1


def all_read(members: Sequence[Member], count: int) -> bool:
    return {number for member in members for number in member.read} == set(range(count))


def state_of(broker: BrokerThread, group: str) -> Group:
    """The group as the coordinator has it."""
    assert broker.broker is not None
    assert broker.broker.state is not None
    (found,) = (
        found
        for shard in broker.broker.state.group_shards.shards()
        for found in shard.groups()
        if found.group_id == group
    )
    return found


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_librdkafkas_members_share_and_take_over(
    broker: BrokerThread, topic: str, group: str, strategy: str
) -> None:
    config = {"partition_assignment_strategy": strategy}
    first = Confluent(broker, group, topic, **config)
    drive([first], lambda: first.assigned() == set(range(PARTITIONS)))
    second = Confluent(broker, group, topic, **config)
    drive([first, second], lambda: shared([first, second]) and all_read([first, second], 100))
    first.close()
    produce(broker, topic, range(100, 200))
    drive([second], lambda: all_read([first, second], 200))
    assert second.assigned() == set(range(PARTITIONS))
    second.close()


def test_kafka_pythons_members_share_and_take_over(
    broker: BrokerThread, topic: str, group: str
) -> None:
    members = [KafkaPython(broker, group, topic) for _ in range(2)]
    drive(members, lambda: shared(members) and all_read(members, 100))
    members[0].close()
    produce(broker, topic, range(100, 200))
    drive(members[1:], lambda: all_read(members, 200))
    assert members[1].assigned() == set(range(PARTITIONS))
    members[1].close()


def test_members_of_different_make_share_a_group(
    broker: BrokerThread, topic: str, group: str
) -> None:
    members: list[Member] = [
        Confluent(broker, group, topic, partition_assignment_strategy="range"),
        KafkaPython(broker, group, topic),
    ]
    drive(members, lambda: shared(members) and all_read(members, 100))
    assert {member.client_id for member in state_of(broker, group).members.values()} != {""}
    for member in members:
        member.close()


def test_aiokafkas_members_share_and_take_over(
    broker: BrokerThread, topic: str, group: str
) -> None:
    asyncio.run(asyncio.wait_for(_aiokafka(broker, topic, group), 30))


async def _aiokafka(broker: BrokerThread, topic: str, group: str) -> None:
    def consumer() -> Any:
        return aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=200,
        )

    async def read(members: Sequence[Any], numbers: set[int], wanted: set[int]) -> None:
        while numbers != wanted:
            for member in members:
                for records in (await member.getmany(timeout_ms=50)).values():
                    numbers |= {int(record.value) for record in records}

    members = [consumer(), consumer()]
    await asyncio.gather(*(member.start() for member in members))
    numbers = set[int]()
    await read(members, numbers, set(range(100)))
    while not all(len(member.assignment()) == PARTITIONS // 2 for member in members):
        await asyncio.sleep(0.05)
    await members[0].stop()
    produce(broker, topic, range(100, 200))
    await read(members[1:], numbers, set(range(200)))
    assert len(members[1].assignment()) == PARTITIONS
    await members[1].stop()


VICTIM = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
    "session.timeout.ms": 1000, "heartbeat.interval.ms": 200, "auto.offset.reset": "earliest"})
consumer.subscribe([sys.argv[3]])
while True:
    consumer.poll(0.05)
    print(len(consumer.assignment()), flush=True)
"""


def test_others_take_over_from_a_killed_member(
    broker: BrokerThread, topic: str, group: str
) -> None:
    command = [sys.executable, "-c", VICTIM, broker.bootstrap_servers, group, topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        while victim.stdout.readline().strip() != str(PARTITIONS):
            pass
        survivor = Confluent(broker, group, topic)
        try:
            drive([survivor], lambda: len(survivor.assigned()) == PARTITIONS // 2)
        finally:
            victim.kill()
        drive([survivor], lambda: survivor.assigned() == set(range(PARTITIONS)))
    survivor.close()


def test_a_group_goes_on_where_it_was_after_a_restart_of_the_broker(
    tmp_path_factory: pytest.TempPathFactory, group: str
) -> None:
    with BrokerThread(tmp_path_factory.mktemp("data"), **SETTINGS) as broker:
        produce(broker, "t", range(100))
        member = Confluent(broker, group, "t", enable_auto_commit=False)
        drive([member], lambda: all_read([member], 100))
        member.consumer.commit(asynchronous=False)
        generation = state_of(broker, group).generation
        broker.stop()
        broker.start()
        produce(broker, "t", range(100, 200))
        drive([member], lambda: all_read([member], 200))
        assert len(member.read) == 200, "what was committed is not read again"
        assert state_of(broker, group).generation == generation, "members are remembered"
        member.close()
        newcomer = Confluent(broker, group, "t")
        produce(broker, "t", [200])
        drive([newcomer], lambda: 200 in newcomer.read)
        assert min(newcomer.read) >= 100, "the first hundred was committed"
        newcomer.close()


def test_a_static_member_restarts_without_a_rebalance(
    broker: BrokerThread, topic: str, group: str
) -> None:
    members = [Confluent(broker, group, topic, group_instance_id=name) for name in ("a", "b")]
    drive(members, lambda: shared(members) and all_read(members, 100))
    had, rebalances = members[0].assigned(), members[1].rebalances
    generation = state_of(broker, group).generation
    members[0].close()
    members[0] = Confluent(broker, group, topic, group_instance_id="a")
    drive(members, lambda: members[0].assigned() == had)
    assert state_of(broker, group).generation == generation
    assert members[1].rebalances == rebalances
    for member in members:
        member.close()


def test_confluents_admin_sees_and_deletes_groups(
    broker: BrokerThread, topic: str, group: str
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    member = Confluent(broker, group, topic)
    drive([member], lambda: all_read([member], 100))
    listed = admin.list_consumer_groups(request_timeout=10).result(30)
    assert listed.errors == []
    assert group in {each.group_id for each in listed.valid}
    found = admin.describe_consumer_groups([group], request_timeout=10)[group].result(30)
    assert found.state.name == "STABLE"
    assert {place.partition for place in found.members[0].assignment.topic_partitions} == set(
        range(PARTITIONS)
    )
    member.close()
    places = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    asked = [ConsumerGroupTopicPartitions(group, places)]
    offsets = admin.list_consumer_group_offsets(asked)[group].result(30)
    assert [place.offset for place in offsets.topic_partitions] == [25] * PARTITIONS
    admin.delete_consumer_groups([group], request_timeout=10)[group].result(30)
    listed = admin.list_consumer_groups(request_timeout=10).result(30)
    assert group not in {each.group_id for each in listed.valid}
