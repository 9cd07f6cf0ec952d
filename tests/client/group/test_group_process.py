"""A connector that a real broker coordinates: members and brokers that die and come back."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from broker_kinds import KINDS, AnyBroker, either_broker
from broker_process import BrokerProcess
from consumer_process import ConsumerProcess
from eventually import eventually
from group_rig import BROKER, QUICK, Rig, numbers, take

from tallymark.client.connector.connector import ConsumerConnector
from tallymark.errors import (
    ClosedError,
    CommitFailedError,
    ConnectError,
    KafkaError,
    TallymarkError,
)
from tallymark.testing.zookeeper import free_port

pytestmark = pytest.mark.process


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    yield from either_broker(request, tmp_path_factory.mktemp("data"), **BROKER)


@pytest.fixture
def rig(broker: AnyBroker) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(broker.bootstrap_servers, stack)


# -- members come and go ----------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_that_is_killed_is_followed(rig: Rig, strategy: str) -> None:
    """Its partitions go to the others within the session timeout; nothing is left out, and what
    comes again is what it had not stored."""
    topic = rig.topic(4)
    settings = {"partition_assignment_strategy": strategy, "session_timeout_ms": 1000}
    consumer, stream = rig.stream(topic, **settings)
    handed: list[tuple[int, int]] = []
    with ConsumerProcess(
        "", rig.group, topic, "p", bootstrap_servers=rig.servers, **QUICK | settings
    ) as process:

        def collect() -> set[tuple[int, int]]:
            handed.extend((p, o) for p, o, _ in process.taken())
            handed.extend((m.partition, m.offset) for m in stream.poll(0.02))
            return set(handed)

        eventually(lambda: len(consumer.assignment.get(topic, ())) == 2)
        for start in range(0, 400, 40):
            rig.publish(topic, start, 40, 4)
            collect()
        process.signal(signal.SIGKILL)
        eventually(lambda: len(consumer.assignment.get(topic, ())) == 4)
        rig.publish(topic, 400, 40, 4)
        wanted = {(p, o) for p in range(4) for o in range(110)}
        eventually(lambda: collect() >= wanted)
    assert set(handed) == wanted
    # What it had not stored, and what the other one had in hand as it joined again.
    assert len(handed) - len(set(handed)) <= 400


def test_a_static_member_comes_back_without_a_rebalance(rig: Rig) -> None:
    topic = rig.topic(4, messages=40)
    static: dict[str, Any] = {"session_timeout_ms": 5000}
    other, _ = rig.stream(topic, group_instance_id="one", **static)
    named, _ = rig.stream(topic, group_instance_id="two", **static)
    eventually(lambda: len(other.assignment.get(topic, ())) == 2)
    had = named.assignment
    side = other._engine.coordination  # type: ignore[union-attr] # there are streams
    generation = side._driver.state.generation  # type: ignore[union-attr] # of the brokers' coordinator
    named.shutdown()
    again, _ = rig.stream(topic, group_instance_id="two", **static)
    assert again.assignment == had
    assert side._driver.state.generation == generation  # type: ignore[union-attr] # the same
    rig.stream(topic, group_instance_id="two", **static)

    def is_fenced() -> bool:
        try:
            again.commit_offsets()
        except KafkaError as error:
            return error.name == "FENCED_INSTANCE_ID"
        return False

    eventually(is_fenced)  # two of one name: the one that was there first is out


def test_a_slow_application_is_warned_then_followed(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    topic = rig.topic(2, messages=20)
    slow, stream = rig.stream(topic, max_poll_interval_ms=3000, session_timeout_ms=3000)
    other, _ = rig.stream(topic, max_poll_interval_ms=60_000, session_timeout_ms=3000)
    eventually(lambda: len(slow.assignment.get(topic, ())) == 1)
    message = stream.poll(60.0, 1)[0]

    def a_slow_handler() -> None:
        eventually(lambda: other.assignment == {topic: (0, 1)})

    with caplog.at_level(logging.WARNING, "tallymark.client.connector.connector"):
        a_slow_handler()
    place = f"{topic}-{message.partition} offset 0"
    told = [r.getMessage() for r in caplog.records if place in r.getMessage()]
    warning = next(text for text in told if "is slow" in text)
    assert "a_slow_handler" in warning
    assert "max_poll_interval_ms is 3000" in warning
    with pytest.raises(CommitFailedError):
        slow.commit_offsets({(topic, message.partition): 1})
    stream.poll(0.0)
    eventually(lambda: len(slow.assignment.get(topic, ())) == 1)


# -- the coordinator --------------------------------------------------------------------------


def test_a_broker_that_restarts_in_the_middle(tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(tmp_path, group_initial_rebalance_delay_ms=0))
        rig = Rig(broker.address, stack)
        topic = rig.topic(2, messages=20)
        consumer, stream = rig.stream(topic, session_timeout_ms=6000)
        assert sorted(numbers(take(stream, 20))) == list(range(20))
        stream.poll(0.0)
        consumer.commit_offsets()
        broker.kill()
        with pytest.raises(TallymarkError):
            rig.consumer(request_timeout_ms=300, start_timeout_ms=600).create_message_streams(
                {topic: 1}
            )
        broker.start()
        rig.publish(topic, 20, 20, 2)
        assert sorted(numbers(take(stream, 20))) == list(range(20, 40))
        stream.poll(0.0)
        consumer.commit_offsets()
        assert consumer.assignment == {topic: (0, 1)}


def test_no_broker_is_an_error_that_names_the_address() -> None:
    address = f"127.0.0.1:{free_port()}"
    with (
        ConsumerConnector(
            bootstrap_servers=address, group="g", start_timeout_ms=300, request_timeout_ms=300
        ) as consumer,
        pytest.raises(ConnectError, match=address),
    ):
        consumer.create_message_streams({"t": 1})


def test_what_the_coordinator_refuses_for_good_is_raised(rig: Rig) -> None:
    topic = rig.topic()
    rig.stream(topic, partition_assignment_strategy="range")
    with pytest.raises(KafkaError, match="INCONSISTENT_GROUP_PROTOCOL"):
        rig.stream(topic, partition_assignment_strategy="roundrobin")
    with pytest.raises(KafkaError, match="INVALID_SESSION_TIMEOUT"):
        rig.stream(topic, session_timeout_ms=50, heartbeat_interval_ms=10)


def test_shutdown_ends_everything_from_any_thread(rig: Rig) -> None:
    topic = rig.topic(messages=5)
    consumer, stream = rig.stream(topic)
    seen: list[int] = []
    reader = threading.Thread(target=lambda: seen.extend(m.offset for m in stream))
    reader.start()
    eventually(lambda: len(seen) == 5)
    consumer.shutdown()
    consumer.shutdown()
    reader.join(30)
    assert not reader.is_alive()
    for call in (
        lambda: consumer.seek(topic, 0, 1),
        lambda: consumer.rewind(to="smallest"),
        consumer.commit_offsets,
        lambda: consumer.create_message_streams({topic: 1}),
        stream.poll,
    ):
        with pytest.raises(ClosedError):
            call()
    assert rig.stored(topic) == 5
