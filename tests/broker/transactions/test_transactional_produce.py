"""Produce and TxnOffsetCommit in transactions, over a real socket, with a real coordinator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transactional_appends import on_the_loop, transactional_batch

from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.protocol.frames import decode_response
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.memory_broker import MemoryBroker
from tallymark.testing.wire import WireClient

AGAIN = {CODES["CONCURRENT_TRANSACTIONS"], CODES["COORDINATOR_LOAD_IN_PROGRESS"]}
NOT_YET = {*AGAIN, CODES["NOT_COORDINATOR"], CODES["COORDINATOR_NOT_AVAILABLE"]}
UNSTABLE = CODES["UNSTABLE_OFFSET_COMMIT"]


@pytest.fixture(scope="module")
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as broker:
        yield broker


class Client:
    """One transactional producer. ``topic`` exists, with one partition."""

    def __init__(self, wire: WireClient, name: str) -> None:
        self.wire, self.name, self.topic = wire, name, name
        self.sequence, self.told = 0, ""
        for key, kind in ((name, 1), (name, 0)):
            wire.ask(m.FindCoordinatorRequest(key, kind), 3)
        wire.ask(m.MetadataRequest(topics=[m.MetadataRequestTopic(name=name)]), 12)
        self.id, self.epoch = self.init()

    def init(self) -> tuple[int, int]:
        while (
            answer := self.wire.ask(m.InitProducerIdRequest(self.name, 60_000), 4)
        ).error_code in AGAIN:
            pass
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    def request(self, value: bytes, sequence: int | None = None) -> m.ProduceRequest:
        first = self.sequence if sequence is None else sequence
        records = transactional_batch(value, producer=self.id, epoch=self.epoch, first=first)
        part = m.ProduceRequestPartition(index=0, records=records)
        return m.ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[m.ProduceRequestTopic(name=self.topic, partition_data=[part])],
        )

    def produce(self, value: bytes, version: int = 12) -> int:
        answer = self.wire.ask(self.request(value), version)
        part = answer.responses[0].partition_responses[0]
        self.sequence += part.error_code == 0
        self.told = part.error_message or ""
        return part.error_code

    def add(self) -> int:
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[m.AddPartitionsToTxnRequestTopic(self.topic, [0])],
        )
        while True:
            answer = self.wire.ask(request, 3).results_by_topic_v3_and_below[0]
            code = answer.results_by_partition[0].partition_error_code
            if code not in AGAIN:
                return code

    def end(self, *, commit: bool, version: int = 5) -> None:
        answer = self.wire.ask(m.EndTxnRequest(self.name, self.id, self.epoch, commit), version)
        assert answer.error_code == 0
        if version >= 5:
            self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    def commit_offset(self, offset: int, version: int = 5, **member: object) -> int:
        part = m.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = m.TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[m.TxnOffsetCommitRequestTopic(self.topic, [part])],
            **member,  # type: ignore[arg-type] # fields of the request
        )
        while True:
            code = self.wire.ask(request, version).topics[0].partitions[0].error_code
            if code not in NOT_YET:
                return code

    def offset(self, *, stable: bool = True, all_of_them: bool = False) -> tuple[int, int]:
        topics = [m.OffsetFetchRequestTopic(name=self.topic, partition_indexes=[0])]
        asked = m.OffsetFetchRequestGroup(self.name, topics=None if all_of_them else topics)
        request = m.OffsetFetchRequest(groups=[asked], require_stable=stable)
        part = self.wire.ask(request, 8).groups[0].topics[0].partitions[0]
        return part.error_code, part.committed_offset

    def committed(self) -> tuple[list[bytes], int]:
        """What a committed reader gets, and where it stops."""
        part = m.FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = m.FetchRequest(
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[m.FetchRequestTopic(topic=self.topic, partitions=[part])],
        )
        found = self.wire.ask(request, 12).responses[0].partitions[0]
        aborted = [each.producer_id for each in found.aborted_transactions or ()]
        batches = split_batches(found.records or b"")
        values = [
            bytes(r.value or b"") for b in batches if not b.header.is_control for r in b.records()
        ]
        return ([] if aborted else values), found.last_stable_offset


@pytest.fixture
def client(wire: WireClient, request: pytest.FixtureRequest) -> Client:
    return Client(wire, f"id-{request.node.name[:60]}".translate({ord(c): "_" for c in "[]-"}))


def test_a_produce_of_version_12_adds_its_partition(client: Client) -> None:
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
    client: Client, version: int, code: str
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


def test_pipelined_batches_keep_their_order_behind_the_question(client: Client) -> None:
    for sequence in range(4):
        client.wire.send(client.request(b"%d" % sequence, sequence), 12)
    for _ in range(4):
        answer = decode_response(client.wire.frame(), m.ProduceRequest, 12)[1]
        assert answer.responses[0].partition_responses[0].error_code == 0
    client.end(commit=True)
    while client.committed()[1] != 5:
        pass
    assert client.committed()[0] == [b"0", b"1", b"2", b"3"]


def test_a_fenced_producer_writes_nothing(client: Client) -> None:
    assert client.produce(b"a") == 0
    zombie = client.id, client.epoch
    client.init()
    client.id, client.epoch = zombie
    assert client.produce(b"b") == CODES["INVALID_PRODUCER_EPOCH"]
    while client.committed()[1] != 2:
        pass
    assert client.committed() == ([], 2)


def test_other_producers_do_not_need_a_coordinator(client: Client) -> None:
    """A plain batch in a request with an id, and one of a transaction in a request without."""
    request = client.request(b"a")
    anonymous = m.ProduceRequest(acks=-1, timeout_ms=1, topic_data=request.topic_data)
    answer = client.wire.ask(anonymous, 9).responses[0].partition_responses[0]
    assert answer.error_code == CODES["INVALID_TXN_STATE"]
    plain = m.ProduceRequestPartition(index=0, records=encode_batch([(None, b"p", (), 1)]))
    topics = [m.ProduceRequestTopic(name=client.topic, partition_data=[plain])]
    named = m.ProduceRequest(transactional_id=client.name, acks=-1, timeout_ms=1, topic_data=topics)
    assert client.wire.ask(named, 12).responses[0].partition_responses[0].error_code == 0


def test_nonsense_in_place_of_a_batch_is_refused(client: Client) -> None:
    batch = bytearray(transactional_batch(b"x", producer=client.id, epoch=client.epoch))
    batch[43:51] = (-1).to_bytes(8, "big", signed=True)  # the producer id
    part = m.ProduceRequestPartition(index=0, records=bytes(batch))
    topics = [m.ProduceRequestTopic(name=client.topic, partition_data=[part])]
    request = m.ProduceRequest(transactional_id=client.name, acks=-1, topic_data=topics)
    answer = client.wire.ask(request, 12).responses[0].partition_responses[0]
    assert answer.error_code == CODES["INVALID_RECORD"]


# --- offsets


def test_offsets_are_in_force_when_the_transaction_commits(client: Client) -> None:
    assert client.commit_offset(10) == 0
    assert client.offset() == client.offset(all_of_them=True) == (UNSTABLE, -1)
    assert client.offset(stable=False) == (0, -1)
    client.end(commit=True)
    while (found := client.offset())[0] == UNSTABLE:
        pass
    assert found == (0, 10)


def test_offsets_of_an_aborted_transaction_never_were(client: Client) -> None:
    assert client.commit_offset(10) == 0
    client.end(commit=False)
    while (found := client.offset())[0] == UNSTABLE:
        pass
    assert found == (0, -1)


@pytest.mark.parametrize(
    ("version", "code"), [(3, "INVALID_TXN_STATE"), (4, "TRANSACTION_ABORTABLE")]
)
def test_before_version_5_the_group_must_have_been_added(
    client: Client, version: int, code: str
) -> None:
    assert client.commit_offset(10, version) == CODES[code]
    request = m.AddOffsetsToTxnRequest(client.name, client.id, client.epoch, client.name)
    assert client.wire.ask(request, 3).error_code == 0
    assert client.commit_offset(10, version) == client.commit_offset(11, version) == 0
    client.end(commit=True, version=3)
    while (found := client.offset())[0] == UNSTABLE:
        pass
    assert found == (0, 11)


def test_a_stranger_to_the_group_commits_nothing(client: Client) -> None:
    code = client.commit_offset(10, generation_id=3, member_id="m")
    assert code == CODES["ILLEGAL_GENERATION"]
    assert client.offset() == (0, -1)


def test_offsets_survive_a_restart_in_the_middle() -> None:
    with MemoryBroker() as broker:
        with WireClient(broker.bootstrap_servers) as wire:
            before = Client(wire, "a")
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
