"""Positions to a Fetch request, a Fetch response to batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tallymark.client.core.metadata import Metadata
from tallymark.client.reading.committed import AbortedTransaction, committed
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.errors import (
    CODES,
    BatchCutError,
    CorruptMessageError,
    CorruptRecordError,
    KafkaError,
)
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.protocol.messages import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from tallymark.protocol.records.batch import Batch, iterate_batches
from tallymark.protocol.schema import ZERO_UUID, Buffer

_NAMES_UNTIL: Final = 12
"""Later versions name topics by id."""
_RACKS: Final = 11


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """``max_bytes`` a partition and for all together; a first batch that is larger comes whole
    (KIP-74). The broker waits up to ``max_wait_ms`` until there are ``min_bytes``."""

    max_bytes: int = 1048576
    max_wait_ms: int = 500
    min_bytes: int = 1
    total_bytes: int = 50 * 1024 * 1024
    isolation_level: int = 0
    """0 read uncommitted, 1 read committed."""


def build_request(
    specs: Sequence[FetchSpec],
    limits: FetchLimits,
    stream: BrokerConnection,
    metadata: Metadata,
    rack: str = "",
) -> tuple[int, FetchRequest]:
    """(version, request); ``rack`` is the client's. KafkaError UNSUPPORTED_VERSION when the broker
    is too old."""
    topics: dict[str, list[FetchRequestPartition]] = {}
    for spec in specs:
        leader = metadata.leader(spec.topic, spec.partition)
        part = FetchRequestPartition(
            partition=spec.partition,
            current_leader_epoch=leader.epoch if leader else -1,
            fetch_offset=spec.offset,
            partition_max_bytes=limits.max_bytes,
        )
        topics.setdefault(spec.topic, []).append(part)
    has_ids = all(metadata.topic_id(name) != ZERO_UUID for name in topics)
    version = stream.version_of(FetchRequest, None if has_ids else _NAMES_UNTIL)
    return version, FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=max(limits.max_bytes, limits.total_bytes),
        isolation_level=limits.isolation_level,
        topics=tuple(
            FetchRequestTopic(topic=name, topic_id=metadata.topic_id(name), partitions=parts)
            for name, parts in topics.items()
        ),
        rack_id=rack if version >= _RACKS else "",
    )


def names_in(specs: Sequence[FetchSpec], metadata: Metadata) -> Callable[[str, UUID], str]:
    """The name of a topic in an answer about ``specs``, from its name or id there; "" for none."""
    names = {metadata.topic_id(spec.topic): spec.topic for spec in specs}
    return lambda name, topic_id: name or names.get(topic_id, "")


def read_response(
    specs: Sequence[FetchSpec],
    response: FetchResponse,
    metadata: Metadata,
    check_crcs: bool,
    source: str,
) -> dict[FetchSpec, Fetched | KafkaError]:
    """What the broker at ``source`` says of each position."""
    name_of = names_in(specs, metadata)
    found: dict[tuple[str, int], FetchResponsePartition] = {}
    for topic in response.responses:
        name = name_of(topic.topic, topic.topic_id)
        found.update({(name, part.partition_index): part for part in topic.partitions})
    outcomes: dict[FetchSpec, Fetched | KafkaError] = {}
    for spec in specs:
        part = found.get((spec.topic, spec.partition))
        if response.error_code:
            outcomes[spec] = KafkaError(response.error_code, _where(spec, source))
        elif part is None:
            why = f"{_where(spec, source)}: no answer"
            outcomes[spec] = KafkaError(CODES["NETWORK_EXCEPTION"], why)
        elif part.error_code:
            outcomes[spec] = KafkaError(part.error_code, _where(spec, source))
        else:
            topic_id = metadata.topic_id(spec.topic)
            outcomes[spec] = _read_partition(spec, part, check_crcs, source, topic_id)
    return outcomes


def _where(spec: FetchSpec, source: str) -> str:
    return f"{source}: {spec.topic}-{spec.partition} at offset {spec.offset}"


def _read_partition(
    spec: FetchSpec,
    part: FetchResponsePartition,
    check_crcs: bool,
    source: str,
    topic_id: UUID,
) -> Fetched | KafkaError:
    records = part.records if part.records is not None else b""
    batches, problem, behind = _whole_batches(records, spec.offset, check_crcs)
    kept, left_out = batches, tuple[Batch, ...]()
    if part.aborted_transactions:
        aborted = [
            AbortedTransaction(a.producer_id, a.first_offset) for a in part.aborted_transactions
        ]
        try:
            kept = committed(batches, aborted)
            offsets = {batch.header.base_offset for batch in kept}
            left_out = tuple(b for b in batches if b.header.base_offset not in offsets)
        except CorruptRecordError as error:
            batches, problem, behind = [], error, -1
    if problem is not None and not batches:
        where = spec.topic, spec.partition, spec.offset
        kind = BatchCutError if isinstance(problem, _CutError) else CorruptMessageError
        corrupt = kind(*where, problem, source, behind)
        corrupt.__cause__ = problem
        return corrupt
    last = batches[-1].header if batches else None
    return Fetched(
        topic=spec.topic,
        partition=spec.partition,
        offset=spec.offset,
        high_watermark=part.high_watermark,
        log_start_offset=part.log_start_offset,
        batches=tuple(kept),
        next_offset=last.next_offset if last else spec.offset,
        last_epoch=last.partition_leader_epoch if last else spec.last_epoch,
        last_stable_offset=part.last_stable_offset,
        source=source,
        left_out=left_out,
        topic_id=topic_id,
    )


class _CutError(CorruptRecordError):
    """Only the beginning of a batch came."""


def _whole_batches(
    records: Buffer, offset: int, check_crcs: bool
) -> tuple[list[Batch], CorruptRecordError | None, int]:
    """The batches from ``offset`` on up to a corrupt one; what is wrong with that, and where what
    follows it begins, as far as its header says so. What is before it is handed out first; the
    next fetch begins with it, and finds nothing else."""
    batches: list[Batch] = []
    end, behind = 0, -1
    try:
        for batch in iterate_batches(records):
            end += batch.header.size
            if batch.header.last_offset >= offset:
                if check_crcs:
                    behind = batch.header.next_offset
                    batch.check_crc()
                    behind = -1
                batches.append(batch)
    except CorruptRecordError as error:
        return batches, error, behind
    if not end and len(records):
        problem = _CutError(
            f"the first batch is cut after {len(records)} bytes: it is larger than the broker may "
            "answer with; give more max_bytes (fetch_max_bytes)"
        )
        return [], problem, -1
    return batches, None, -1
