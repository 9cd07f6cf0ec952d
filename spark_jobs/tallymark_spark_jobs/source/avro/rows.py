"""The source's batches with the value decoded.

``value`` becomes a column of the reader's schema. With ``avro.mode=PERMISSIVE`` two columns follow
the others: ``value_error`` says why a value is null that was not, and ``value_bytes`` has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from tallymark.errors import UserError
from tallymark_spark_jobs.source.avro import buffers
from tallymark_spark_jobs.source.avro.decoding import Decoded, ValueDecoder
from tallymark_spark_jobs.source.avro.reader_schema import ReaderSchema
from tallymark_spark_jobs.source.avro.settings import AvroSettings

VALUE: Final = "value"
ERROR: Final = pa.field("value_error", pa.string())
BYTES: Final = pa.field("value_bytes", pa.binary())
_NO_RECORD: Final = -1
"""The ``timestampType`` of a row that says what could not be read; its value is the reason."""


def avro_schema(plain: Any, reader: ReaderSchema, permissive: bool) -> Any:
    """The Arrow schema of decoded batches, from that of the batches as they are read."""
    at = plain.get_field_index(VALUE)
    if at < 0:
        return plain
    found = plain.set(at, pa.field(VALUE, reader.kind().arrow))
    return found.append(ERROR).append(BYTES) if permissive else found


def decoded_batches(
    batches: Iterable[Any], topic: str, partition: int, settings: AvroSettings
) -> Iterator[Any]:
    """The batches of a partition with decoded values; the reader's schema has to be fixed. Raises
    UserError, unless permissive, for the first value that cannot be decoded, with its place."""
    reader = settings.reader((topic,))
    with settings.client() as registry:
        decoder = ValueDecoder(reader, registry)
        schema = None
        for batch in batches:
            at = batch.schema.get_field_index(VALUE)
            if at < 0:
                yield batch
                continue
            if schema is None:
                schema = avro_schema(batch.schema, reader, settings.permissive)
            values = batch.column(at).to_pylist()
            reasons = _reasons(batch)
            found = decoder.decode(
                [None if row in reasons else value for row, value in enumerate(values)]
            )
            columns = [*batch.columns]
            columns[at] = found.column
            if settings.permissive:
                columns += _what_is_wrong(values, found, reasons)
            elif found.poison:
                raise _error(batch, f"{topic}-{partition}", found)
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _reasons(batch: Any) -> dict[int, str]:
    """Rows that are no records, because the log cannot be read there."""
    at = batch.schema.get_field_index("timestampType")
    if at < 0:
        return {}
    kinds = batch.column(at).to_numpy()
    rows = (kinds == _NO_RECORD).nonzero()[0].tolist()
    values = batch.column(batch.schema.get_field_index(VALUE))
    return {row: values[row].as_py().decode("utf-8", "replace") for row in rows}


def _what_is_wrong(values: list[Any], found: Decoded, reasons: dict[int, str]) -> list[Any]:
    why: list[str | None] = [None] * len(values)
    raw: list[bytes | None] = [None] * len(values)
    for row, text in reasons.items():
        why[row] = text
    for one in found.poison:
        why[one.row], raw[one.row] = one.why, values[one.row]
    return [buffers.texts(why), buffers.variable(pa.binary(), raw)]


def _error(batch: Any, place: str, found: Decoded) -> UserError:
    first = found.poison[0]
    at = batch.schema.get_field_index("offset")
    if at >= 0:
        place += f" offset {batch.column(at)[first.row].as_py()}"
    return UserError(
        f"{place}: the value cannot be decoded: {first.why}",
        "avro.mode=PERMISSIVE gives null for it, and says why in the column value_error",
    )
