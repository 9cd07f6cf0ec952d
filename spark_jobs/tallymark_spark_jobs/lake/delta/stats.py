"""What a Delta table keeps about a file's columns, so that readers can skip the file."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from typing import Final

import pyarrow as pa

from tallymark_spark_jobs.lake.table import DataFile

_LONGEST_TEXT: Final = 64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def stats_json(file: DataFile, schema: pa.Schema) -> str:
    """The statistics as Delta's protocol has them. A bound that could be wrong is left out: a text
    that is long, for instance."""
    lowest: dict[str, object] = {}
    highest: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for bounds in file.stats:
        at = schema.get_field_index(bounds.column)
        if at < 0:
            continue
        if bounds.nulls is not None:
            nulls[bounds.column] = bounds.nulls
        ends = [_written(end, schema.field(at).type) for end in (bounds.lowest, bounds.highest)]
        if None not in ends:
            lowest[bounds.column], highest[bounds.column] = ends
    return json.dumps(
        {"numRecords": file.rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}
    )


def _written(value: float | str | bool | None, kind: pa.DataType) -> object:
    if isinstance(value, str):
        return value if pa.types.is_string(kind) and len(value) <= _LONGEST_TEXT else None
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int) and pa.types.is_timestamp(kind):
        return (_EPOCH + timedelta(microseconds=value)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, int) and pa.types.is_date(kind):
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if isinstance(value, int):
        return value if pa.types.is_integer(kind) else None
    return value if pa.types.is_floating(kind) and math.isfinite(value) else None
