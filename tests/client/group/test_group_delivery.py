"""A connector that a real broker coordinates: what is delivered, stored, and gone back to."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from broker_kinds import KINDS, AnyBroker, either_broker
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from consumer_process import ConsumerProcess
from eventually import eventually
from group_rig import BROKER, QUICK, Rig, numbers, take

from tallymark.client.connector.connector import ConsumerConnector
from tallymark.errors import ClosedError, CommitFailedError, OffsetOutOfRangeError, UserError

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


# -- delivery ---------------------------------------------------------------------------------


def test_at_least_once_what_is_in_hand_comes_again(rig: Rig) -> None:
    """A loop that fails at a message has not dealt with it: the next consumer gets it. Before, its
    offset was stored as soon as it was handed out, and the message was lost."""
    topic = rig.topic(messages=10)

    def work() -> None:
        with ConsumerConnector(bootstrap_servers=rig.servers, group=rig.group, **QUICK) as consumer:
            for message in consumer.create_message_streams({topic: 1})[topic][0]:
                if message.offset == 4:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    _, stream = rig.stream(topic)
    assert numbers(take(stream, 6)) == [4, 5, 6, 7, 8, 9]


def test_a_loop_that_ends_has_dealt_with_its_last_message(rig: Rig) -> None:
    topic = rig.topic(messages=10)
    with ConsumerConnector(bootstrap_servers=rig.servers, group=rig.group, **QUICK) as consumer:
        for message in consumer.create_message_streams({topic: 1})[topic][0]:
            if message.offset == 4:
                break
    _, stream = rig.stream(topic)
    assert numbers(take(stream, 5)) == [5, 6, 7, 8, 9]


def test_auto_commit_leaves_out_what_is_in_hand(rig: Rig) -> None:
    topic = rig.topic(messages=10)
    consumer, stream = rig.stream(topic, auto_commit_interval_ms=20)
    assert numbers([next(stream) for _ in range(4)]) == [0, 1, 2, 3]
    eventually(lambda: rig.stored(topic) == 3)
    consumer.commit_offsets()
    assert rig.stored(topic) == 4
    time.sleep(0.1)  # a commit of its own must not take that back
    assert rig.stored(topic) == 4


def test_at_most_once_nothing_comes_again(rig: Rig) -> None:
    """The offset is stored before the messages are handed out: a crash may lose, never repeat."""
    topic = rig.topic(messages=10)
    with ConsumerProcess(
        "", rig.group, topic, "p", bootstrap_servers=rig.servers, delivery="at_most_once"
    ) as process:
        eventually(lambda: bool(process.taken()))
        assert rig.stored(topic) == 10
        process.signal(signal.SIGKILL)
    rig.publish(topic, 10, 5)
    _, stream = rig.stream(topic, delivery="at_most_once", session_timeout_ms=2000)
    assert numbers(take(stream, 5)) == [10, 11, 12, 13, 14]


def test_at_most_once_who_leaves_in_order_loses_nothing(rig: Rig) -> None:
    topic = rig.topic(messages=10)
    with ConsumerConnector(
        bootstrap_servers=rig.servers, group=rig.group, delivery="at_most_once", **QUICK
    ) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        assert next(stream).offset == 0
        assert rig.stored(topic) == 10
    assert rig.stored(topic) == 1


# -- elsewhere --------------------------------------------------------------------------------


def test_seek_drops_what_is_queued_and_commits_go_along(rig: Rig) -> None:
    topic = rig.topic(messages=20)
    consumer, stream = rig.stream(topic, enable_auto_commit=False)
    assert numbers(take(stream, 12)) == list(range(12))
    consumer.seek(topic, 0, 3)
    consumer.commit_offsets()
    assert rig.stored(topic) == 3
    assert numbers(take(stream, 3)) == [3, 4, 5]
    consumer.seek(topic, 0, 18)
    assert numbers(take(stream, 2)) == [18, 19]
    consumer.seek(topic, 0, 400)  # out of range: as auto_offset_reset says
    assert numbers(take(stream, 1)) == [0]
    with pytest.raises(CommitFailedError, match="not owned"):
        consumer.seek(topic, 1, 0)
    with pytest.raises(UserError, match="-1 is no offset"):
        consumer.seek(topic, 0, -1)


def test_rewind_to_a_time_an_offset_or_an_end(rig: Rig) -> None:
    topic = rig.topic(2, messages=20)
    consumer, stream = rig.stream(topic)
    take(stream, 20)
    assert consumer.rewind(to_time_ms=1_010) == {(topic, 0): 5, (topic, 1): 5}
    assert sorted(numbers(take(stream, 10))) == list(range(10, 20))
    assert consumer.rewind(to_time_ms=9_999_999) == {(topic, 0): 10, (topic, 1): 10}
    assert consumer.rewind(to_offset=8, partition=1) == {(topic, 1): 8}
    assert numbers(take(stream, 2)) == [17, 19]
    assert consumer.rewind(to="smallest", topic="another") == {}
    consumer.rewind(to="smallest")
    assert len(take(stream, 20)) == 20
    consumer.rewind(to="largest")
    rig.publish(topic, 20, 2, 2)
    assert sorted(numbers(take(stream, 2))) == [20, 21]
    for wrong in ({}, {"to": "smallest", "to_offset": 1}, {"to": "middle"}, {"to_time_ms": -5}):
        with pytest.raises(UserError, match="rewind"):
            consumer.rewind(**wrong)


def test_nothing_is_decided_without_a_policy(rig: Rig) -> None:
    topic = rig.topic(messages=5)
    consumer = rig.consumer(auto_offset_reset="none")
    with pytest.raises(OffsetOutOfRangeError, match=rf"{topic}-0: no offset is stored.*0 to 4"):
        take(consumer.create_message_streams({topic: 1})[topic][0], 1)
    with pytest.raises(OffsetOutOfRangeError):
        consumer.commit_offsets()
    consumer.shutdown()
    with pytest.raises(ClosedError):
        consumer.commit_offsets()


def test_a_stored_offset_that_is_gone_has_a_policy_of_its_own(rig: Rig) -> None:
    topic = rig.topic(messages=5)
    consumer, stream = rig.stream(topic, out_of_range="none")
    take(stream, 1)
    consumer.seek(topic, 0, 77)
    with pytest.raises(OffsetOutOfRangeError, match="no offset 77") as caught:
        take(stream, 1)
    assert (caught.value.start, caught.value.end, caught.value.position) == (0, 5, 77)


def test_a_filter_finds_new_topics_and_leaves_out_what_is_denied(rig: Rig) -> None:
    first = rig.topic(messages=3)
    consumer = rig.consumer(metadata_max_age_ms=100)
    rig.publish(f"{first}-audit", 90, 1)
    (stream,) = consumer.create_message_streams_by_filter(f"{first}.*", deny=".*-audit")
    assert numbers(take(stream, 3)) == [0, 1, 2]
    rig.publish(f"{first}-new", 10, 3)
    assert numbers(take(stream, 3)) == [10, 11, 12]
    assert set(consumer.assignment) == {first, f"{first}-new"}


def test_partitions_that_a_topic_gets_are_read(rig: Rig) -> None:
    topic = rig.topic(1)
    consumer, _ = rig.stream(topic, metadata_max_age_ms=100)
    admin = AdminClient({"bootstrap.servers": rig.servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    eventually(lambda: consumer.assignment == {topic: (0, 1, 2)})
