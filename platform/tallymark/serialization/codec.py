"""One Avro schema's encoder and decoder: values to datum bytes and back.

fastavro does the work. By itself it would write 1.5 as the int 1, True as 1 and drop fields the
schema does not have; so every value is validated first, and one that does not fit is an error.
Schemas with recursive types go through the reference implementation ``avro``, which answers data
nested too deeply with an error where fastavro ends the process (see :mod:`.inspection`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fastavro import schemaless_reader, schemaless_writer
from fastavro.validation import validate

from tallymark.serialization.errors import SerializationError
from tallymark.serialization.inspection import Inspection, check_json_depth
from tallymark.serialization.trees import for_reading, parse, with_full_names


class Decoding:
    """Turns datum bytes into values by ``read``, which takes a stream and may fail in any way."""

    def __init__(self, read: Callable[[io.BytesIO], Any]) -> None:
        self.read = read

    def decode(self, datum: bytes | bytearray | memoryview, start: int = 0) -> Any:
        """The value of the bytes from ``start`` on. Raises SerializationError if they are no datum,
        or more than one."""
        stream = io.BytesIO(datum)
        stream.seek(start)
        try:
            value = self.read(stream)
        except RecursionError:
            raise SerializationError("the datum is nested too deeply") from None
        # Wrong bytes come out as EOFError, IndexError, UnicodeDecodeError, OverflowError ...
        except Exception as error:
            raise SerializationError(f"the bytes do not decode: {_say(error)}") from error
        if stream.tell() != len(datum):
            left = len(datum) - stream.tell()
            raise SerializationError(f"{left} bytes are left over after the datum")
        return value


class AvroCodec(Decoding):
    """Encodes and decodes values of one schema, given as JSON text or as the parsed JSON.

    ``references``: the texts of the schemas that it takes types from, each before those that refer
    to it. ``stored``: the schema comes from a registry and is only read with, so faults that do not
    matter for that are let pass: defaults that do not fit, decimals without a precision.

    Raises SerializationError if the schema is not valid. Values are what fastavro takes: dicts for
    records, and for logical types either the Python type (datetime, Decimal, UUID) or the number or
    text underneath; decoding gives the Python type. A field left out takes its default.
    """

    def __init__(
        self,
        schema: str | Mapping[str, Any] | Sequence[Any],
        references: Sequence[str] = (),
        *,
        stored: bool = False,
    ) -> None:
        try:
            self.text = schema if isinstance(schema, str) else json.dumps(schema)
            tree, *referred = [_load(text, stored) for text in (self.text, *references)]
            parsed = parse(tree, referred)
            self.tree, self.parsed, self.known = parsed
            self.recursive = Inspection(self.parsed).recursive
            codec = _Reference(self.reference_schema()) if self.recursive else _Fast(self.parsed)
        except SerializationError:
            raise
        except RecursionError:
            raise SerializationError("the schema is nested too deeply") from None
        # fastavro meets wrong JSON with whatever its code stumbles over: KeyError, TypeError ...
        except Exception as error:
            raise SerializationError(f"the schema is not valid Avro: {_say(error)}") from error
        self._codec: _Codec = codec
        super().__init__(codec.decode)

    @property
    def name(self) -> str:
        """The full name of the type, "" if it has none (a union, an array, a string ...)."""
        parsed = self.parsed
        return str(parsed.get("name", "")) if isinstance(parsed, dict) else ""

    def encode(self, value: Any) -> bytes:
        """The datum. Raises SerializationError if ``value`` does not fit the schema."""
        try:
            return self._codec.encode(value)
        except SerializationError:
            raise
        except RecursionError:
            raise SerializationError("the value is nested too deeply") from None
        # Validation, unions and logical types each raise what they like on a wrong value.
        except Exception as error:
            raise SerializationError(f"the value does not fit its schema: {_say(error)}") from error

    def reference_schema(self) -> Any:
        """The schema as the package ``avro`` knows it. Imported here only: most programs never need
        it."""
        import avro.schema

        # Names and logical types were checked already, and by rules that take more.
        # A type without a namespace within one is not known to it.
        tree = with_full_names(self.tree, "", set())
        return avro.schema.parse(json.dumps(tree), validate_names=False)


def _load(text: str, stored: bool) -> Any:
    tree = json.loads(text)
    check_json_depth(tree, "schema")
    return for_reading(tree) if stored else tree


class _Codec(Protocol):
    def encode(self, value: Any) -> bytes: ...

    def decode(self, stream: io.BytesIO) -> Any: ...


class _Fast:
    """fastavro."""

    def __init__(self, parsed: Any) -> None:
        self._schema = parsed

    def encode(self, value: Any) -> bytes:
        validate(value, self._schema)
        stream = io.BytesIO()
        schemaless_writer(stream, self._schema, value, strict_allow_default=True)
        return stream.getvalue()

    def decode(self, stream: io.BytesIO) -> Any:
        return schemaless_reader(stream, self._schema, None)


class _Reference:
    """The ``avro`` package."""

    def __init__(self, schema: Any) -> None:
        import avro.io

        self._io = avro.io
        self._reader = avro.io.DatumReader(schema)
        self._writer = avro.io.DatumWriter(schema)

    def encode(self, value: Any) -> bytes:
        # The writer validates the rest of the value at each level of it: ten times as deep is a
        # hundred times as slow.
        check_json_depth(value, "value")
        stream = io.BytesIO()
        self._writer.write(value, self._io.BinaryEncoder(stream))
        return stream.getvalue()

    def decode(self, stream: io.BytesIO) -> Any:
        return self._reader.read(self._io.BinaryDecoder(stream))


def _say(error: Exception) -> str:
    """One line of bounded length: validation errors are lists, written as JSON over many lines."""
    text = " ".join(str(error).split()) or type(error).__name__
    if text.startswith('[ "') and text.endswith('" ]'):
        text = text[3:-3]
    return text if len(text) <= 300 else f"{text[:300]}..."
