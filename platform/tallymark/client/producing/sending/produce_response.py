"""What a Produce response says of each batch of its request, and of new leaders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from tallymark.client.core.metadata import Metadata
from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.pipeline import Pipeline
from tallymark.errors import CODES, KafkaError
from tallymark.net.addresses import Address
from tallymark.protocol.messages import (
    ProduceResponse,
    ProduceResponsePartition,
)
from tallymark.protocol.wire.produce_client import PartitionResponse


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


def read_response(
    entries: Sequence[Entry[Q, B]],
    response: list[PartitionResponse] | ProduceResponse,
    metadata: Metadata,
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
    entries: Sequence[Entry[Q, B]], appended: Sequence[PartitionResponse]
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
    entries: Sequence[Entry[Q, B]],
    response: list[PartitionResponse] | ProduceResponse,
    metadata: Metadata,
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
