"""Batches to a Produce request, a Produce response to answers per batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from tallymark.client.core.metadata import Metadata
from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.pipeline import Pipeline
from tallymark.errors import CODES, KafkaError
from tallymark.net.addresses import Address
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceResponse,
    ProduceResponsePartition,
)
from tallymark.protocol.wire.produce_client import LOWEST, Appended, Topic, write_produce

_ZSTD_FROM: Final = 7


class BatchQueue(Protocol):
    """One partition with batches to send."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def pipeline(self) -> Pipeline: ...


Q = TypeVar("Q", bound=BatchQueue)
B = TypeVar("B", bound=ProducerBatch)
Entry: TypeAlias = tuple[Q, B]
"""A batch in a request, and its partition."""


class Answer(NamedTuple, Generic[Q, B]):
    """What the broker says of one batch: ``error`` None and where it is, or why it is not."""

    queue: Q
    batch: B
    error: KafkaError | None
    base_offset: int
    append_time_ms: int


def produce_version(stream: BrokerConnection, at_most: int | None = None) -> int:
    """The Produce version to use. KafkaError when the broker is too old."""
    version = stream.version_of(ProduceRequest)
    if version < LOWEST:
        raise KafkaError(CODES["UNSUPPORTED_VERSION"], "the broker is older than Kafka 0.11")
    return version if at_most is None else min(version, at_most)


def knows_zstd(version: int) -> bool:
    """Whether a broker that speaks this version knows the codec."""
    return version >= _ZSTD_FROM


def request_writer(
    entries: Sequence[Entry[Q, B]],
    version: int,
    acks: int,
    timeout: float,
    compression: tuple[str, int | None],
    metadata: Metadata,
) -> tuple[Callable[[int, str | None], list[Any]], int]:
    """What writes one request with all ``entries``, and the bytes of their batches. ``timeout``
    seconds are what the broker may take; ``compression`` is a codec and its level."""
    topics: dict[str, Topic] = {}
    size = 0
    for queue, batch in entries:
        header, records = batch.pieces(*compression)
        size += len(header) + len(records)
        topic = topics.get(queue.topic)
        if topic is None:
            topic = topics[queue.topic] = (queue.topic, metadata.topic_id(queue.topic), [])
        topic[2].append((queue.partition, header, records))
    parts = list(topics.values())
    timeout_ms = int(timeout * 1000)

    def write(correlation_id: int, client_id: str | None) -> list[Any]:
        return write_produce(version, correlation_id, client_id, acks, timeout_ms, parts)

    return write, size


def read_response(
    entries: Sequence[Entry[Q, B]], response: list[Appended] | ProduceResponse, metadata: Metadata
) -> Iterator[Answer[Q, B]]:
    """The answer for each batch of the request; a batch the response forgets is unanswered, which
    says as little as a broken connection."""
    if isinstance(response, list):
        yield from _read_short(entries, response)
        return
    names = {metadata.topic_id(queue.topic): queue.topic for queue, _ in entries}
    found: dict[tuple[str, int], ProduceResponsePartition] = {}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        found.update({(name, part.index): part for part in topic.partition_responses})
    for queue, batch in entries:
        part = found.get((queue.topic, queue.partition))
        yield _forgotten(queue, batch) if part is None else _answer(queue, batch, part)


def _read_short(
    entries: Sequence[Entry[Q, B]], appended: Sequence[Appended]
) -> Iterator[Answer[Q, B]]:
    """Of an answer about one topic; which one it is matters only where the request had others."""
    topics = {queue.topic for queue, _ in entries}
    found = {answer.partition: answer for answer in appended} if len(topics) == 1 else {}
    for queue, batch in entries:
        answer = found.get(queue.partition)
        if answer is None:
            yield _forgotten(queue, batch)
        else:
            yield Answer(queue, batch, None, answer.base_offset, answer.append_time_ms)


def learn_leaders(
    entries: Sequence[Entry[Q, B]], response: list[Appended] | ProduceResponse, metadata: Metadata
) -> bool:
    """Take over the leaders that the answer names for partitions which have moved (KIP-951);
    whether there were any."""
    if isinstance(response, list) or not response.node_endpoints:
        return False
    nodes = {node.node_id: Address(node.host, node.port) for node in response.node_endpoints}
    names = {metadata.topic_id(queue.topic): queue.topic for queue, _ in entries}
    learnt = False
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for part in topic.partition_responses:
            leader = part.current_leader
            if leader.leader_id >= 0 and leader.leader_id in nodes:
                learnt |= metadata.take_leader(
                    name,
                    part.index,
                    leader.leader_id,
                    leader.leader_epoch,
                    nodes[leader.leader_id],
                )
    return learnt


def _forgotten(queue: Q, batch: B) -> Answer[Q, B]:
    where = f"{queue.topic}-{queue.partition}"
    error = KafkaError(CODES["NETWORK_EXCEPTION"], f"{where} is missing in the response")
    return Answer(queue, batch, error, -1, -1)


def _answer(queue: Q, batch: B, part: ProduceResponsePartition) -> Answer[Q, B]:
    if part.error_code and part.error_code != CODES["DUPLICATE_SEQUENCE_NUMBER"]:
        where = f"{queue.topic}-{queue.partition}"
        context = f"{where}: {part.error_message}" if part.error_message else where
        return Answer(queue, batch, KafkaError(part.error_code, context), -1, -1)
    # DUPLICATE_SEQUENCE_NUMBER: in the log, longer ago than the broker remembers where
    offset = -1 if part.error_code else part.base_offset
    return Answer(queue, batch, None, offset, part.log_append_time_ms)
