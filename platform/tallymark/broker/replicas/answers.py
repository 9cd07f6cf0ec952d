"""What a leader's answers say of a partition, in the words of
:mod:`tallymark.replication.following`; and what an operator should do about a failure. Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tallymark.broker.replicas.sessions import Key
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import (
    FetchResponse,
    FetchResponsePartition,
    ListOffsetsResponse,
)
from tallymark.protocol.schema import Buffer
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.following import SOON, Answer
from tallymark.replication.truncation import EpochEnd

_BASE_OFFSET_BYTES: Final = 8
_ENDS_A_SESSION: Final = frozenset(
    CODES[name]
    for name in (
        "NONE",
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
        "FETCH_SESSION_TOPIC_ID_ERROR",
        "INCONSISTENT_TOPIC_ID",
        "UNKNOWN_TOPIC_ID",
    )
)


class FetchedPartition(NamedTuple):
    """One partition of an answer: what it says, and its records."""

    answer: Answer
    records: Buffer


def partitions_of(response: FetchResponse) -> list[tuple[Key, FetchResponsePartition]]:
    """The partitions of an answer, in its order."""
    return [
        ((topic.topic_id, one.partition_index), one)
        for topic in response.responses
        for one in topic.partitions
    ]


def ends_a_session(code: int) -> bool:
    """An answer as a whole has this error, or (0) does not fit to its request: the session begins
    anew, without a pause for the first time. Other errors are of the connection."""
    return code in _ENDS_A_SESSION


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
    return code in SOON


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
    if code == CODES["CLUSTER_AUTHORIZATION_FAILED"]:
        return "give the user of the brokers CLUSTER_ACTION on the cluster (or super.users)"
    return "it is tried again"
