"""A file of a table as Iceberg's metadata has it, and back."""

from __future__ import annotations

import math
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile as IcebergsFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import DataFile, Place

_EPOCH: Final = date(1970, 1, 1)
_WHOLE: Final = (IntegerType, LongType, DateType, TimestampType, TimestamptzType)
_LONGEST_TEXT: Final = 64


def to_iceberg(file: DataFile, storage: Storage, table: TableMetadata) -> IcebergsFile:
    """The entry of a file. All is known from the task that wrote it: the file is not opened."""
    place = file.place
    day = (date.fromisoformat(place.date) - _EPOCH).days
    return IcebergsFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{storage.uri}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=Record(place.topic, day, place.hour),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
        spec_id=table.default_spec_id,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **_bounds(file, table.schema()),
    )


def from_iceberg(file: IcebergsFile, storage: Storage) -> DataFile:
    """The file that an entry names."""
    topic, day, hour = file.partition[0], file.partition[1], file.partition[2]
    told = day if isinstance(day, date) else _EPOCH + timedelta(days=int(day))
    return DataFile(
        path_of(file.file_path, storage),
        Place(str(topic), told.isoformat(), str(hour)),
        file.record_count,
        file.file_size_in_bytes,
    )


def path_of(address: str, storage: Storage) -> str:
    """The path of a file below the table's location."""
    for prefix in (storage.uri, storage.location.rstrip("/")):
        if address.startswith(f"{prefix}/"):
            return address[len(prefix) + 1 :]
    return unquote(urlsplit(address).path)


def _bounds(file: DataFile, schema: Schema) -> dict[str, Any]:
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    nulls: dict[int, int] = {}
    counts: dict[int, int] = {}
    names = schema.as_struct().fields
    kinds = {field.name: field for field in names}
    for told in file.stats:
        field = kinds.get(told.column)
        if field is None:
            continue
        if told.nulls is not None:
            nulls[field.field_id] = told.nulls
            counts[field.field_id] = file.rows
        kind, low, high = field.field_type, told.lowest, told.highest
        if not isinstance(kind, PrimitiveType) or low is None or high is None:
            continue
        if _fits(low, kind) and _fits(high, kind):
            lower[field.field_id] = to_bytes(kind, low)
            upper[field.field_id] = to_bytes(kind, high)
    return {
        "lower_bounds": lower,
        "upper_bounds": upper,
        "null_value_counts": nulls,
        "value_counts": counts,
    }


def _fits(value: object, kind: object) -> bool:
    """Whether a bound can be given without being wrong."""
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return isinstance(kind, StringType) and len(value) <= _LONGEST_TEXT
    if isinstance(value, int):
        return isinstance(kind, _WHOLE)
    return (
        isinstance(value, float)
        and isinstance(kind, FloatType | DoubleType)
        and math.isfinite(value)
    )
