"""The ends of many logs, with one request to each leader."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tallymark.client.reading import list_offsets
from tallymark.client.reading.simple_consumer import EARLIEST, LATEST, SimpleConsumer
from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.protocol.api import ApiKey
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.testing.scripted_broker import Late, Refuse, ScriptedBroker

PLACES = [(topic, number) for topic in ("t", "u") for number in range(3)]


@pytest.fixture
def two() -> Iterator[tuple[ScriptedBroker, ScriptedBroker]]:
    """Two brokers: the second one leads the partitions of u."""
    with ScriptedBroker({"t": 3, "u": 3}) as broker, ScriptedBroker({"t": 3, "u": 3}) as other:
        other.topic_ids = dict(broker.topic_ids)
        for number in range(3):
            broker.elsewhere["u", number] = other.address
        yield broker, other


class Answers:
    """What has been answered, in this order."""

    def __init__(self) -> None:
        self.found: list[tuple[TopicPartition, int | str]] = []
        self.first = threading.Event()

    def __call__(self, place: TopicPartition, offset: int | TallymarkError) -> None:
        failed = isinstance(offset, KafkaError)
        self.found.append((place, offset.name if failed else offset))  # type: ignore[union-attr,arg-type]
        self.first.set()


def asked(broker: ScriptedBroker) -> list[int]:
    """How many partitions each request has named."""
    return [
        sum(len(topic.partitions) for topic in request.topics)
        for key, _, request in broker.requests
        if key is ApiKey.LIST_OFFSETS
    ]


@pytest.mark.parametrize("time", [EARLIEST, LATEST])
def test_each_leader_is_asked_once(two: tuple[ScriptedBroker, ScriptedBroker], time: int) -> None:
    """Each partition was asked for with a request of its own, and each such request waited behind
    the fetch of its connection: a consumer of 1,000 partitions needed 70 s until it had read the
    first message of all of them."""
    answers = Answers()
    with SimpleConsumer(bootstrap_servers=two[0].address) as consumer:
        consumer.each_offset(PLACES, time, answers)
    assert dict(answers.found) == dict.fromkeys(PLACES, 0)
    assert len(answers.found) == len(PLACES)
    assert [asked(broker) for broker in two] == [[3], [3]]


def test_a_slow_leader_does_not_hold_up_the_other(
    two: tuple[ScriptedBroker, ScriptedBroker],
) -> None:
    two[1].script(ApiKey.LIST_OFFSETS, Late(1.0))
    answers = Answers()
    with SimpleConsumer(bootstrap_servers=two[0].address) as consumer:
        thread = threading.Thread(target=consumer.each_offset, args=(PLACES, EARLIEST, answers))
        thread.start()
        assert answers.first.wait(30)
        thread.join(30)
    assert [place[0] for place, _ in answers.found] == ["t"] * 3 + ["u"] * 3


def test_what_fails_is_an_error_of_its_partitions(
    two: tuple[ScriptedBroker, ScriptedBroker],
) -> None:
    broker, dead = two
    answers = Answers()
    with SimpleConsumer(bootstrap_servers=broker.address, request_timeout_ms=2000) as consumer:
        consumer.each_offset(PLACES, EARLIEST, Answers())
        dead.stop()
        broker.script(ApiKey.LIST_OFFSETS, Refuse(CODES["NOT_LEADER_OR_FOLLOWER"]))
        consumer.each_offset([*PLACES, ("nowhere", 0)], EARLIEST, answers)
        dead.start()
    found = dict(answers.found)
    assert {found["t", number] for number in range(3)} == {"NOT_LEADER_OR_FOLLOWER"}
    assert found["nowhere", 0] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert not any(isinstance(found["u", number], int) for number in range(3))
    assert len(answers.found) == len(PLACES) + 1


def test_a_large_question_is_divided(
    two: tuple[ScriptedBroker, ScriptedBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_offsets, "MOST_IN_A_REQUEST", 2)
    answers = Answers()
    with SimpleConsumer(bootstrap_servers=two[0].address) as consumer:
        consumer.each_offset(PLACES, EARLIEST, answers)
    assert [asked(broker) for broker in two] == [[2, 1], [2, 1]]
    assert dict(answers.found) == dict.fromkeys(PLACES, 0)
