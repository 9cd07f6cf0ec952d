"""A refusal that names the new leader is as good as metadata (KIP-951)."""

from __future__ import annotations

import uuid

from tallymark.client.core.metadata import Leader, Metadata
from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.partition_queue import PartitionQueue, TopicQueues
from tallymark.client.producing.batches.pipeline import Pipeline
from tallymark.client.producing.sending.produce_response import Entry, learn_leaders, read_response
from tallymark.errors import CODES
from tallymark.net.addresses import Address
from tallymark.protocol.messages import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    ProduceResponse,
    ProduceResponseLeader,
    ProduceResponseNode,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from tallymark.protocol.wire.produce_client import PartitionResponse

NOT_LEADER = CODES["NOT_LEADER_OR_FOLLOWER"]
ID = uuid.UUID(int=7)


def metadata(epoch: int = 3) -> Metadata:
    known = Metadata()
    part = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=epoch)
    topic = MetadataResponseTopic(name="t", topic_id=ID, partitions=[part])
    broker = MetadataResponseBroker(node_id=1, host="old", port=1)
    known.update(MetadataResponse(brokers=[broker], topics=[topic]))
    return known


def parcel(topic: TopicQueues | None = None) -> Entry[PartitionQueue, ProducerBatch]:
    owner = topic or TopicQueues("t")
    owner.grow(1, lambda queues, p: PartitionQueue(queues, p, b"i" * 8, "srv", Pipeline(True, 5)))
    return owner.queues[0], ProducerBatch("t", 0, None, 0.0, 1.0)


def refusal(epoch: int, *, by_id: bool = False) -> ProduceResponse:
    part = ProduceResponsePartition(
        index=0,
        error_code=NOT_LEADER,
        base_offset=-1,
        current_leader=ProduceResponseLeader(leader_id=2, leader_epoch=epoch),
    )
    topic = ProduceResponseTopic(
        name="" if by_id else "t",
        topic_id=ID if by_id else uuid.UUID(int=0),
        partition_responses=[part],
    )
    node = ProduceResponseNode(node_id=2, host="new", port=2)
    return ProduceResponse(responses=[topic], node_endpoints=[node])


def test_a_newer_leader_is_taken_over_with_its_address() -> None:
    for by_id in (False, True):
        known = metadata()
        assert learn_leaders([parcel()], refusal(4, by_id=by_id), known)
        assert known.leader("t", 0) == Leader(2, 4)
        assert known.brokers == {1: Address("old", 1), 2: Address("new", 2)}


def test_an_older_one_or_none_is_not() -> None:
    known = metadata(epoch=5)
    assert not learn_leaders([parcel()], refusal(4), known)
    assert not learn_leaders([parcel()], ProduceResponse(), known)
    assert not learn_leaders([parcel()], [PartitionResponse(0, 1, -1)], known)
    assert known.leader("t", 0) == Leader(1, 5)
    assert not known.take_leader("unknown", 0, 2, 9, Address("new", 2))
    assert not known.take_leader("t", 1, 2, 9, Address("new", 2))


def test_an_answer_that_forgets_a_batch_says_nothing_of_it() -> None:
    for response in ([PartitionResponse(5, 70, -1)], ProduceResponse()):
        ((_, _, error, offset, _),) = read_response([parcel()], response, metadata())
        assert error is not None
        assert error.code == CODES["NETWORK_EXCEPTION"]
        assert offset == -1
    ((_, _, error, offset, _),) = read_response(
        [parcel()], [PartitionResponse(0, 70, -1)], metadata()
    )
    assert (error, offset) == (None, 70)
