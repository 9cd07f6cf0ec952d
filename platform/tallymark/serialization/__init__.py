"""Avro on the wire: a magic byte, the schema's id, the datum; and the registry's HTTP client.

Reading order: :mod:`.frame` (the layout), :mod:`.codec` (one schema's encoder and decoder),
:mod:`.resolution` (one schema's data read as another), :mod:`.operations` (what a registry can be
asked) and :mod:`.registry_client` (what is remembered of it), then :mod:`.serializers`, which join
them::

    registry = RegistryClient("http://127.0.0.1:8081")
    producer = Producer(..., value_encoder=AvroEncoder(registry, schema))
    value = AvroDecoder(registry)(topic, message.value)
"""

from tallymark.serialization.codec import AvroCodec
from tallymark.serialization.errors import RegistryError, SerializationError
from tallymark.serialization.frame import frame, split_frame
from tallymark.serialization.registry_client import RegistryClient
from tallymark.serialization.schemas import DryRun, Reference, RegisteredSchema, Schema
from tallymark.serialization.serializers import AvroDecoder, AvroEncoder
from tallymark.serialization.subjects import (
    by_record,
    by_topic,
    by_topic_and_record,
    topic_name_subject,
)

__all__ = [
    "AvroCodec",
    "AvroDecoder",
    "AvroEncoder",
    "DryRun",
    "Reference",
    "RegisteredSchema",
    "RegistryClient",
    "RegistryError",
    "Schema",
    "SerializationError",
    "by_record",
    "by_topic",
    "by_topic_and_record",
    "frame",
    "split_frame",
    "topic_name_subject",
]
