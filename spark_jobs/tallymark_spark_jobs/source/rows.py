"""The schemas of the source for Arrow, and the rows that are no records.

``records`` has the columns of Spark's Kafka source; ``stamps`` is the narrow form for counting,
with the sender of a record instead of its contents, and its timestamp unchanged: ms UTC. Spark
takes batches only of exactly the declared schema and checks only the first, so every batch is built
with the one schema here, or with those of its fields that the option ``columns`` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from tallymark_spark_jobs.source import kinds
from tallymark_spark_jobs.source.damage import Damage
from tallymark_spark_jobs.source.declared import COPIES, columns_of
from tallymark_spark_jobs.source.options import COUNTED, SourceOptions
from tallymark_spark_jobs.source.planning import Span

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])

RECORDS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
RECORDS_WITH_HEADERS: Final = RECORDS.append(
    pa.field("headers", pa.list_(pa.field("element", HEADER)))
)
STAMPS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("size", pa.int32()),
        ("stamped", pa.int8()),
        ("server", pa.string()),
        ("instance", pa.string()),
        ("origin_partition", pa.int32()),
        ("sequence", pa.int64()),
    ]
)

STAMPS_WITH_CONTENT: Final = STAMPS.append(pa.field("content", pa.int64()))
"""With the hash of which record it is and what it holds
(:func:`tallymark_audit.model.hashing.content`), 64 bits read as a signed number; null without a
stamp."""

_COPY: Final = pa.struct(
    [("partition", pa.int32()), ("offset", pa.int64()), ("sequence", pa.int64())]
)
_TYPES: Final = {
    "string": pa.string(),
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    COPIES: pa.list_(pa.field("element", _COPY)),
}
_LAST_MS: Final = (2**63 - 1) // 1000


def schema_of(options: SourceOptions) -> Any:
    """The schema of the mode, with the columns that are wanted."""
    if options.mode in COUNTED:
        schema = _counted(options)
    elif options.mode == "stamps":
        schema = STAMPS_WITH_CONTENT if options.include_content_hash else STAMPS
    else:
        schema = RECORDS_WITH_HEADERS if options.include_headers else RECORDS
    if not options.columns:
        return schema
    return pa.schema([field for field in schema if field.name in options.columns])


def _counted(options: SourceOptions) -> Any:
    columns = columns_of(options.mode, False, options.include_content_hash)
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])


def micros(timestamp: int) -> int:
    """Spark's timestamps are microseconds in 64 bits: what Kafka's milliseconds in 64 bits hold
    beyond that (no real date) becomes the last one there is."""
    return max(-_LAST_MS, min(timestamp, _LAST_MS)) * 1000


def damaged_stamp(schema: Any, span: Span, found: Damage) -> Any:
    """The one row among stamps that says where a partition cannot be read."""
    return _stamp(schema, span, kinds.DAMAGED, found)


def missing_stamp(schema: Any, span: Span, kind: int, offset: int, end: int) -> Any:
    """The one row among stamps that says which offsets are EXPIRED or LEFT_OUT."""
    return _stamp(schema, span, kind, Damage(offset, end, "", -1))


def damaged_record(schema: Any, span: Span, found: Damage) -> Any:
    """The one row among records that says where a partition cannot be read."""
    row = {
        "key": place_behind(found).encode(),
        "value": found.why.encode(),
        "topic": span.topic,
        "partition": span.partition,
        "offset": found.offset,
        "timestamp": micros(found.since),
        "timestampType": kinds.NO_RECORD,
    }
    return _one(schema, row)


def _stamp(schema: Any, span: Span, kind: int, found: Damage) -> Any:
    row = {
        "topic": span.topic,
        "partition": span.partition,
        "offset": found.offset,
        "timestamp": found.since,
        "size": 0,
        "stamped": kind,
        "server": found.why,
        "instance": place_behind(found),
    }
    return _one(schema, row)


def place_behind(found: Damage) -> str:
    """The inverse of :func:`tallymark_spark_jobs.source.kinds.end_of_damage`."""
    return f"{found.end}:{found.until}"


def _one(schema: Any, row: Mapping[str, object]) -> Any:
    made = [pa.array([row.get(field.name)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(made, schema=schema)
