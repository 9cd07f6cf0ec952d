"""The requests of a transaction, and what their answers say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tallymark.client.core.group_metadata import GroupMetadata
from tallymark.client.producing.batches.batch import Identity
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

Place = tuple[str, int]
"""Topic and partition."""


def add_partitions(
    transactional_id: str, identity: Identity, places: Iterable[Place]
) -> AddPartitionsToTxnRequest:
    """The request, for versions 0 to 3."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
        v3_and_below_topics=tuple(
            AddPartitionsToTxnRequestTopic(name=topic, partitions=tuple(sorted(numbers)))
            for topic, numbers in _by_topic({place: place[1] for place in places}).items()
        ),
    )


def read_added(answer: AddPartitionsToTxnResponse) -> None:
    """Raises the KafkaError of the first partition that is not in the transaction; where one is
    refused, others answer that they were not attempted."""
    refused = {
        (topic.name, part.partition_index): part.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    }
    _raise_first(refused, "not added to the transaction")


def offset_commit(
    transactional_id: str, identity: Identity, group: GroupMetadata, positions: Mapping[Place, int]
) -> TxnOffsetCommitRequest:
    """The request: positions are the next offsets to read."""
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity[0],
        producer_epoch=identity[1],
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    TxnOffsetCommitRequestPartition(
                        partition_index=number, committed_offset=offset, committed_metadata=""
                    )
                    for number, offset in sorted(offsets.items())
                ),
            )
            for topic, offsets in _by_topic(positions).items()
        ),
    )


def read_committed_offsets(answer: TxnOffsetCommitResponse) -> None:
    """Raises the KafkaError of the first partition whose offset was not taken."""
    refused = {
        (topic.name, part.partition_index): part.error_code
        for topic in answer.topics
        for part in topic.partitions
    }
    _raise_first(refused, "offset not taken")


def raise_code(code: int, what: str) -> None:
    """The KafkaError of ``code``, unless it is 0."""
    if code:
        raise KafkaError(code, what)


def _raise_first(codes: Mapping[Place, int], what: str) -> None:
    skipped = CODES["OPERATION_NOT_ATTEMPTED"]
    wrong = {place: code for place, code in codes.items() if code}
    for (topic, number), code in sorted(wrong.items(), key=lambda one: one[1] == skipped):
        raise KafkaError(code, f"{topic}-{number}: {what}")


def _by_topic(positions: Mapping[Place, int]) -> dict[str, dict[int, int]]:
    topics: dict[str, dict[int, int]] = {}
    for (topic, number), offset in sorted(positions.items()):
        topics.setdefault(topic, {})[number] = offset
    return topics
