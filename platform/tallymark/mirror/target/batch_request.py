"""Ready batches to a Produce request, a Produce response to answers."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from tallymark.client.core.cluster import Cluster
from tallymark.client.producing.sending.produce_request import produce_version
from tallymark.errors import CODES, KafkaError
from tallymark.mirror.target.queue import TargetLane
from tallymark.mirror.target.ready_batch import ReadyBatch
from tallymark.net.client.broker_connection import Stream
from tallymark.net.client.connection import Writer
from tallymark.protocol.messages import ProduceResponse, ProduceResponsePartition
from tallymark.protocol.produce_client_wire import Appended, Topic, write_produce

NAMED_UNTIL: Final = 12
"""Later versions of Produce name topics by id; a topic made anew meanwhile is found by its name."""
_NO_ID: Final = uuid.UUID(int=0)
_ALL: Final = -1

Parcel: TypeAlias = tuple[TargetLane, ReadyBatch]
Answer: TypeAlias = tuple[TargetLane, ReadyBatch, KafkaError | None, int]
"""Lane, batch, None or why it is not in the log, its base offset there (-1: not known)."""


def request_writer(
    stream: Stream, parcels: Sequence[Parcel], cluster: Cluster
) -> tuple[int, Writer]:
    """(version, what writes the request), acknowledged by all replicas; the records are not copied.
    KafkaError: the broker is too old."""
    codec = "zstd" if any(batch.codec == "zstd" for _, batch in parcels) else ""
    version = min(produce_version(stream, codec), NAMED_UNTIL)
    topics: dict[str, Topic] = {}
    for lane, batch in parcels:
        topic = topics.setdefault(lane.topic, (lane.topic, _NO_ID, []))
        topic[2].append((lane.partition, *batch.pieces()))
    timeout_ms = int(cluster.request_timeout * 1000)

    def write(correlation_id: int, client_id: str | None) -> list[Any]:
        parts = list(topics.values())
        return write_produce(version, correlation_id, client_id, _ALL, timeout_ms, parts)

    return version, write


def read_response(
    parcels: Sequence[Parcel], response: list[Appended] | ProduceResponse
) -> Iterator[Answer]:
    """The answer for each batch of the request."""
    if isinstance(response, list):
        yield from _read_short(parcels, response)
        return
    found: dict[tuple[str, int], ProduceResponsePartition] = {}
    for topic in response.responses:
        found.update({(topic.name, part.index): part for part in topic.partition_responses})
    for lane, batch in parcels:
        part = found.get((lane.topic, lane.partition))
        where = f"{lane.topic}-{lane.partition}"
        if part is None:
            yield _forgotten(lane, batch)
        elif part.error_code and part.error_code != CODES["DUPLICATE_SEQUENCE_NUMBER"]:
            context = f"{where}: {part.error_message}" if part.error_message else where
            yield lane, batch, KafkaError(part.error_code, context), -1
        else:  # a duplicate is in the log, longer ago than the broker remembers where
            yield lane, batch, None, -1 if part.error_code else part.base_offset


def _read_short(parcels: Sequence[Parcel], appended: Iterable[Appended]) -> Iterator[Answer]:
    """Of an answer about one topic, without its name: of use if the request was about one."""
    one = len({lane.topic for lane, _ in parcels}) == 1
    found = {answer.partition: answer.base_offset for answer in appended} if one else {}
    for lane, batch in parcels:
        if lane.partition in found:
            yield lane, batch, None, found[lane.partition]
        else:
            yield _forgotten(lane, batch)


def _forgotten(lane: TargetLane, batch: ReadyBatch) -> Answer:
    where = f"{lane.topic}-{lane.partition}"
    error = KafkaError(CODES["NETWORK_EXCEPTION"], f"{where} is missing in the response")
    return lane, batch, error, -1
