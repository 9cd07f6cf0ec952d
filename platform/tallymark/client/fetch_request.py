"""Positions to a Fetch request, a Fetch response to batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.client.fetched import Fetched, FetchSpec
from tallymark.client.metadata import Metadata
from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.net import Stream
from tallymark.protocol.messages import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from tallymark.protocol.records import split_batches
from tallymark.protocol.schema import ZERO_UUID

_NAMES_UNTIL: Final = 12
"""Later versions name topics by id."""


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
    specs: Sequence[FetchSpec], limits: FetchLimits, stream: Stream, metadata: Metadata
) -> tuple[int, FetchRequest]:
    """(version, request). KafkaError UNSUPPORTED_VERSION when the broker is too old."""
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
    )


def read_response(
    specs: Sequence[FetchSpec], response: FetchResponse, metadata: Metadata, check_crcs: bool
) -> dict[FetchSpec, Fetched | KafkaError]:
    """What the broker says of each position."""
    names = {metadata.topic_id(spec.topic): spec.topic for spec in specs}
    found: dict[tuple[str, int], FetchResponsePartition] = {}
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        found.update({(name, part.partition_index): part for part in topic.partitions})
    outcomes: dict[FetchSpec, Fetched | KafkaError] = {}
    for spec in specs:
        part = found.get((spec.topic, spec.partition))
        where = f"{spec.topic}-{spec.partition} at offset {spec.offset}"
        if response.error_code:
            outcomes[spec] = KafkaError(response.error_code, where)
        elif part is None:
            outcomes[spec] = KafkaError(CODES["NETWORK_EXCEPTION"], f"{where}: no answer")
        elif part.error_code:
            outcomes[spec] = KafkaError(part.error_code, where)
        else:
            outcomes[spec] = _read_partition(spec, part, where, check_crcs)
    return outcomes


def _read_partition(
    spec: FetchSpec, part: FetchResponsePartition, where: str, check_crcs: bool
) -> Fetched | KafkaError:
    records = part.records if part.records is not None else b""
    try:
        batches = [b for b in split_batches(records) if b.header.last_offset >= spec.offset]
        if check_crcs:
            for batch in batches:
                batch.check_crc()
    except CorruptRecordError as error:
        problem = KafkaError(CODES["CORRUPT_MESSAGE"], f"{where}: {error}")
        problem.__cause__ = error
        return problem
    last = batches[-1].header if batches else None
    return Fetched(
        topic=spec.topic,
        partition=spec.partition,
        offset=spec.offset,
        high_watermark=part.high_watermark,
        log_start_offset=part.log_start_offset,
        batches=tuple(batches),
        next_offset=last.next_offset if last else spec.offset,
        last_epoch=last.partition_leader_epoch if last else spec.last_epoch,
    )
