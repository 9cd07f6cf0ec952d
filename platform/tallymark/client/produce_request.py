"""Batches to a Produce request, a Produce response to answers per batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tallymark.client.batch import ProducerBatch
from tallymark.client.lane import Lane
from tallymark.client.metadata import Metadata
from tallymark.errors import CODES, KafkaError
from tallymark.net import Stream
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)

LOWEST_VERSION: Final = 3
"""The first that carries record batches of format v2."""
_ZSTD_FROM: Final = 7
_TOPIC_IDS_FROM: Final = 13

Parcel = tuple[Lane, ProducerBatch]


class Answer(NamedTuple):
    """What the broker says of one batch: ``error`` None and where it is, or why it is not."""

    lane: Lane
    batch: ProducerBatch
    error: KafkaError | None
    base_offset: int
    append_time_ms: int


def produce_version(stream: Stream, compression: str) -> int:
    """The Produce version to use. KafkaError when the broker is too old for us or the codec."""
    version = stream.version_of(ProduceRequest)
    if version < LOWEST_VERSION:
        raise KafkaError(CODES["UNSUPPORTED_VERSION"], "the broker is older than Kafka 0.11")
    if compression == "zstd" and version < _ZSTD_FROM:
        raise KafkaError(CODES["UNSUPPORTED_COMPRESSION_TYPE"], "zstd needs Kafka 2.1")
    return version


def build_request(
    parcels: Iterable[Parcel], acks: int, timeout: float, compression: str, metadata: Metadata
) -> ProduceRequest:
    """One request with one batch per partition; ``timeout`` (seconds) is the broker's, for acks."""
    topics: dict[str, list[ProduceRequestPartition]] = {}
    for lane, batch in parcels:
        part = ProduceRequestPartition(index=lane.partition, records=batch.encode(compression))
        topics.setdefault(lane.topic, []).append(part)
    return ProduceRequest(
        acks=acks,
        timeout_ms=int(timeout * 1000),
        topic_data=tuple(
            ProduceRequestTopic(name=name, topic_id=metadata.topic_id(name), partition_data=parts)
            for name, parts in topics.items()
        ),
    )


def read_response(
    parcels: Iterable[Parcel], response: ProduceResponse, metadata: Metadata
) -> Iterator[Answer]:
    """The answer for each batch of the request; a batch the response forgets is unanswered, which
    says as little as a broken connection."""
    names = {metadata.topic_id(lane.topic): lane.topic for lane, _ in parcels}
    found: dict[tuple[str, int], ProduceResponsePartition] = {}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        found.update({(name, part.index): part for part in topic.partition_responses})
    for lane, batch in parcels:
        part = found.get((lane.topic, lane.partition))
        where = f"{lane.topic}-{lane.partition}"
        if part is None:
            error = KafkaError(CODES["NETWORK_EXCEPTION"], f"{where} is missing in the response")
            yield Answer(lane, batch, error, -1, -1)
        elif part.error_code and part.error_code != CODES["DUPLICATE_SEQUENCE_NUMBER"]:
            context = f"{where}: {part.error_message}" if part.error_message else where
            yield Answer(lane, batch, KafkaError(part.error_code, context), -1, -1)
        else:  # DUPLICATE_SEQUENCE_NUMBER: in the log, longer ago than the broker remembers where
            offset = -1 if part.error_code else part.base_offset
            yield Answer(lane, batch, None, offset, part.log_append_time_ms)
