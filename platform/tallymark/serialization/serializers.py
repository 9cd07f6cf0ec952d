"""What a producer encodes with and a consumer decodes with."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tallymark.errors import TallymarkError, UserError
from tallymark.serialization.codec import AvroCodec
from tallymark.serialization.errors import RegistryError, SerializationError
from tallymark.serialization.frame import (
    HEADER_SIZE,
    RecordHeader,
    guid_header,
    header,
    schema_before,
    schema_in,
)
from tallymark.serialization.registry_client import RegistryClient
from tallymark.serialization.resolution import Resolution
from tallymark.serialization.schemas import AVRO, RegisteredSchema, Schema
from tallymark.serialization.subjects import SubjectStrategy, by_topic

_LOG = logging.getLogger(__name__)
_LATEST_S: Final = 60.0
"""How long the latest version is the latest, before the registry is asked again."""
_AGAIN_S: Final = 5.0
"""When it is asked again after it could not be."""
_CODECS: Final = 1000
_TOPICS: Final = 10_000
"""What is kept of each; the oldest goes."""


@dataclass(slots=True)
class _Known:
    """What a topic's values are written with. ``until`` is a monotonic time in seconds."""

    codec: AvroCodec
    schema_id: int
    prefix: bytes
    until: float


class AvroEncoder:
    """``encoder(topic, value) -> bytes``: the frame of :mod:`tallymark.serialization.frame`.

    The schema is registered under its subject before the first value of a topic, by the thread that
    sends it. ``subject`` is a name, or a strategy: :func:`by_topic` (``<topic>-value``, the
    default), :func:`by_record`, :func:`by_topic_and_record`, or a function of yours; ``is_key``
    makes it ``<topic>-key``. ``auto_register=False``: the schema must be registered already.
    ``use_latest_version``: values are written with the newest version of the subject, whatever it
    is, looked for once a minute; then ``schema`` may be left out. ``normalize``: the registry
    compares and stores the schema in its normal form.

    Raises SerializationError if a value does not fit, RegistryError if the registry refuses the
    schema or does not have it, ConnectError if it is not there.
    """

    def __init__(
        self,
        registry: RegistryClient,
        schema: str | Mapping[str, Any] | Schema | None = None,
        subject: str | SubjectStrategy | None = None,
        *,
        is_key: bool = False,
        auto_register: bool = True,
        use_latest_version: bool = False,
        normalize: bool = False,
    ) -> None:
        if schema is None and not use_latest_version:
            raise UserError("an encoder needs a schema", "give one, or use_latest_version=True")
        self._registry = registry
        self._own = None if schema is None else _codec(registry, schema)
        self._sent = schema if isinstance(schema, Schema) else None
        self._subject = subject
        self._is_key = is_key
        self._auto_register = auto_register
        self._use_latest = use_latest_version
        self._normalize = normalize
        self._known: dict[str, _Known] = {}
        self._headers: dict[int, tuple[str, bytes]] = {}
        self._clock = time.monotonic

    @property
    def codec(self) -> AvroCodec:
        """Of the schema that was given. Raises UserError if none was."""
        if self._own is None:
            raise UserError("the encoder was given no schema", "it uses the registry's latest")
        return self._own

    def __call__(self, topic: str, value: Any) -> bytes:
        known = self._known.get(topic)
        if known is None or (self._use_latest and known.until < self._clock()):
            known = self._look(topic, known, [value])
        return known.prefix + known.codec.encode(value)

    def encode_with_header(self, topic: str, value: Any) -> tuple[bytes, list[tuple[str, bytes]]]:
        """The datum alone, and the headers that its record must have: they say the schema's guid
        (Confluent's ``HeaderSchemaIdSerializer``)::

            value, headers = encoder.encode_with_header("orders", order)
            producer.send("orders", value, headers=headers)
        """
        known = self._written_with(topic, [value])
        found = self._headers.get(known.schema_id)
        if found is None:
            guid = self._registry.guid(known.schema_id)
            found = self._headers[known.schema_id] = guid_header(guid, self._is_key)
        return known.codec.encode(value), [found]

    def schema_id(self, topic: str) -> int:
        """The schema's id; registers it if need be."""
        return self._written_with(topic, []).schema_id

    def _written_with(self, topic: str, values: Sequence[Any]) -> _Known:
        known = self._known.get(topic)
        if known is None or (self._use_latest and known.until < self._clock()):
            known = self._look(topic, known, values)
        return known

    def _look(self, topic: str, known: _Known | None, values: Sequence[Any]) -> _Known:
        """Ask the registry. ``values`` are to be written: one that does not fit must not register
        a schema."""
        own = self._own
        subject = self._subject_of(topic)
        if self._use_latest:
            return self._keep(topic, self._latest(subject, known))
        assert own is not None
        for value in values:
            own.encode(value)
        schema_id = self._register(subject, self._sent or own.text)
        return self._keep(topic, _Known(own, schema_id, header(schema_id), 0.0))

    def _subject_of(self, topic: str) -> str:
        subject = self._subject or by_topic
        if isinstance(subject, str):
            return subject
        return subject(topic, self._own.name if self._own else "", self._is_key)

    def _register(self, subject: str, schema: str | Schema) -> int:
        if self._auto_register:
            return self._registry.register(subject, schema, normalize=self._normalize)
        found = self._registry.lookup(subject, schema, normalize=self._normalize)
        if found is None:
            raise RegistryError(
                404,
                40403,
                f"the schema is no version of the subject {subject!r}; register it, or let the "
                "encoder do so with auto_register=True",
            )
        return found.schema_id

    def _latest(self, subject: str, known: _Known | None) -> _Known:
        """The newest version. What was known stays in use while the registry cannot be asked."""
        if known is not None:
            known.until = self._clock() + _AGAIN_S  # other threads go on with it meanwhile
        try:
            found = self._registry.latest(subject)
            if found is None:
                raise RegistryError(404, 40401, f"the subject {subject!r} has no version to use")
            if known is not None and known.schema_id == found.schema_id:
                known.until = self._clock() + _LATEST_S
                return known
            codec = _codec(self._registry, _writable(found))
        except TallymarkError as error:
            if known is None:
                raise
            _LOG.warning(
                "%s is written as before, with schema %d: %s", subject, known.schema_id, error
            )
            return known
        until = self._clock() + _LATEST_S
        return _Known(codec, found.schema_id, header(found.schema_id), until)

    def _keep(self, topic: str, known: _Known) -> _Known:
        if len(self._known) >= _TOPICS:
            self._known = {}
        self._known[topic] = known
        return known


class AvroDecoder:
    """``decoder(topic, data) -> value``, with the schema that each message was written with.

    ``reader``: a schema of yours that values are given by, whatever version they were written with
    (Avro's schema resolution): fields that it does not have are left out, those that were not there
    take its defaults. ``is_key``: for keys; only the name of the header differs.

    Raises SerializationError if the bytes are no Avro message, or the reader's schema cannot take
    them; RegistryError if the registry does not know their schema, ConnectError if it is not there.
    A schema is asked for once.
    """

    def __init__(
        self,
        registry: RegistryClient,
        reader: str | Mapping[str, Any] | AvroCodec | Schema | None = None,
        *,
        is_key: bool = False,
    ) -> None:
        self._registry = registry
        self._reader: AvroCodec | None = None
        if isinstance(reader, AvroCodec):
            self._reader = reader
        elif reader is not None:
            self._reader = _codec(registry, reader)
        self._is_key = is_key
        self._codecs: dict[int | str, AvroCodec | Resolution] = {}
        self._lock = threading.Lock()

    def __call__(
        self,
        topic: str,
        data: bytes | bytearray | memoryview,
        headers: Iterable[RecordHeader] = (),
    ) -> Any:
        return self.decode(data, headers)

    def decode(
        self, data: bytes | bytearray | memoryview, headers: Iterable[RecordHeader] = ()
    ) -> Any:
        """The value of one message: framed, or with its schema's guid in one of ``headers``."""
        key = schema_in(headers, self._is_key) if headers else None
        start = 0
        if key is None:
            key, start = schema_before(data), HEADER_SIZE
        codec = self._codecs.get(key)
        if codec is None:
            codec = self._load(key)
        return codec.decode(data, start)

    def _load(self, key: int | str) -> AvroCodec | Resolution:
        registry = self._registry
        found = registry.schema_by_id(key) if isinstance(key, int) else registry.schema_by_guid(key)
        if found.kind != AVRO:
            raise SerializationError(f"schema {key} is of the type {found.kind}, not AVRO")
        writer = AvroCodec(found.text, registry.reference_texts(found), stored=True)
        codec = Resolution(writer, self._reader) if self._reader else writer
        with self._lock:
            if len(self._codecs) >= _CODECS:
                del self._codecs[next(iter(self._codecs))]
            self._codecs[key] = codec
        return codec


def _codec(registry: RegistryClient, schema: str | Mapping[str, Any] | Schema) -> AvroCodec:
    """Of a schema that may refer to others, which the registry has."""
    if isinstance(schema, Schema):
        return AvroCodec(schema.text, registry.reference_texts(schema))
    return AvroCodec(schema)


def _writable(found: RegisteredSchema) -> Schema:
    """Raises SerializationError where values written with this version would not be right."""
    if found.kind != AVRO:
        raise SerializationError(
            f"version {found.version} of {found.subject!r} is of the type {found.kind}, not AVRO"
        )
    rules = found.rule_set or {}
    if any(rules.get(kind) for kind in ("domainRules", "encodingRules")):
        raise SerializationError(
            f"version {found.version} of {found.subject!r} has rules that values must pass when "
            "they are written (encryption, checks), and this encoder runs none; write them with "
            "one that does, or without use_latest_version"
        )
    return found.schema
