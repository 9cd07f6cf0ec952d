"""A follower that has all of a partition costs its leader nothing until something changes, and
hears of each change: sessions of followers, on the wire of a broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from eventually import eventually
from replicated_topic import EPOCHS, FETCH_VERSION, ReplicatedTopic, one

from tallymark.broker.fetch_sessions import ReplicaSession
from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.protocol.frames import decode_response
from tallymark.protocol.records.batch import split_batches
from tallymark.replication.leading import Leader
from tallymark.replication.model import Assignment, BrokerView
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_broker import MemoryBroker
from tallymark.testing.wire import WireClient

LONG_MS = 60_000


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with MemoryBroker() as running:
        yield running


@pytest.fixture
def topic(broker: BrokerThread) -> ReplicatedTopic:
    """Five records, of which both followers have all."""
    found = ReplicatedTopic(broker, f"t{uuid.uuid4().hex[:8]}", records=5, known=2)
    with WireClient(broker.bootstrap_servers) as client:
        found.copied(client, 5)
    return found


class Follower:
    """Broker 1, with all five records, and its session."""

    def __init__(self, topic: ReplicatedTopic, wire: WireClient) -> None:
        self.topic = topic
        self.wire = wire
        self.epoch = 0
        self.session_id = wire.ask(topic.fetch(1, 5, session_epoch=0), FETCH_VERSION).session_id

    @property
    def session(self) -> ReplicaSession:
        sessions = self.topic.broker_state.replica_sessions
        found = sessions._sessions[self.session_id]
        assert isinstance(found, ReplicaSession)
        return found

    def asking(self, **fields: Any) -> m.FetchRequest:
        self.epoch += 1
        fixed: dict[str, Any] = {"topics": []}
        return self.topic.fetch(
            1, 5, session_id=self.session_id, session_epoch=self.epoch, **(fixed | fields)
        )

    def ask(self, **fields: Any) -> m.FetchResponse:
        return self.wire.ask(self.asking(**fields), FETCH_VERSION)

    def wait(self) -> None:
        """Send a request that the leader keeps."""
        self.wire.send(self.asking(max_wait_ms=LONG_MS), FETCH_VERSION)
        eventually(lambda: self.session._waiting)

    def answer(self) -> m.FetchResponse:
        return decode_response(self.wire.frame(), m.FetchRequest, FETCH_VERSION)[1]

    def rest(self) -> None:
        assert self.ask().responses == ()
        assert self.topic.on_loop(self.session.asked) == []


@pytest.fixture
def follower(topic: ReplicatedTopic, wire: WireClient) -> Follower:
    """At rest."""
    found = Follower(topic, wire)
    found.rest()
    return found


def test_what_rests_is_not_looked_at_and_stays_in_sync(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[object] = []
    monkeypatch.setattr(Leader, "fetched", lambda *told: looked.append(told))
    before = follower.session.heard_ms
    eventually(lambda: follower.ask().error_code == 0 and follower.session.heard_ms > before)
    assert looked == []
    assert follower.topic.lead.leader.in_sync == 3


def test_an_append_wakes_the_request_that_waits(
    follower: Follower, topic: ReplicatedTopic, broker: BrokerThread
) -> None:
    follower.wait()
    with WireClient(broker.bootstrap_servers) as producer:
        producer.ask(topic.produce(acks=1), 9)
    part = one(follower.answer())
    (batch,) = split_batches(bytes(part.records or b""))
    assert batch.header.base_offset == 5


def test_records_that_were_sent_are_sent_again_until_the_follower_asks_for_the_next(
    follower: Follower, topic: ReplicatedTopic, broker: BrokerThread
) -> None:
    with WireClient(broker.bootstrap_servers) as producer:
        producer.ask(topic.produce(acks=1), 9)
    for _ in range(3):
        assert one(follower.ask()).records
    assert topic.lead.leader.high_watermark == 5


def test_a_deletion_of_records_is_told_at_once(
    follower: Follower, topic: ReplicatedTopic, broker: BrokerThread
) -> None:
    """Followers heard of it with their next fetch, half a second later."""
    follower.wait()
    topic.run(topic.partition.delete_records(3))
    part = one(follower.answer())
    assert (part.log_start_offset, part.error_code) == (3, 0)


def test_a_high_watermark_is_told_with_the_next_answer(
    follower: Follower, topic: ReplicatedTopic, broker: BrokerThread
) -> None:
    with WireClient(broker.bootstrap_servers) as other:
        other.ask(topic.produce(acks=1), 9)
        assert one(follower.ask()).records
        named = topic.fetch(1, 6).topics
        follower.ask(topics=named)
        assert topic.on_loop(follower.session.asked) == []
        topic.copied(other, 6, (2,))
    assert one(follower.ask()).high_watermark == 6
    follower.rest()


def test_where_consumers_read_from_followers_a_high_watermark_is_told_at_once(
    follower: Follower, topic: ReplicatedTopic, broker: BrokerThread
) -> None:
    """KIP-1166: a consumer at a follower would see each record half a second late."""
    topic.on_loop(topic.lead.read_elsewhere)
    with WireClient(broker.bootstrap_servers) as other:
        other.ask(topic.produce(acks=1), 9)
        assert one(follower.ask()).records
        follower.wire.send(
            follower.asking(topics=topic.fetch(1, 6).topics, max_wait_ms=LONG_MS), FETCH_VERSION
        )
        eventually(lambda: follower.session._waiting)
        topic.copied(other, 6, (2,))
    assert one(follower.answer()).high_watermark == 6


def test_a_lead_that_is_lost_is_told_at_once(follower: Follower, topic: ReplicatedTopic) -> None:
    follower.wait()
    again = follower.asking()
    topic.on_loop(lambda: topic.broker_state.partitions.remove(topic.partition))
    assert one(follower.answer()).error_code == CODES["NOT_LEADER_OR_FOLLOWER"]
    answer = one(follower.wire.ask(again, FETCH_VERSION))
    assert answer.error_code == CODES["NOT_LEADER_OR_FOLLOWER"]


def test_a_replica_that_went_and_came_back_is_heard_again(
    follower: Follower, topic: ReplicatedTopic
) -> None:
    """What the leader knew of it is gone with its place in the assignment; a request that names
    nothing has to tell it again."""
    topic.on_loop(lambda: topic.leads.configured(topic.key, Assignment((0, 2)), 2))
    topic.on_loop(lambda: topic.leads.configured(topic.key, Assignment((0, 1, 2)), 2))
    assert topic.on_loop(follower.session.asked) != []
    follower.ask()
    assert topic.lead.leader._followers[1].end == 5


def test_another_registration_of_the_follower_stirs_all(
    follower: Follower, topic: ReplicatedTopic
) -> None:
    newer = {one: BrokerView(one, epoch) for one, epoch in (EPOCHS | {1: 21}).items()}
    topic.on_loop(lambda: topic.leads.brokers_changed(newer))
    topic.look_over()
    assert one(follower.ask()).error_code == CODES["STALE_BROKER_EPOCH"]
    assert follower.ask(epoch=21).error_code == 0
    assert topic.lead.leader._followers[1].end == 5


def test_a_partition_that_is_forgotten_is_not_heard_of_any_more(
    follower: Follower, topic: ReplicatedTopic, broker: BrokerThread
) -> None:
    """Its follower has set it aside: requests for others must not keep it in sync."""
    seat = topic.lead.leader._followers[1].heard
    assert seat is not None
    other = ReplicatedTopic(broker, f"t{uuid.uuid4().hex[:8]}", records=1, known=1)
    forgotten = m.FetchRequestForgottenTopic(topic_id=topic.topic_id, partitions=(0,))
    follower.ask(topics=other.fetch(1, 1).topics, forgotten_topics_data=(forgotten,))
    then, now = seat.ms, follower.session.heard_ms
    eventually(lambda: follower.ask().error_code == 0 and follower.session.heard_ms > now)
    assert seat.ms == then
    others = other.lead.leader._followers[1].heard
    assert others is not None
    assert others.ms == follower.session.heard_ms > then


def test_a_session_that_ends_leaves_nothing_at_the_leads(
    follower: Follower, topic: ReplicatedTopic
) -> None:
    assert topic.lead._resting
    topic.on_loop(lambda: topic.broker_state.replica_sessions._end(follower.session_id))
    assert not topic.lead._resting
    assert follower.ask().error_code == CODES["FETCH_SESSION_ID_NOT_FOUND"]
