"""What a leader's answers say of a partition, in the words of
:mod:`tallymark.replication.following`; and what an operator should do about a failure. Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import FetchResponsePartition, ListOffsetsResponse
from tallymark.protocol.schema import Buffer
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.following import Answer
from tallymark.replication.truncation import EpochEnd

_BASE_OFFSET_BYTES: Final = 8
_SOON: Final = frozenset(
    CODES[name]
    for name in (
        "NOT_LEADER_OR_FOLLOWER",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "REPLICA_NOT_AVAILABLE",
    )
)


class FetchedPartition(NamedTuple):
    """One partition of an answer: what it says, and its records."""

    answer: Answer
    records: Buffer


def read_answer(partition: FetchResponsePartition) -> FetchedPartition:
    """What the answer says. Records beside an error or a place where the logs part are not
    looked at. A batch of which not even the offset came counts as one at offset -1, so that it is
    not taken for no records."""
    diverging = partition.diverging_epoch
    parted = None
    if diverging.epoch >= 0 or diverging.end_offset >= 0:
        parted = EpochEnd(diverging.epoch, diverging.end_offset)
    records: Buffer = partition.records or b""
    if partition.error_code or parted is not None:
        records = b""
    answer = Answer(
        partition.error_code,
        parted,
        partition.high_watermark,
        partition.log_start_offset,
        _first_offset(records) if records else None,
    )
    return FetchedPartition(answer, records)


def _first_offset(records: Buffer) -> int:
    if len(records) < _BASE_OFFSET_BYTES:
        return -1
    return int.from_bytes(records[:_BASE_OFFSET_BYTES], "big", signed=True)


def read_offset(response: ListOffsetsResponse, partition: TopicPartition) -> int:
    """The one offset that was asked for. Raises KafkaError: the leader's, or INVALID_REQUEST for an
    answer about something else."""
    for topic in response.topics:
        for one in topic.partitions:
            if (topic.name, one.partition_index) == partition:
                if one.error_code:
                    raise KafkaError(one.error_code, f"offsets of {topic.name}-{partition[1]}")
                return one.offset
    raise KafkaError(CODES["INVALID_REQUEST"], "ListOffsets: the answer lacks the partition")


def is_expected(code: int) -> bool:
    """The error comes with a change of the leader, and goes by itself when the new state is
    known."""
    return code in _SOON


def what_to_do(code: int) -> str:
    """For the log line about a partition that is set aside."""
    if is_expected(code):
        return "a newer state of the partition ends this"
    if code == CODES["CORRUPT_MESSAGE"]:
        return "check the leader's disk and the network to it (tallymark verify-log, there)"
    if code == CODES["INVALID_RECORD"]:
        return "report this as a fault of Tallymark"
    if code == CODES["KAFKA_STORAGE_ERROR"]:
        return "see the lines about the disk, here or at the leader, and free or mend it"
    return "it is tried again"
