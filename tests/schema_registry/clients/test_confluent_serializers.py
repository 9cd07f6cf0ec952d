"""confluent-kafka-python's serializers with our registry, and with our own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tallymark.serialization import (
    AvroDecoder,
    AvroEncoder,
    Reference,
    RegistryClient,
    Schema,
    by_record,
    by_topic_and_record,
)
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.web.responses import Profile

pytestmark = pytest.mark.process

try:
    from confluent_kafka.schema_registry import Schema as TheirSchema
    from confluent_kafka.schema_registry import (
        SchemaReference,
        SchemaRegistryClient,
        header_schema_id_serializer,
        record_subject_name_strategy,
        topic_record_subject_name_strategy,
    )
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.error import SchemaRegistryError
    from confluent_kafka.serialization import MessageField, SerializationContext
except ImportError as missing:
    pytest.skip(
        f"confluent_kafka.schema_registry cannot be imported: {missing}", allow_module_level=True
    )

KIND = '{"type":"enum","name":"Kind","namespace":"shop","symbols":["BOOK","TOY"]}'
LINE = (
    '{"type":"record","name":"Line","namespace":"shop","fields":['
    '{"name":"kind","type":"Kind"},{"name":"count","type":"int"}]}'
)
ORDER = (
    '{"type":"record","name":"Order","namespace":"sales","fields":['
    '{"name":"lines","type":{"type":"array","items":"shop.Line"}},'
    '{"name":"first","type":["null","shop.Kind"]}]}'
)
VALUE: Any = {"lines": [{"kind": "TOY", "count": 2}, {"kind": "BOOK", "count": 1}], "first": "TOY"}
ONE = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"}]}'
NAMED = '{"type":"record","name":"N","fields":[{"name":"name","type":"string"}]}'
"""Theirs reads no value below six bytes, also where its schema is in a header."""
TWO = ONE.replace("]}", ',{"name":"b","type":"string","default":"x"}]}')
CONTEXT = SerializationContext("orders", MessageField.VALUE)
KEY = SerializationContext("orders", MessageField.KEY)
REGISTERED = {"auto.register.schemas": False}


@pytest.fixture
def theirs(registry: RegistryServer) -> Iterator[Any]:
    with SchemaRegistryClient({"url": registry.url, "max.retries": 1}) as client:
        yield client


def test_references(theirs: Any, ours: RegistryClient, registry: RegistryServer) -> None:
    """Of references of references, written by each and read by the other."""
    to_kind = Reference("shop.Kind", "kinds", 1)
    to_line = Reference("shop.Line", "lines", 1)
    ours.register("kinds", KIND)
    ours.register("lines", Schema(LINE, (to_kind,)))
    order = Schema(ORDER, (to_line, to_kind))
    data = AvroEncoder(ours, order)("orders", VALUE)
    assert AvroDeserializer(theirs)(data, CONTEXT) == VALUE
    their_references = [SchemaReference(one.name, one.subject, 1) for one in order.references]
    their_order = TheirSchema(ORDER, "AVRO", their_references)
    assert AvroSerializer(theirs, their_order)(VALUE, CONTEXT) == data
    with RegistryClient(registry.url) as fresh:
        assert AvroDecoder(fresh).decode(data) == VALUE
        assert AvroEncoder(fresh, use_latest_version=True)("orders", VALUE) == data
    assert ours.versions("orders-value") == [1]


def test_what_is_deleted_softly_is_still_read(theirs: Any, ours: RegistryClient) -> None:
    """Topics hold data of schemas whose subjects are gone, with all that they refer to."""
    ours.register("kinds", KIND)
    line = Schema(LINE, (Reference("shop.Kind", "kinds", 1),))
    data = AvroEncoder(ours, line)("t", VALUE["lines"][0])
    ours.delete_subject("t-value")
    ours.delete_subject("kinds")
    assert AvroDecoder(ours).decode(data) == VALUE["lines"][0]
    assert AvroDeserializer(theirs)(data, CONTEXT) == VALUE["lines"][0]


def test_the_latest_version(theirs: Any, ours: RegistryClient) -> None:
    ours.register("orders-value", ONE)
    ours.register("orders-value", TWO)
    latest = {"auto.register.schemas": False, "use.latest.version": True}
    data = AvroSerializer(theirs, ONE, conf=latest)({"a": 1, "b": "y"}, CONTEXT)
    assert data == AvroEncoder(ours, use_latest_version=True)("orders", {"a": 1, "b": "y"})
    assert AvroDecoder(ours).decode(data) == {"a": 1, "b": "y"}


def test_what_is_not_registered_is_not_written(theirs: Any, ours: RegistryClient) -> None:
    with pytest.raises(SchemaRegistryError, match="40401"):
        AvroSerializer(theirs, ONE, conf=REGISTERED)({"a": 1}, CONTEXT)
    ours.register("orders-value", ONE)
    data = AvroSerializer(theirs, ONE, conf=REGISTERED)({"a": 1}, CONTEXT)
    assert data == AvroEncoder(ours, ONE, auto_register=False)("orders", {"a": 1})


@pytest.mark.parametrize(
    ("their_strategy", "our_strategy", "subject"),
    [
        (record_subject_name_strategy, by_record, "n.R"),
        (topic_record_subject_name_strategy, by_topic_and_record, "orders-n.R"),
    ],
)
def test_strategies(
    theirs: Any, ours: RegistryClient, their_strategy: Any, our_strategy: Any, subject: str
) -> None:
    data = AvroSerializer(theirs, ONE, conf={"subject.name.strategy": their_strategy})(
        {"a": 1}, CONTEXT
    )
    assert ours.subjects() == [subject]
    assert AvroEncoder(ours, ONE, our_strategy)("orders", {"a": 1}) == data
    assert ours.versions(subject) == [1]


def test_an_older_reader(theirs: Any, ours: RegistryClient) -> None:
    old = AvroEncoder(ours, ONE)("orders", {"a": 1})
    new = AvroEncoder(ours, TWO)("orders", {"a": 2, "b": "y"})
    for data, by_two in ((old, {"a": 1, "b": "x"}), (new, {"a": 2, "b": "y"})):
        assert AvroDeserializer(theirs, TWO)(data, CONTEXT) == by_two
        assert AvroDecoder(ours, TWO).decode(data) == by_two
        assert AvroDeserializer(theirs, ONE)(data, CONTEXT) == {"a": by_two["a"]}
        assert AvroDecoder(ours, ONE).decode(data) == {"a": by_two["a"]}


@pytest.mark.parametrize("profile", [Profile.EIGHT], indirect=True)
@pytest.mark.parametrize("is_key", [False, True])
def test_the_guid_in_a_header(theirs: Any, ours: RegistryClient, is_key: bool) -> None:
    field = MessageField.KEY if is_key else MessageField.VALUE
    context = SerializationContext("orders", field, headers=[])
    in_header = {"schema.id.serializer": header_schema_id_serializer}
    datum = AvroSerializer(theirs, NAMED, conf=in_header)({"name": "gadget"}, context)
    headers: Any = context.headers
    assert AvroDecoder(ours, is_key=is_key).decode(datum, headers) == {"name": "gadget"}
    encoder = AvroEncoder(ours, NAMED, is_key=is_key)
    assert encoder.encode_with_header("orders", {"name": "gadget"}) == (datum, headers)
    read = AvroDeserializer(theirs)(datum, SerializationContext("orders", field, headers=headers))
    assert read == {"name": "gadget"}


@pytest.mark.parametrize("profile", [Profile.SEVEN], indirect=True)
def test_a_guid_that_the_registry_does_not_say(theirs: Any, ours: RegistryClient) -> None:
    """Theirs needs the profile 8 to write it, and reads it in both."""
    datum, headers = AvroEncoder(ours, NAMED).encode_with_header("orders", {"name": "gadget"})
    theirs_of_it: Any = headers
    context = SerializationContext("orders", MessageField.VALUE, headers=theirs_of_it)
    assert AvroDeserializer(theirs)(datum, context) == {"name": "gadget"}
    assert AvroDecoder(ours).decode(datum, headers) == {"name": "gadget"}


def test_keys(theirs: Any, ours: RegistryClient) -> None:
    data = AvroSerializer(theirs, '"string"')("k", KEY)
    assert AvroEncoder(ours, '"string"', is_key=True)("orders", "k") == data
    assert ours.subjects() == ["orders-key"]
