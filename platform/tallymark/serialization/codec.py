"""One Avro schema's encoder and decoder: values to datum bytes and back.

fastavro does the work. By itself it would write 1.5 as the int 1, True as 1 and drop fields the
schema does not have; so every value is validated first, and one that does not fit is an error.
Schemas with recursive types go through the reference implementation ``avro``, which answers data
nested too deeply with an error where fastavro ends the process (see :mod:`.inspection`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import fastavro
import fastavro.validation

from tallymark.serialization.errors import SerializationError
from tallymark.serialization.inspection import Inspection, check_json_depth


class AvroCodec:
    """Encodes and decodes values of one schema, given as JSON text or as the parsed JSON.

    Raises SerializationError if the schema is not valid. Values are what fastavro takes: dicts for
    records, and for logical types either the Python type (datetime, Decimal, UUID) or the number or
    text underneath; decoding gives the Python type. A field left out takes its default.
    """

    def __init__(self, schema: str | Mapping[str, Any] | Sequence[Any]) -> None:
        try:
            self.text = schema if isinstance(schema, str) else json.dumps(schema)
            tree = json.loads(self.text)
            check_json_depth(tree, "schema")
            parsed = fastavro.parse_schema(tree)
            recursive = Inspection(parsed).recursive
        except SerializationError:
            raise
        except RecursionError:
            raise SerializationError("the schema is nested too deeply") from None
        # fastavro meets wrong JSON with whatever its code stumbles over: KeyError, TypeError ...
        except Exception as error:
            raise SerializationError(f"the schema is not valid Avro: {_say(error)}") from error
        self.parsed: Any = parsed
        self._codec: _Codec = _Reference(self.text) if recursive else _Fast(parsed)

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

    def decode(self, datum: bytes | bytearray | memoryview) -> Any:
        """The value. Raises SerializationError if the bytes are no datum, or more than one."""
        stream = io.BytesIO(datum)
        try:
            value = self._codec.decode(stream)
        except RecursionError:
            raise SerializationError("the datum is nested too deeply") from None
        # Wrong bytes come out as EOFError, IndexError, UnicodeDecodeError, OverflowError ...
        except Exception as error:
            raise SerializationError(f"the bytes do not decode: {_say(error)}") from error
        if stream.tell() != len(datum):
            left = len(datum) - stream.tell()
            raise SerializationError(f"{left} bytes are left over after the datum")
        return value


class _Codec(Protocol):
    def encode(self, value: Any) -> bytes: ...

    def decode(self, stream: io.BytesIO) -> Any: ...


class _Fast:
    """fastavro."""

    def __init__(self, parsed: Any) -> None:
        self._schema = parsed

    def encode(self, value: Any) -> bytes:
        fastavro.validation.validate(value, self._schema)
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, self._schema, value, strict_allow_default=True)
        return stream.getvalue()

    def decode(self, stream: io.BytesIO) -> Any:
        return fastavro.schemaless_reader(stream, self._schema, None)


class _Reference:
    """The ``avro`` package. Imported here only: most programs never need it."""

    def __init__(self, text: str) -> None:
        import avro.io
        import avro.schema

        self._io = avro.io
        # Names and logical types were checked already, and by rules that take more.
        schema = avro.schema.parse(text, validate_names=False)
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
