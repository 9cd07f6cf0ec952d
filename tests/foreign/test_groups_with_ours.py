"""Our connector in one group with other people's consumers; the first one divides."""

from __future__ import annotations

import itertools
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from broker_kinds import OURS
from confluent_kafka.admin import AdminClient
from foreign_clients import confluent, kafka_python, kcat, ours
from foreign_clients.group import PARTITIONS, Member, Story
from foreign_clients.rows import SECONDS

from tallymark import ConsumerConnector, Producer
from tallymark.client.admin.admin import Admin

pytestmark = pytest.mark.process

CLIENTS: dict[str, Any] = {"confluent": confluent, "kafka-python": kafka_python, "ours": ours}
GROUPS = (
    *(("ours", "confluent", "range"), ("confluent", "ours", "range")),
    *(("ours", "confluent", "roundrobin"), ("confluent", "ours", "roundrobin")),
    *(("ours", "confluent", "cooperative-sticky"), ("confluent", "ours", "cooperative-sticky")),
    *(("ours", "kafka-python", "range"), ("kafka-python", "ours", "range")),
    *(("ours", "kafka-python", "roundrobin"), ("kafka-python", "ours", "roundrobin")),
    *(("ours", "ours", "range"), ("ours", "ours", "cooperative-sticky")),
)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def servers(place: tuple[str, Path]) -> str:
    """Of our broker, and of Apache Kafka."""
    return place[0]


@pytest.fixture
def is_ours(request: pytest.FixtureRequest) -> bool:
    """Whether the broker is. On Apache Kafka a kafka-python that divides may do so before it knows
    the topic's partitions ("No partition metadata"), and then nobody ever gets any."""
    kind: str = request.node.callspec.params["place"]
    return kind == OURS


def new_topic(servers: str, name: str, partitions: int = PARTITIONS) -> str:
    topic = f"{name}-{next(_numbers)}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions)
    return topic


@pytest.mark.parametrize(("first", "second", "strategy"), GROUPS)
def test_members_of_one_group(
    servers: str, is_ours: bool, first: str, second: str, strategy: str
) -> None:
    if first == "kafka-python" and not is_ours:
        pytest.skip("kafka-python may divide before it knows the partitions")
    topic = new_topic(servers, "mixed")
    joining = iter((first, second))

    def join() -> Member:
        member: Member = CLIENTS[next(joining)].Member(servers, topic, strategy)
        return member

    with Producer(bootstrap_servers=servers, audit=False) as producer:
        story = Story(
            join=join,
            send=lambda partition, value: producer.send(topic, value, partition=partition),
            flush=producer.flush,
        )
        story.run()
    story.check()


def test_a_group_of_ours_is_seen_by_everybody(servers: str) -> None:
    topic = new_topic(servers, "seen", 2)
    with Producer(bootstrap_servers=servers, audit=False) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=number % 2)
    with ConsumerConnector(
        bootstrap_servers=servers, group="ours-seen", client_id="tally"
    ) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        assert sum(1 for _ in zip(range(10), stream, strict=False)) == 10
        consumer.commit_offsets(metadata="by hand")
        admin = AdminClient({"bootstrap.servers": servers})
        listed = admin.list_consumer_groups().result(SECONDS).valid
        assert "ours-seen" in {group.group_id for group in listed}
        found = admin.describe_consumer_groups(["ours-seen"])["ours-seen"].result(SECONDS)
        assert found.state.name == "STABLE"
        assert found.partition_assignor == "range"
        (member,) = found.members
        assert member.client_id == "tally"
        assert {(p.topic, p.partition) for p in member.assignment.topic_partitions} == {
            (topic, 0),
            (topic, 1),
        }
    assert stored_by_confluent(servers, "ours-seen", topic) == {
        0: (5, "by hand"),
        1: (5, "by hand"),
    }


def stored_by_confluent(servers: str, group: str, topic: str) -> dict[int, tuple[int, str]]:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    admin = AdminClient({"bootstrap.servers": servers})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, n) for n in range(2)])
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    found = answer.result(SECONDS).topic_partitions
    return {part.partition: (part.offset, part.metadata) for part in found}


def test_others_go_on_from_our_offsets_and_we_from_theirs(servers: str, is_ours: bool) -> None:
    topic = new_topic(servers, "relay")
    with Producer(bootstrap_servers=servers, audit=False) as producer:
        for number in range(40):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
    seen: list[bytes] = []
    for client in (ours, confluent, ours, kafka_python if is_ours else confluent, ours):
        member: Member = client.Member(servers, topic)
        try:
            wanted, deadline = len(seen) + 40, time.monotonic() + SECONDS
            while len(seen) < wanted:
                assert time.monotonic() < deadline, f"{client.__name__} has {len(seen)} messages"
                seen += member.poll()
            member.commit()
        finally:
            member.close()
        with Producer(bootstrap_servers=servers, audit=False) as producer:
            for number in range(wanted, wanted + 40):
                producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
    assert sorted(seen, key=int) == [b"%d" % number for number in range(200)]


@kcat.needs_kcat
def test_kcat_joins_a_group_of_ours(servers: str) -> None:
    topic = new_topic(servers, "kcat")
    with Producer(bootstrap_servers=servers, audit=False) as producer:
        for number in range(8):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        member = ours.Member(servers, topic)
        try:
            while member.share() < PARTITIONS:
                member.poll()
            command = ["kcat", "-b", servers, "-G", f"readers-of-{topic}", "-u", topic]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as other:
                try:
                    while member.share() != PARTITIONS // 2:
                        member.poll()
                finally:
                    other.terminate()
                    other.communicate(timeout=SECONDS)
            while member.share() < PARTITIONS:
                member.poll()
        finally:
            member.close()
