"""Values in Avro, decoded into one Arrow column: bytes in, a column and what is wrong out.

fastavro decodes; Avro's resolution gives every value in the reader's schema. A value that cannot be
decoded is null in the column and named beside it. A registry that does not answer is no fault of a
value, and raises.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import fastavro

from tallymark.serialization import (
    AvroCodec,
    RegistryError,
    Schema,
    SerializationError,
)
from tallymark.serialization.codec import Decoding
from tallymark.serialization.frame import HEADER_SIZE, schema_before
from tallymark.serialization.resolution import Resolution
from tallymark_spark_jobs.source.avro.reader_schema import ReaderSchema, without_logical_types
from tallymark_spark_jobs.source.avro.units import check_units

Value = bytes | memoryview | None
_NOT_FOUND: Final = 404


class Schemas(Protocol):
    """What is asked of the registry's client (:class:`tallymark.serialization.RegistryClient`)."""

    def schema_by_id(self, schema_id: int) -> Schema: ...

    def reference_texts(self, schema: Schema) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Poison:
    """The value of ``row`` cannot be decoded, and ``why``. ``schema_id``: by the registry's id that
    stands before it, -1 where none does."""

    row: int
    why: str
    schema_id: int = -1


@dataclass(frozen=True, slots=True)
class Decoded:
    """``column``: an Arrow array of the decoder's type, null where the value was, or is poison."""

    column: Any
    poison: tuple[Poison, ...] = ()


class ValueDecoder:
    """Decodes values framed with a schema's id. Not for several threads.

    ``registry`` gives the schemas that values were written with, each asked for once."""

    def __init__(self, reader: ReaderSchema, registry: Schemas) -> None:
        self._registry = registry
        self._kind = reader.kind()
        self._tags = reader.tags()
        self._reader = reader.codec()
        self._bare = _bare(reader.text, reader.references, False)
        self._as_written = _bare(reader.text, reader.references, True).parsed
        self._decodings: dict[int, Decoding | str] = {}

    @property
    def arrow(self) -> Any:
        """The type of the column."""
        return self._kind.arrow

    def decode(self, values: Sequence[Value]) -> Decoded:
        """One row a value; None stays null. Raises ConnectError and TimedOutError where the
        registry does not answer, RegistryError where it refuses."""
        rows: list[Any] = []
        poison: list[Poison] = []
        for row, value in enumerate(values):
            schema_id = -1
            try:
                if value is None:
                    rows.append(None)
                    continue
                schema_id = schema_before(value)
                decoding = self._decodings.get(schema_id) or self._learn(schema_id)
                if isinstance(decoding, str):
                    raise SerializationError(decoding)
                rows.append(decoding.decode(value, HEADER_SIZE))
            except SerializationError as error:
                rows.append(None)
                poison.append(Poison(row, str(error), schema_id))
        column = self._built(rows, values, poison)
        return Decoded(column, tuple(sorted(poison, key=lambda one: one.row)))

    def _built(self, rows: list[Any], values: Sequence[Value], poison: list[Poison]) -> Any:
        """The column. A value that has no place in it (a date after the year 294,246, a decimal
        with more digits than its type has) is poison, too."""
        try:
            return self._kind.build(rows)
        except (ValueError, TypeError, OverflowError, KeyError):
            pass
        for row, value in enumerate(rows):
            try:
                self._kind.build([value])
            except (ValueError, TypeError, OverflowError, KeyError) as error:
                why = f"the value has no place in its column: {error}"
                poison.append(Poison(row, why, schema_before(values[row] or b"")))
                rows[row] = None
        return self._kind.build(rows)

    def _learn(self, schema_id: int) -> Decoding | str:
        """A text says why values of this schema cannot be decoded."""
        found: Decoding | str
        try:
            found = self._decoding(self._registry.schema_by_id(schema_id))
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            found = f"the registry knows no schema {schema_id}"
        except SerializationError as error:
            found = f"schema {schema_id}: {error}"
        self._decodings[schema_id] = found
        return found

    def _decoding(self, schema: Schema) -> Decoding:
        if schema.kind != "AVRO":
            raise SerializationError(f"it is of the type {schema.kind}, not AVRO")
        references = self._registry.reference_texts(schema)
        check_units(AvroCodec(schema.text, references, stored=True), self._reader)
        writer = _bare(schema.text, references, True)
        if writer.parsed == self._as_written:
            return Decoding(_Same(writer, self._tags))
        return Resolution(writer, self._bare, tags=self._tags)


class _Same:
    """Reads what was written with the reader's own schema, which is faster."""

    def __init__(self, codec: AvroCodec, tags: bool) -> None:
        self._schema = codec.parsed
        self._tags = tags

    def __call__(self, stream: io.BytesIO) -> Any:
        return fastavro.schemaless_reader(stream, self._schema, None, return_named_type=self._tags)


def _bare(text: str, references: Sequence[str], stored: bool) -> AvroCodec:
    texts = [without_logical_types(one) for one in (text, *references)]
    return AvroCodec(texts[0], texts[1:], stored=stored)
