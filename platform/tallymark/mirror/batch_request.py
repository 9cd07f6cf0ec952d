"""Ready batches to a Produce request, a Produce response to answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from tallymark.client.cluster import Cluster
from tallymark.client.producing.produce_request import produce_version
from tallymark.errors import CODES, KafkaError
from tallymark.mirror.ready_batch import ReadyBatch
from tallymark.mirror.target_lane import TargetLane
from tallymark.net import Stream
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)

NAMED_UNTIL: Final = 12
"""Later versions of Produce name topics by id; a topic made anew meanwhile is found by its name."""

Parcel: TypeAlias = tuple[TargetLane, ReadyBatch]
Answer: TypeAlias = tuple[TargetLane, ReadyBatch, KafkaError | None, int]
"""Lane, batch, None or why it is not in the log, its base offset there (-1: not known)."""


def build_request(
    stream: Stream, parcels: Sequence[Parcel], cluster: Cluster
) -> tuple[int, ProduceRequest]:
    """(version, request), acknowledged by all replicas. KafkaError: the broker is too old."""
    codec = "zstd" if any(batch.codec == "zstd" for _, batch in parcels) else ""
    version = min(produce_version(stream, codec), NAMED_UNTIL)
    topics: dict[str, list[ProduceRequestPartition]] = {}
    for lane, batch in parcels:
        part = ProduceRequestPartition(index=lane.partition, records=batch.encode_ready())
        topics.setdefault(lane.topic, []).append(part)
    return version, ProduceRequest(
        acks=-1,
        timeout_ms=int(cluster.request_timeout * 1000),
        topic_data=tuple(
            ProduceRequestTopic(name=name, partition_data=parts) for name, parts in topics.items()
        ),
    )


def read_response(parcels: Iterable[Parcel], response: ProduceResponse) -> Iterator[Answer]:
    """The answer for each batch of the request."""
    found: dict[tuple[str, int], ProduceResponsePartition] = {}
    for topic in response.responses:
        found.update({(topic.name, part.index): part for part in topic.partition_responses})
    for lane, batch in parcels:
        part = found.get((lane.topic, lane.partition))
        where = f"{lane.topic}-{lane.partition}"
        if part is None:
            error = KafkaError(CODES["NETWORK_EXCEPTION"], f"{where} is missing in the response")
            yield lane, batch, error, -1
        elif part.error_code and part.error_code != CODES["DUPLICATE_SEQUENCE_NUMBER"]:
            context = f"{where}: {part.error_message}" if part.error_message else where
            yield lane, batch, KafkaError(part.error_code, context), -1
        else:  # a duplicate is in the log, longer ago than the broker remembers where
            yield lane, batch, None, -1 if part.error_code else part.base_offset
