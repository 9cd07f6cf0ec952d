"""Produce and TxnOffsetCommit in transactions, over a real socket, with a real coordinator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transactional_appends import on_the_loop, transactional_batch
from wire_producer import NOT_YET, WireProducer

from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.protocol.frames import decode_response
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.memory_broker import MemoryBroker
from tallymark.testing.wire import WireClient

UNSTABLE = CODES["UNSTABLE_OFFSET_COMMIT"]


@pytest.fixture(scope="module")
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as broker:
        yield broker


@pytest.fixture
def client(wire: WireClient, request: pytest.FixtureRequest) -> WireProducer:
    name = f"id-{request.node.name[:60]}".translate({ord(c): "_" for c in "[]-"})
    return WireProducer(wire, name)


def test_a_produce_of_version_12_adds_its_partition(client: WireProducer) -> None:
    assert client.produce(b"a") == client.produce(b"b") == 0
    assert client.committed() == ([], 0)
    client.end(commit=True)
    while client.committed()[1] != 3:
        pass
    assert client.committed()[0] == [b"a", b"b"]
    assert client.produce(b"c") == 0, "the broker asks again while the coordinator ends the first"


@pytest.mark.parametrize(
    ("version", "code"), [(9, "INVALID_TXN_STATE"), (11, "TRANSACTION_ABORTABLE")]
)
def test_before_it_the_partition_must_have_been_added(
    client: WireProducer, version: int, code: str
) -> None:
    assert client.produce(b"lost", version) == CODES[code]
    assert client.told.endswith(f"{client.name!r}: no transaction of it is open in this partition")
    assert client.add() == 0
    assert client.produce(b"a", version) == 0
    client.end(commit=True, version=3)
    while client.committed()[1] != 2:
        pass
    assert client.committed()[0] == [b"a"]
    assert client.produce(b"late", version) == CODES[code], "it would begin one that hangs"


def test_pipelined_batches_keep_their_order_behind_the_question(client: WireProducer) -> None:
    for sequence in range(4):
        client.wire.send(client.request(b"%d" % sequence, sequence), 12)
    for _ in range(4):
        answer = decode_response(client.wire.frame(), m.ProduceRequest, 12)[1]
        assert answer.responses[0].partition_responses[0].error_code == 0
    client.end(commit=True)
    while client.committed()[1] != 5:
        pass
    assert client.committed()[0] == [b"0", b"1", b"2", b"3"]


def test_a_fenced_producer_writes_nothing(client: WireProducer) -> None:
    assert client.produce(b"a") == 0
    zombie = client.id, client.epoch
    client.init()
    client.id, client.epoch = zombie
    assert client.produce(b"b") == CODES["INVALID_PRODUCER_EPOCH"]
    while client.committed()[1] != 2:
        pass
    assert client.committed() == ([], 2)


def test_other_producers_do_not_need_a_coordinator(client: WireProducer) -> None:
    """A plain batch in a request with an id, and one of a transaction in a request without."""
    request = client.request(b"a")
    anonymous = m.ProduceRequest(acks=-1, timeout_ms=1, topic_data=request.topic_data)
    answer = client.wire.ask(anonymous, 9).responses[0].partition_responses[0]
    assert answer.error_code == CODES["INVALID_TXN_STATE"]
    plain = m.ProduceRequestPartition(index=0, records=encode_batch([(None, b"p", (), 1)]))
    topics = [m.ProduceRequestTopic(name=client.topic, partition_data=[plain])]
    named = m.ProduceRequest(transactional_id=client.name, acks=-1, timeout_ms=1, topic_data=topics)
    assert client.wire.ask(named, 12).responses[0].partition_responses[0].error_code == 0


def test_nonsense_in_place_of_a_batch_is_refused(client: WireProducer) -> None:
    batch = bytearray(transactional_batch(b"x", producer=client.id, epoch=client.epoch))
    batch[43:51] = (-1).to_bytes(8, "big", signed=True)  # the producer id
    part = m.ProduceRequestPartition(index=0, records=bytes(batch))
    topics = [m.ProduceRequestTopic(name=client.topic, partition_data=[part])]
    request = m.ProduceRequest(transactional_id=client.name, acks=-1, topic_data=topics)
    answer = client.wire.ask(request, 12).responses[0].partition_responses[0]
    assert answer.error_code == CODES["INVALID_RECORD"]


# --- offsets


def test_offsets_are_in_force_when_the_transaction_commits(client: WireProducer) -> None:
    assert client.commit_offset(10) == 0
    assert client.offset() == client.offset(all_of_them=True) == (UNSTABLE, -1)
    assert client.offset(stable=False) == (0, -1)
    client.end(commit=True)
    while (found := client.offset())[0] == UNSTABLE:
        pass
    assert found == (0, 10)


def test_offsets_of_an_aborted_transaction_never_were(client: WireProducer) -> None:
    assert client.commit_offset(10) == 0
    client.end(commit=False)
    while (found := client.offset())[0] == UNSTABLE:
        pass
    assert found == (0, -1)


@pytest.mark.parametrize(
    ("version", "code"), [(3, "INVALID_TXN_STATE"), (4, "TRANSACTION_ABORTABLE")]
)
def test_before_version_5_the_group_must_have_been_added(
    client: WireProducer, version: int, code: str
) -> None:
    assert client.commit_offset(10, version) == CODES[code]
    request = m.AddOffsetsToTxnRequest(client.name, client.id, client.epoch, client.name)
    assert client.wire.ask(request, 3).error_code == 0
    assert client.commit_offset(10, version) == client.commit_offset(11, version) == 0
    client.end(commit=True, version=3)
    while (found := client.offset())[0] == UNSTABLE:
        pass
    assert found == (0, 11)


def test_a_stranger_to_the_group_commits_nothing(client: WireProducer) -> None:
    code = client.commit_offset(10, generation_id=3, member_id="m")
    assert code == CODES["ILLEGAL_GENERATION"]
    assert client.offset() == (0, -1)


def test_offsets_survive_a_restart_in_the_middle() -> None:
    with MemoryBroker() as broker:
        with WireClient(broker.bootstrap_servers) as wire:
            before = WireProducer(wire, "a")
            assert before.commit_offset(10) == before.produce(b"x") == 0
        broker.stop()
        broker.start()
        with WireClient(broker.bootstrap_servers) as wire:
            client = before
            client.wire = wire
            while (
                found := client.wire.ask(m.EndTxnRequest("a", client.id, client.epoch, True), 5)
            ).error_code in NOT_YET:
                pass
            assert found.error_code == 0
            while client.offset() != (0, 10):
                pass
            assert on_the_loop(broker, "a", lambda at: at.last_stable_offset) == 2
