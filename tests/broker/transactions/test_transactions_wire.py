"""Transactions over a real socket: the topic of their state, every version, restarts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallymark.errors import CODES
from tallymark.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    ApiVersionsRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC
from tallymark.testing.memory_broker import MemoryBroker
from tallymark.testing.wire import WireClient


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as broker:
        yield broker


def begin(wire: WireClient, name: str = "id") -> tuple[int, int]:
    found = wire.ask(FindCoordinatorRequest(name, 1), 3)
    assert (found.error_code, found.port > 0) == (0, True)
    while True:
        answer = wire.ask(InitProducerIdRequest(name, 60_000), 4)
        # Both say "try again": its partition is loaded, or markers are on their way.
        if answer.error_code not in (14, 51):
            assert answer.error_code == 0
            return answer.producer_id, answer.producer_epoch


def create(wire: WireClient, topic: str) -> None:
    wire.ask(MetadataRequest([MetadataRequestTopic(name=topic)]), 9)


def add(wire: WireClient, producer: tuple[int, int], topic: str, version: int = 3) -> int:
    topics = [AddPartitionsToTxnRequestTopic(topic, [0])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=topics,
    )
    while True:
        answer = wire.ask(request, version)
        (found,) = answer.results_by_topic_v3_and_below
        code = found.results_by_partition[0].partition_error_code
        if code != CODES["CONCURRENT_TRANSACTIONS"]:
            return code


def state_of(wire: WireClient, name: str = "id") -> tuple[str, int, int]:
    (found,) = wire.ask(DescribeTransactionsRequest([name]), 0).transaction_states
    assert found.error_code in (0, CODES["COORDINATOR_LOAD_IN_PROGRESS"])
    return found.transaction_state, found.producer_id, found.producer_epoch


def await_state(wire: WireClient, state: str) -> None:
    while state_of(wire)[0] != state:
        pass


def test_the_topic_of_the_state_is_made_when_a_coordinator_is_first_looked_for(
    wire: WireClient,
) -> None:
    wire.ask(FindCoordinatorRequest("id", 1), 3)
    (topic,) = wire.ask(MetadataRequest([MetadataRequestTopic(name=TRANSACTIONS_TOPIC)]), 9).topics
    assert (len(topic.partitions), topic.is_internal) == (50, True)


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_begins_and_ends_in_every_version(wire: WireClient, version: int) -> None:
    create(wire, "t")
    producer = begin(wire)
    assert add(wire, producer, "t", min(version, 3)) == 0
    group = AddOffsetsToTxnRequest("id", *producer, "g")
    assert wire.ask(group, min(version, 4)).error_code == 0
    assert state_of(wire)[0] == "Ongoing"
    ended = wire.ask(EndTxnRequest("id", *producer, True), version)
    assert ended.error_code == 0
    if version >= 5:
        assert (ended.producer_id, ended.producer_epoch) == (producer[0], producer[1] + 1)
    await_state(wire, "CompleteCommit")


def test_the_next_producer_of_an_id_aborts_what_the_one_before_left_open(wire: WireClient) -> None:
    create(wire, "t")
    first = begin(wire)
    assert add(wire, first, "t") == 0
    second = begin(wire)
    assert second == (first[0], first[1] + 2)
    zombie = wire.ask(EndTxnRequest("id", *first, True), 4)
    assert zombie.error_code == CODES["PRODUCER_FENCED"]


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_decided_is_there_after_a_restart(broker: MemoryBroker, clean: bool) -> None:
    with WireClient(broker.bootstrap_servers) as wire:
        create(wire, "t")
        producer = begin(wire)
        assert add(wire, producer, "t") == 0
        before = state_of(wire)
    if clean:
        broker.stop()
        broker.start()
        with WireClient(broker.bootstrap_servers) as wire:
            await_state(wire, "Ongoing")
            assert state_of(wire) == before
            assert wire.ask(EndTxnRequest("id", *producer, False), 4).error_code == 0
            await_state(wire, "CompleteAbort")
        return
    broker.kill()
    broker.start()
    with WireClient(broker.bootstrap_servers) as wire:
        assert begin(wire) != producer


def test_an_overdue_transaction_is_aborted() -> None:
    with (
        MemoryBroker(
            transaction_abort_timed_out_transaction_cleanup_interval_ms=20, num_partitions=1
        ) as broker,
        WireClient(broker.bootstrap_servers) as wire,
    ):
        create(wire, "t")
        wire.ask(FindCoordinatorRequest("id", 1), 3)
        answer = wire.ask(InitProducerIdRequest("id", 1), 4)
        while answer.error_code == CODES["COORDINATOR_LOAD_IN_PROGRESS"]:
            answer = wire.ask(InitProducerIdRequest("id", 1), 4)
        assert add(wire, (answer.producer_id, answer.producer_epoch), "t") == 0
        await_state(wire, "CompleteAbort")
        listed = wire.ask(ListTransactionsRequest(["CompleteAbort"]), 1)
        assert [each.transactional_id for each in listed.transaction_states] == ["id"]


def test_alone_a_broker_offers_the_protocol_in_which_each_end_raises_the_epoch(
    wire: WireClient,
) -> None:
    told = wire.ask(ApiVersionsRequest(client_software_name="wire", client_software_version="1"), 4)
    levels = {each.name: each.max_version_level for each in told.finalized_features}
    assert levels == {"transaction.version": 2}
