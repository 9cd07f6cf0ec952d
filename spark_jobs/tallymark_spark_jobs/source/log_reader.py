"""What the source does at the brokers: plan spans of offsets, and read one into Arrow batches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tallymark.client import SimpleConsumer, TopicInfo
from tallymark.errors import UserError
from tallymark.protocol.records.batch import BatchHeader, Record
from tallymark_spark_jobs.source import rows
from tallymark_spark_jobs.source.options import SourceOptions
from tallymark_spark_jobs.source.planning import LogBounds, Span, plan
from tallymark_spark_jobs.source.reading import Damage, Expired, Piece, read_span

ROWS_PER_BATCH = 10_000
_Portion = list[tuple[BatchHeader, Record, bool]]
"""Records with the header of their batch, and whether their transaction was aborted."""


def plan_spans(options: SourceOptions) -> list[Span]:
    """Ask the brokers where the logs begin and end, once, and plan what to read.

    Raises UserError for topics and offsets that are not there, and the client's errors."""
    with _client(options) as consumer:
        return plan(options, _bounds(consumer, options))


def read_batches(options: SourceOptions, span: Span) -> Iterator[Any]:
    """The span's records as Arrow batches, in the schema of the options' mode. With
    ``failOnCorruptBatch=false`` a batch that cannot be read is passed over, and a row says so; else
    DamagedError."""
    with _client(options) as consumer:
        for found in read_span(consumer, span, not options.fail_on_corrupt_batch):
            if isinstance(found, Damage):
                yield _damaged(options, span, found)
                continue
            if isinstance(found, Expired):
                continue
            for portion in _portions(found, options):
                yield _batch(options, span, portion)


def _damaged(options: SourceOptions, span: Span, found: Damage) -> Any:
    told = (span.topic, span.partition, found)
    if options.mode == "stamps":
        return rows.damaged_stamp(*told, options.include_content_hash)
    return rows.damaged_record(*told, options.include_headers)


def _client(options: SourceOptions) -> SimpleConsumer:
    # Counting needs the aborted records; records of an open transaction are not there yet.
    return SimpleConsumer(
        bootstrap_servers=options.bootstrap_servers,
        client_id="tallymark-spark",
        isolation="read_committed" if options.mode == "stamps" else "read_uncommitted",
        **options.security,
    )


def _bounds(consumer: SimpleConsumer, options: SourceOptions) -> list[LogBounds]:
    found: list[LogBounds] = []
    at = options.starting_timestamp
    for topic, partitions in _wanted(consumer.topics(), options).items():
        first, last = consumer.start_offsets(topic), consumer.end_offsets(topic)
        for partition in partitions:
            if partition not in first or partition not in last:
                raise UserError(f"there is no {topic}-{partition} at {options.bootstrap_servers}")
            since = None if at is None else consumer.offset_for_time(topic, partition, at)
            found.append(LogBounds(topic, partition, first[partition], last[partition], since))
    return found


def _wanted(there: Mapping[str, TopicInfo], options: SourceOptions) -> dict[str, list[int]]:
    """The partitions to read, by topic. A pattern never means internal topics."""
    if options.pattern:
        fits = re.compile(options.pattern).fullmatch
        names = [name for name in there if fits(name) and not name.startswith("_")]
        return {name: list(there[name].partitions) for name in names}
    wanted: dict[str, list[int]] = {name: [] for name in options.topics}
    for topic, partition in options.assigned:
        wanted.setdefault(topic, []).append(partition)
    missing = [name for name in wanted if name not in there]
    if missing:
        raise UserError(
            f"there is no topic {', '.join(missing)} at {options.bootstrap_servers}",
            "see tallymark topics",
        )
    return {name: some or list(there[name].partitions) for name, some in wanted.items()}


def _portions(pieces: list[Piece], options: SourceOptions) -> Iterator[_Portion]:
    """The records within the timestamps, in portions that suit Arrow: never many small ones."""
    first, end = options.starting_timestamp, options.ending_timestamp
    low, high = -(1 << 63) if first is None else first, 1 << 63 if end is None else end
    portion: _Portion = []
    for piece in pieces:
        portion += [
            (piece.header, record, piece.aborted)
            for record in piece.records()
            if low <= record.timestamp < high
        ]
        while len(portion) >= ROWS_PER_BATCH:
            yield portion[:ROWS_PER_BATCH]
            portion = portion[ROWS_PER_BATCH:]
    if portion:
        yield portion


def _batch(options: SourceOptions, span: Span, portion: _Portion) -> Any:
    records = [record for _, record, _ in portion]
    if options.mode == "stamps":
        aborted = [aborted for _, _, aborted in portion]
        contents = options.include_content_hash
        return rows.stamp_rows(span.topic, span.partition, records, aborted, contents)
    types = [int(header.is_log_append_time) for header, _, _ in portion]
    headers = options.include_headers
    return rows.record_rows(span.topic, span.partition, records, types, headers)
