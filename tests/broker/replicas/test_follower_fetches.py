"""Fetches with a replica id, on the wire of a broker that leads a partition of three replicas."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from eventually import eventually
from replicated_topic import EPOCHS, FETCH_VERSION, ReplicatedTopic, one

from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.protocol.frames import decode_response
from tallymark.protocol.records.batch import split_batches
from tallymark.replication.leading import Leader
from tallymark.replication.model import BrokerView
from tallymark.replication.progress import FollowerFetch
from tallymark.replication.truncation import EpochEnd, Epochs
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_broker import MemoryBroker
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with MemoryBroker() as running:
        yield running


@pytest.fixture
def topic(broker: BrokerThread) -> ReplicatedTopic:
    """Five records, of which two are known to be committed."""
    return ReplicatedTopic(broker, f"t{uuid.uuid4().hex[:8]}", records=5, known=2)


def offsets(part: m.FetchResponsePartition) -> list[int]:
    assert part.error_code == 0, part.error_code
    return [each.header.base_offset for each in split_batches(bytes(part.records or b""))]


def refused(wire: WireClient, request: m.FetchRequest) -> str:
    code = one(wire.ask(request, FETCH_VERSION)).error_code
    return next(name for name, number in CODES.items() if number == code)


# --- what it reads


def test_a_follower_reads_to_the_end_and_a_consumer_to_the_high_watermark(
    wire: WireClient, topic: ReplicatedTopic
) -> None:
    answer = one(wire.ask(topic.fetch(1, 1), FETCH_VERSION))
    assert offsets(answer) == [1, 2, 3, 4]
    assert (answer.high_watermark, answer.log_start_offset) == (2, 0)
    assert offsets(one(wire.ask(topic.consume(1), FETCH_VERSION))) == [1]
    assert offsets(one(wire.ask(topic.consume(1, isolation=1), FETCH_VERSION))) == [1]


@pytest.mark.parametrize("offset", [2, 4, 5])
def test_between_high_watermark_and_end_a_consumer_waits(
    wire: WireClient, broker: BrokerThread, topic: ReplicatedTopic, offset: int
) -> None:
    """An error would send it back to the start of the log, or to its end (KAFKA-7414)."""
    answer = one(wire.ask(topic.consume(offset), FETCH_VERSION))
    assert (answer.error_code, answer.high_watermark) == (0, 2)
    assert not answer.records
    wire.send(topic.consume(offset, max_wait_ms=60_000), FETCH_VERSION)
    with WireClient(broker.bootstrap_servers) as other:
        topic.copied(other, 5)
        if offset == 5:
            other.ask(topic.produce(acks=1), 9)
            topic.copied(other, 6)
    _, response = decode_response(wire.frame(), m.FetchRequest, FETCH_VERSION)
    assert offsets(one(response))[0] == offset


def test_the_high_watermark_is_what_all_have_and_is_told_with_the_next_answer(
    wire: WireClient, topic: ReplicatedTopic
) -> None:
    assert one(wire.ask(topic.fetch(1, 5), FETCH_VERSION)).high_watermark == 2
    assert one(wire.ask(topic.fetch(2, 4), FETCH_VERSION)).high_watermark == 4
    assert one(wire.ask(topic.fetch(2, 5), FETCH_VERSION)).high_watermark == 5


def test_a_follower_that_waits_is_woken_by_an_append(
    wire: WireClient, broker: BrokerThread, topic: ReplicatedTopic
) -> None:
    """It must not wait for the high watermark, which waits for it."""
    wire.send(topic.fetch(1, 5, max_wait_ms=60_000), FETCH_VERSION)
    eventually(lambda: topic.lead.copying)
    with WireClient(broker.bootstrap_servers) as producer:
        producer.ask(topic.produce(acks=1), 9)
    _, response = decode_response(wire.frame(), m.FetchRequest, FETCH_VERSION)
    assert offsets(one(response)) == [5]


def test_a_follower_that_waits_hears_that_the_lead_is_lost(
    wire: WireClient, topic: ReplicatedTopic
) -> None:
    wire.send(topic.fetch(1, 5, max_wait_ms=60_000), FETCH_VERSION)
    eventually(lambda: topic.lead.copying)
    topic.on_loop(lambda: topic.broker_state.partitions.remove(topic.partition))
    _, response = decode_response(wire.frame(), m.FetchRequest, FETCH_VERSION)
    assert one(response).error_code == CODES["NOT_LEADER_OR_FOLLOWER"]


# --- what it must not do


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"broker": 7}, "UNKNOWN_LEADER_EPOCH"),  # foreign
        ({"broker": 0}, "UNKNOWN_LEADER_EPOCH"),  # the leader itself
        ({"epoch": 10}, "STALE_BROKER_EPOCH"),
        ({"epoch": -1}, "STALE_BROKER_EPOCH"),
        ({"leader_epoch": 1}, "UNKNOWN_LEADER_EPOCH"),
        ({"leader_epoch": -1}, "FENCED_LEADER_EPOCH"),
        ({"offset": 99, "last_epoch": -1}, "OFFSET_OUT_OF_RANGE"),
        ({"offset": -1}, "OFFSET_OUT_OF_RANGE"),
        ({"offset": 3, "last_epoch": 4}, "OFFSET_OUT_OF_RANGE"),  # newer than all epochs here
    ],
)
def test_a_fetch_that_must_not_count_is_refused(
    wire: WireClient, topic: ReplicatedTopic, fields: dict[str, Any], error: str
) -> None:
    topic.copied(wire, 5, (2,))
    asked: dict[str, Any] = {"broker": 1, "offset": 5} | fields
    assert refused(wire, topic.fetch(**asked)) == error
    assert topic.partition.high_watermark == 2
    assert topic.states.calls == []


def test_a_fetch_in_an_older_leader_epoch_is_fenced(
    wire: WireClient, broker: BrokerThread, topic: ReplicatedTopic
) -> None:
    topic.on_loop(lambda: setattr(topic.partition, "leader_epoch", 3))
    assert refused(wire, topic.fetch(1, 5, leader_epoch=2)) == "FENCED_LEADER_EPOCH"


def test_a_refused_fetch_says_nothing_of_other_partitions(
    wire: WireClient, topic: ReplicatedTopic
) -> None:
    request = topic.fetch(1, 5)
    (named,) = request.topics
    (part,) = named.partitions
    strange = replace(named, partitions=[part, replace(part, partition=7)])
    unknown = replace(named, topic_id=uuid.UUID(int=99))
    answer = wire.ask(replace(request, topics=[strange, unknown]), FETCH_VERSION)
    codes = [[p.error_code for p in t.partitions] for t in answer.responses]
    assert codes == [[0, CODES["UNKNOWN_TOPIC_OR_PARTITION"]], [CODES["UNKNOWN_TOPIC_ID"]]]


def test_a_log_below_the_start_of_the_leaders_begins_anew(
    wire: WireClient, topic: ReplicatedTopic
) -> None:
    topic.copied(wire, 5)
    topic.run(topic.partition.delete_records(3))
    assert refused(wire, topic.fetch(1, 1)) == "OFFSET_OUT_OF_RANGE"
    assert offsets(one(wire.ask(topic.fetch(1, 3), FETCH_VERSION))) == [3, 4]


def test_a_follower_is_told_where_its_log_parts(wire: WireClient, broker: BrokerThread) -> None:
    topic = ReplicatedTopic(broker, "parts", records=5, known=2)
    log = topic.partition.log
    topic.on_loop(lambda: log.start_epoch(3))
    topic.on_loop(lambda: setattr(topic.partition, "leader_epoch", 3))
    for last_epoch, offset in ((2, 8), (2, 5), (0, 6)):
        with_more = topic.fetch(1, offset, last_epoch=last_epoch, leader_epoch=3)
        answer = one(wire.ask(with_more, FETCH_VERSION))
        told = answer.diverging_epoch
        assert (answer.error_code, told.epoch, told.end_offset) == (0, 0, 5)
        assert not answer.records
    assert topic.partition.high_watermark == 2


def test_partitions_with_one_replica_have_no_followers(
    wire: WireClient, broker: BrokerThread, topic: ReplicatedTopic
) -> None:
    made = m.CreateTopicsRequestTopic(name="single", num_partitions=1, replication_factor=1)
    wire.ask(m.CreateTopicsRequest(topics=[made], timeout_ms=5000), 5)
    single = topic.on_loop(lambda: topic.broker_state.partitions.find("single", 0))
    request = topic.fetch(1, 0)
    (named,) = request.topics
    answer = wire.ask(
        replace(request, topics=[replace(named, topic_id=single.topic_id)]), FETCH_VERSION
    )
    assert one(answer).error_code == CODES["UNKNOWN_LEADER_EPOCH"]


@pytest.mark.parametrize("version", range(4, 15))
def test_before_version_15_a_replica_id_is_not_served(
    wire: WireClient, topic: ReplicatedTopic, version: int
) -> None:
    """Such a request does not say which registration asks (KIP-903), so it could not count. It is
    no consumer's either: the sender believes that it reads to the end."""
    by_name = version < 13
    request = topic.fetch(1, 5, replica_id=1)
    (named,) = request.topics
    named = replace(named, topic=topic.name if by_name else "")
    answer = wire.ask(replace(request, topics=[named]), version)
    assert one(answer).error_code == CODES["UNSUPPORTED_VERSION"]
    assert topic.partition.high_watermark == 2


# --- sessions, counters


def test_a_session_of_a_follower_is_outside_of_those_of_consumers(
    wire: WireClient, topic: ReplicatedTopic
) -> None:
    sessions = topic.broker_state.fetch_sessions
    before = len(sessions)
    opened = wire.ask(topic.fetch(1, 4, session_epoch=0), FETCH_VERSION)
    assert opened.session_id in topic.broker_state.replica_sessions
    assert len(sessions) == before
    nothing_new = topic.fetch(1, 4, session_id=opened.session_id, session_epoch=1, topics=[])
    answer = wire.ask(nothing_new, FETCH_VERSION)
    assert offsets(one(answer)) == [4]
    consumers = replace(topic.consume(4), session_id=opened.session_id, session_epoch=2)
    assert wire.ask(consumers, FETCH_VERSION).error_code == CODES["FETCH_SESSION_ID_NOT_FOUND"]


def test_a_session_returns_each_time_where_the_logs_diverge(
    wire: WireClient, broker: BrokerThread
) -> None:
    """KIP-279 takes several rounds. The second one of a session was left out, since high watermark
    and log start were as before: the follower asked the same for ever."""
    topic = ReplicatedTopic(broker, "rounds", records=5, known=2)
    log = topic.partition.log
    topic.on_loop(lambda: log.start_epoch(3))
    topic.on_loop(lambda: setattr(topic.partition, "leader_epoch", 3))
    first = topic.fetch(1, 9, last_epoch=2, leader_epoch=3, session_epoch=0)
    opened = wire.ask(first, FETCH_VERSION)
    for epoch, offset in ((1, 8), (2, 7), (3, 7)):
        again = topic.fetch(
            1,
            offset,
            last_epoch=2,
            leader_epoch=3,
            session_id=opened.session_id,
            session_epoch=epoch,
        )
        told = one(wire.ask(again, FETCH_VERSION)).diverging_epoch
        assert (told.epoch, told.end_offset) == (0, 5)


def test_each_request_of_a_session_counts_as_a_fetch_of_all_its_partitions(
    wire: WireClient, topic: ReplicatedTopic
) -> None:
    """An idle partition is not named again: its follower would have fallen out of sync."""
    opened = wire.ask(topic.fetch(1, 5, session_epoch=0), FETCH_VERSION)
    heard: list[FollowerFetch] = []
    lead = topic.lead.leader
    known = lead.fetched

    def fetched(fetch: FollowerFetch, epochs: Epochs, now_ms: int) -> EpochEnd | None:
        heard.append(fetch)
        return known(fetch, epochs, now_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Leader, "fetched", lambda _, *told: fetched(*told))
        again = topic.fetch(1, 5, session_id=opened.session_id, session_epoch=1, topics=[])
        assert wire.ask(again, FETCH_VERSION).error_code == 0
    assert [one._replace(heard=None) for one in heard] == [FollowerFetch(1, 11, 5, 0)]


def test_quotas_of_clients_do_not_hold_followers_back(broker: BrokerThread) -> None:
    """A quota for all users would put every follower out of sync. It has another principal in
    most clusters, but not where there is no log-in."""
    topic = ReplicatedTopic(broker, "quotas", records=5, known=5)
    entry = m.AlterClientQuotasRequestEntry(
        entity=[m.AlterClientQuotasRequestEntity(entity_type="client-id", entity_name="wire")],
        ops=[m.AlterClientQuotasRequestOp(key="consumer_byte_rate", value=1.0, remove=False)],
    )
    with WireClient(broker.bootstrap_servers) as admin:
        changed = admin.ask(m.AlterClientQuotasRequest(entries=[entry]), 1)
        assert changed.entries[0].error_code == 0
        try:
            for _ in range(20):
                answer = admin.ask(topic.fetch(1, 0), FETCH_VERSION)
                assert len(offsets(one(answer))) == 5
                assert answer.throttle_time_ms == 0
            assert admin.ask(topic.consume(0), FETCH_VERSION).throttle_time_ms > 0
        finally:
            ops = [m.AlterClientQuotasRequestOp(key="consumer_byte_rate", value=0.0, remove=True)]
            with WireClient(broker.bootstrap_servers) as other:
                removed = m.AlterClientQuotasRequest(entries=[replace(entry, ops=ops)])
                assert other.ask(removed, 1).entries[0].error_code == 0


def test_bytes_for_followers_are_counted_apart(wire: WireClient, topic: ReplicatedTopic) -> None:
    counts = topic.broker_state.metrics.replication
    sent, consumed = counts.sent_bytes, topic.partition.traffic.sent_bytes
    answer = one(wire.ask(topic.fetch(1, 0), FETCH_VERSION))
    assert counts.sent_bytes - sent == len(bytes(answer.records or b"")) > 0
    assert topic.partition.traffic.sent_bytes == consumed


def test_a_follower_that_registered_again_counts_only_under_its_new_epoch(
    wire: WireClient, topic: ReplicatedTopic
) -> None:
    topic.copied(wire, 5, (2,))
    newer = {one: BrokerView(one, epoch) for one, epoch in (EPOCHS | {1: 21}).items()}
    topic.on_loop(lambda: topic.leads.brokers_changed(newer))
    topic.look_over()
    assert refused(wire, topic.fetch(1, 5)) == "STALE_BROKER_EPOCH"
    assert topic.partition.high_watermark == 2
    assert one(wire.ask(topic.fetch(1, 5, epoch=21), FETCH_VERSION)).high_watermark == 5
