"""Our registry, encoder and decoder with the serializers that others use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallymark.serialization import AvroDecoder, AvroEncoder, RegistryClient
from tallymark_schema_registry.embedded import RegistryServer

pytestmark = pytest.mark.process

try:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext
except ImportError as missing:
    pytest.skip(
        f"confluent_kafka.schema_registry cannot be imported: {missing}", allow_module_level=True
    )

SCHEMA = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null},'
    '{"name":"lines","type":{"type":"array","items":{"type":"map","values":"double"}}}]}'
)
ORDER = {"id": 7, "note": "schön", "lines": [{"a": 0.5}, {}]}
CONTEXT = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RegistryServer]:
    with RegistryServer(f"sqlite:///{tmp_path / 'registry.db'}") as server:
        yield server


@pytest.fixture
def theirs(server: RegistryServer) -> Iterator[Any]:
    with SchemaRegistryClient({"url": server.url}) as client:
        yield client


def test_what_they_write_we_read(server: RegistryServer, theirs: Any) -> None:
    data = AvroSerializer(theirs, SCHEMA)(ORDER, CONTEXT)
    with RegistryClient(server.url) as client:
        assert AvroDecoder(client).decode(data) == ORDER
        assert client.versions("orders-value") == [1]


def test_what_we_write_they_read(server: RegistryServer, theirs: Any) -> None:
    with RegistryClient(server.url) as client:
        data = AvroEncoder(client, SCHEMA)("orders", ORDER)
    assert AvroDeserializer(theirs)(data, CONTEXT) == ORDER
    assert AvroSerializer(theirs, SCHEMA)(ORDER, CONTEXT) == data


def test_their_client_asks_our_registry(server: RegistryServer, theirs: Any) -> None:
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    schema = Schema(SCHEMA, "AVRO")
    schema_id = theirs.register_schema("a/b", schema)
    assert theirs.get_schema(schema_id).schema_str == SCHEMA
    assert theirs.lookup_schema("a/b", schema).version == 1
    assert theirs.get_subjects() == ["a/b"]
    assert theirs.get_latest_version("a/b").schema_id == schema_id
    assert theirs.test_compatibility("a/b", schema) is True
    assert theirs.test_compatibility("a/b", Schema('"int"', "AVRO")) is False
    with pytest.raises(SchemaRegistryError) as refused:
        theirs.register_schema("a/b", Schema('"int"', "AVRO"))
    assert refused.value.http_status_code == 409
    with pytest.raises(SchemaRegistryError) as missing:
        theirs.get_latest_version("none")
    assert missing.value.error_code == 40401
