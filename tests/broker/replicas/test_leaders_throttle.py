"""What a leader holds back from followers that are out of sync (KIP-73), on the wire."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from replicated_topic import FETCH_VERSION, ReplicatedTopic, one

from tallymark.broker.metadata.image import PartitionImage
from tallymark.errors import CODES
from tallymark.protocol.frames import decode_response
from tallymark.protocol.messages import FetchRequest
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_broker import MemoryBroker
from tallymark.testing.wire import WireClient

LEADERS = "leader.replication.throttled.replicas"


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with MemoryBroker() as running:
        yield running


def throttled(broker: BrokerThread, listed: str, isr: tuple[int, ...] = (0, 2)) -> ReplicatedTopic:
    """Five records; a rate that is spent with the first answer."""
    topic = ReplicatedTopic(
        broker,
        f"t{uuid.uuid4().hex[:8]}",
        isr=isr,
        records=5,
        known=2,
        configs={LEADERS: listed},
    )
    state = topic.broker_state
    known = state.image.topics[topic.name]
    states = PartitionImage.of(0, 0, (0, 1, 2), isr)
    changed = known.with_states({0: states.state})

    def begin() -> None:
        state.partitions.image = state.image.with_topic(changed)
        assert state.throttles is not None
        state.throttles.set_rate(1)

    topic.on_loop(begin)
    return topic


def sent(wire: WireClient, topic: ReplicatedTopic, follower: int, max_wait_ms: int = 0) -> int:
    part = one(wire.ask(topic.fetch(follower, 0, max_wait_ms=max_wait_ms), FETCH_VERSION))
    assert part.error_code == 0
    return len(bytes(part.records or b""))


@pytest.mark.parametrize("listed", ["*", "0:0", "7:7,0:0"])
def test_one_answer_passes_and_the_next_one_is_paid_for_before(
    broker: BrokerThread, wire: WireClient, listed: str
) -> None:
    topic = throttled(broker, listed)
    assert sent(wire, topic, 1) > 0
    assert sent(wire, topic, 1) == 0
    assert one(wire.ask(topic.fetch(1, 0), FETCH_VERSION)).high_watermark == 2


def test_what_is_sent_to_a_replica_that_is_held_back_is_counted(
    broker: BrokerThread, wire: WireClient
) -> None:
    topic = throttled(broker, "*")
    assert sent(wire, topic, 2) > 0, "in sync: it does not count"
    throttles = topic.broker_state.throttles
    assert throttles is not None
    assert throttles.leading.charged == 0
    size = sent(wire, topic, 1)
    assert throttles.leading.charged == size > 0
    assert sent(wire, topic, 1) == 0
    assert throttles.leading.charged == size


@pytest.mark.parametrize("listed", ["", "0:1", "1:0"])
def test_replicas_that_are_not_listed_for_this_broker_are_not_held_back(
    broker: BrokerThread, wire: WireClient, listed: str
) -> None:
    """The list names the broker that sends, not the one that copies."""
    topic = throttled(broker, listed)
    assert [sent(wire, topic, 1) > 0 for _ in range(3)] == [True] * 3


def test_a_replica_in_sync_is_not_held_back(broker: BrokerThread, wire: WireClient) -> None:
    """It would leave the ISR, and acks=all would fail for a move."""
    topic = throttled(broker, "*")
    assert sent(wire, topic, 1) > 0
    assert [sent(wire, topic, 2) > 0 for _ in range(3)] == [True] * 3
    assert sent(wire, topic, 1) == 0


def test_a_rate_that_is_lifted_lets_everything_pass(broker: BrokerThread, wire: WireClient) -> None:
    topic = throttled(broker, "*")
    assert sent(wire, topic, 1) > 0
    throttles = topic.broker_state.throttles
    assert throttles is not None
    topic.on_loop(lambda: throttles.set_rate(None))
    assert [sent(wire, topic, 1) > 0 for _ in range(3)] == [True] * 3


def test_a_follower_is_answered_when_it_may_be_sent_more_not_at_the_end_of_its_wait(
    broker: BrokerThread, wire: WireClient
) -> None:
    topic = throttled(broker, "*")
    throttles = topic.broker_state.throttles
    assert throttles is not None
    topic.on_loop(lambda: throttles.set_rate(2000))
    assert sent(wire, topic, 1) > 0
    topic.on_loop(lambda: throttles.charge(2000))
    assert sent(wire, topic, 1, max_wait_ms=200_000) > 0, "after a second, when the debt is paid"


def test_an_offset_that_is_out_of_range_is_told_to_a_replica_that_is_held_back(
    broker: BrokerThread, wire: WireClient
) -> None:
    topic = throttled(broker, "*")
    assert sent(wire, topic, 1) > 0
    wire.send(topic.fetch(1, 99, max_wait_ms=60_000), FETCH_VERSION)
    _, response = decode_response(wire.frame(), FetchRequest, FETCH_VERSION)
    assert one(response).error_code in (0, CODES["OFFSET_OUT_OF_RANGE"])
    assert one(response).error_code or one(response).diverging_epoch.epoch >= 0
