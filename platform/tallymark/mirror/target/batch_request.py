"""Writes ready batches as a Produce request, and reads the results of a Produce response."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from tallymark.client.core.cluster import Cluster
from tallymark.client.producing.sending.produce_request import produce_version
from tallymark.errors import CODES, KafkaError
from tallymark.mirror.target.queue import TargetQueue
from tallymark.mirror.target.ready_batch import ReadyBatch
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.net.client.connection import Writer
from tallymark.protocol.messages import ProduceResponse, ProduceResponsePartition
from tallymark.protocol.wire.produce_client import Appended, Topic, write_produce

NAMED_UNTIL: Final = 12
"""Later versions of Produce identify topics by id; a topic that was created again meanwhile is
found by its name."""
_NO_ID: Final = uuid.UUID(int=0)
_ALL: Final = -1

QueuedBatch: TypeAlias = tuple[TargetQueue, ReadyBatch]
Answer: TypeAlias = tuple[TargetQueue, ReadyBatch, KafkaError | None, int]
"""Queue, batch, None or why it is not in the log, its base offset there (-1: not known)."""


def request_writer(
    stream: BrokerConnection, queued: Sequence[QueuedBatch], cluster: Cluster
) -> tuple[int, Writer]:
    """(version, what writes the request), acknowledged by all replicas; the records are not copied.
    KafkaError: the broker is too old."""
    codec = "zstd" if any(batch.codec == "zstd" for _, batch in queued) else ""
    version = min(produce_version(stream, codec), NAMED_UNTIL)
    topics: dict[str, Topic] = {}
    for queue, batch in queued:
        topic = topics.setdefault(queue.topic, (queue.topic, _NO_ID, []))
        topic[2].append((queue.partition, *batch.pieces()))
    timeout_ms = int(cluster.request_timeout * 1000)

    def write(correlation_id: int, client_id: str | None) -> list[Any]:
        parts = list(topics.values())
        return write_produce(version, correlation_id, client_id, _ALL, timeout_ms, parts)

    return version, write


def read_response(
    queued: Sequence[QueuedBatch], response: list[Appended] | ProduceResponse
) -> Iterator[Answer]:
    """The answer for each batch of the request."""
    if isinstance(response, list):
        yield from _read_short(queued, response)
        return
    found: dict[tuple[str, int], ProduceResponsePartition] = {}
    for topic in response.responses:
        found.update({(topic.name, part.index): part for part in topic.partition_responses})
    for queue, batch in queued:
        part = found.get((queue.topic, queue.partition))
        where = f"{queue.topic}-{queue.partition}"
        if part is None:
            yield _forgotten(queue, batch)
        elif part.error_code and part.error_code != CODES["DUPLICATE_SEQUENCE_NUMBER"]:
            context = f"{where}: {part.error_message}" if part.error_message else where
            yield queue, batch, KafkaError(part.error_code, context), -1
        else:  # a duplicate is in the log, longer ago than the broker remembers where
            yield queue, batch, None, -1 if part.error_code else part.base_offset


def _read_short(queued: Sequence[QueuedBatch], appended: Iterable[Appended]) -> Iterator[Answer]:
    """Results of a response without the topic's name: usable if the request had one topic."""
    one = len({queue.topic for queue, _ in queued}) == 1
    found = {answer.partition: answer.base_offset for answer in appended} if one else {}
    for queue, batch in queued:
        if queue.partition in found:
            yield queue, batch, None, found[queue.partition]
        else:
            yield _forgotten(queue, batch)


def _forgotten(queue: TargetQueue, batch: ReadyBatch) -> Answer:
    where = f"{queue.topic}-{queue.partition}"
    error = KafkaError(CODES["NETWORK_EXCEPTION"], f"{where} is missing in the response")
    return queue, batch, error, -1
