"""Produce requests of stamped messages, and what is in them."""

from collections.abc import Iterable, Mapping

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, encode_stamp, stamp_of
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.records.writer import RecordInput
from tallymark_audit.proof.drill.applications.producer import message_value

TOPIC = "orders"
INSTANCE = bytes(range(8))
SERVER = "web-1"


def stamped(sequence: int, partition: int = 0, timestamp: int = 1_000) -> RecordInput:
    """Key, value, headers and timestamp (ms) of one message."""
    stamp = encode_stamp(Stamp(INSTANCE, partition, sequence, SERVER))
    return None, message_value(SERVER, partition, sequence), [(STAMP_HEADER, stamp)], timestamp


def request(partitions: Mapping[int, Iterable[int]], topic: str = TOPIC) -> ProduceRequest:
    """One batch a partition, of these sequences."""
    parts = [
        ProduceRequestPartition(
            index=index,
            records=encode_batch(
                [stamped(sequence, index) for sequence in found],
                producer_id=9,
                producer_epoch=0,
                base_sequence=0,
            ),
        )
        for index, found in partitions.items()
    ]
    topics = [ProduceRequestTopic(name=topic, partition_data=parts)]
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)


def sequences(produced: ProduceRequest) -> dict[int, list[int]]:
    """What is in a request: the sequences of each partition, in order."""
    found: dict[int, list[int]] = {}
    for topic in produced.topic_data:
        for part in topic.partition_data:
            for batch in split_batches(part.records or b""):
                batch.check_crc()
                for record in batch.records():
                    stamp = stamp_of(record.headers)
                    assert isinstance(stamp, Stamp)
                    found.setdefault(part.index, []).append(stamp.sequence)
    return found
