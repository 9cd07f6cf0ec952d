"""Rows of ``mode=records``, column by column, without an object for each record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tallymark_spark_jobs.source import columns
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.portions import Portion
from tallymark_spark_jobs.source.rows import HEADER, RECORDS_WITH_HEADERS, TIMESTAMP, micros

_LAST_MS: Final = micros(1 << 63) // 1000


def record_rows(schema: Any, span: Span, portion: Portion) -> Any:
    """A record batch of those columns of :data:`~tallymark_spark_jobs.source.rows.RECORDS` that the
    schema has."""
    made = [_COLUMNS[field.name](span, portion) for field in schema]
    return pa.RecordBatch.from_arrays(made, schema=schema)


def topic_column(span: Span, portion: Portion) -> Any:
    """The topic, of each record."""
    return columns.constant(span.topic, len(portion))


def partition_column(span: Span, portion: Portion) -> Any:
    """The partition, of each record."""
    return columns.numbers(np.full(len(portion), span.partition, np.int32), pa.int32())


def offset_column(span: Span, portion: Portion) -> Any:
    """The offsets."""
    return columns.numbers(portion.offsets(), pa.int64())


def _timestamps(span: Span, portion: Portion) -> Any:
    return columns.numbers(portion.timestamps().clip(-_LAST_MS, _LAST_MS) * 1000, TIMESTAMP)


def _types(span: Span, portion: Portion) -> Any:
    """Of each record 0 for the producer's time, 1 for the broker's."""
    told = list(portion.of_batches())
    kinds = np.array([append_time for _, append_time, _ in told], np.int32)
    return columns.numbers(np.repeat(kinds, [rows for rows, _, _ in told]), pa.int32())


def _headers(span: Span, portion: Portion) -> Any:
    """Null where a record has no header, as in Spark's Kafka source."""
    headers = portion.headers()
    pairs = [pair for some in headers for pair in some]
    items = columns.structs(
        HEADER,
        [columns.strings([name for name, _ in pairs]), columns.binaries([v for _, v in pairs])],
    )
    sizes = [len(some) or None for some in headers]
    return columns.lists(RECORDS_WITH_HEADERS.field("headers").type, sizes, items)


_COLUMNS: Final[Mapping[str, Callable[[Span, Portion], Any]]] = {
    "key": lambda _, portion: portion.key_column(),
    "value": lambda _, portion: portion.value_column(),
    "topic": topic_column,
    "partition": partition_column,
    "offset": offset_column,
    "timestamp": _timestamps,
    "timestampType": _types,
    "headers": _headers,
}
