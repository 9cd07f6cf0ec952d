"""What a producer encodes with and a consumer decodes with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallymark.serialization.codec import AvroCodec
from tallymark.serialization.frame import header, split_frame
from tallymark.serialization.registry_client import RegistryClient


def topic_name_subject(topic: str, is_key: bool = False) -> str:
    """The subject of a topic's values (or keys) by TopicNameStrategy, every client's default."""
    return f"{topic}-key" if is_key else f"{topic}-value"


class AvroEncoder:
    """``encoder(topic, value) -> bytes``: the frame of :mod:`tallymark.serialization.frame`.

    The schema is registered under ``subject`` (default: ``<topic>-value``) before the first value
    of a topic, by the thread that sends it. Raises SerializationError if a value does not fit,
    RegistryError if the registry refuses the schema, ConnectError if it is not there.
    """

    def __init__(
        self,
        registry: RegistryClient,
        schema: str | Mapping[str, Any],
        subject: str | None = None,
    ) -> None:
        self.codec = AvroCodec(schema)
        self._registry = registry
        self._subject = subject
        self._headers: dict[str, bytes] = {}

    def __call__(self, topic: str, value: Any) -> bytes:
        # Encoded first: a value that does not fit must not register a schema.
        datum = self.codec.encode(value)
        found = self._headers.get(topic)
        if found is None:
            found = self._headers[topic] = header(self.schema_id(topic))
        return found + datum

    def schema_id(self, topic: str) -> int:
        """The schema's id; registers it if need be."""
        return self._registry.register(self._subject or topic_name_subject(topic), self.codec.text)


class AvroDecoder:
    """``decoder(topic, data) -> value``, with the schema that each message was written with.

    Raises SerializationError if the bytes are no Avro message, RegistryError if the registry does
    not know their schema, ConnectError if it is not there. A schema is asked for once.
    """

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry
        self._codecs: dict[int, AvroCodec] = {}

    def __call__(self, topic: str, data: bytes | bytearray | memoryview) -> Any:
        return self.decode(data)

    def decode(self, data: bytes | bytearray | memoryview) -> Any:
        """The value of one message, framed."""
        schema_id, datum = split_frame(data)
        codec = self._codecs.get(schema_id)
        if codec is None:
            codec = self._codecs[schema_id] = AvroCodec(self._registry.schema(schema_id))
        return codec.decode(datum)
