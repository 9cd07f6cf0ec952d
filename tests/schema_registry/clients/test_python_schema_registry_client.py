"""python-schema-registry-client with our registry."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tallymark.serialization import AvroDecoder, AvroEncoder, RegistryClient
from tallymark_schema_registry.embedded import RegistryServer

pytestmark = pytest.mark.process

try:
    from schema_registry.client import AsyncSchemaRegistryClient, SchemaRegistryClient
    from schema_registry.client.errors import ClientError
    from schema_registry.client.schema import AvroSchema
    from schema_registry.serializers.message_serializer import AvroMessageSerializer
except ImportError as missing:
    pytest.skip(
        f"python-schema-registry-client cannot be imported: {missing}", allow_module_level=True
    )

ONE: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
TWO = {**ONE, "fields": [*ONE["fields"], {"name": "b", "type": "int", "default": 0}]}
WRONG = {**ONE, "fields": [{"name": "a", "type": "string"}]}


@pytest.fixture
def theirs(registry: RegistryServer) -> Any:
    return SchemaRegistryClient(registry.url)


def test_register_evolve_delete(theirs: Any, ours: RegistryClient) -> None:
    first = theirs.register("s", AvroSchema(ONE))
    assert theirs.register("s", AvroSchema(TWO)) == first + 1
    with pytest.raises(ClientError) as refused:
        theirs.register("s", AvroSchema(WRONG))
    assert refused.value.http_code == 409
    assert theirs.test_compatibility("s", AvroSchema(TWO)) is True
    assert theirs.test_compatibility("s", AvroSchema(WRONG)) is False
    assert theirs.test_compatibility("s", AvroSchema(WRONG), verbose=True)["messages"]
    assert theirs.get_by_id(first).raw_schema == ONE
    assert theirs.get_by_id(4711) is None
    assert [one.subject for one in theirs.get_schema_subject_versions(first)] == ["s"]
    latest = theirs.get_schema("s")
    assert (latest.schema_id, latest.version) == (first + 1, 2)
    assert theirs.get_schema("s", 9) is None
    assert theirs.check_version("s", AvroSchema(ONE)).version == 1
    assert theirs.get_versions("s") == [1, 2]
    assert theirs.get_subjects() == ["s"]
    assert theirs.delete_version("s", 1) == 1
    assert theirs.delete_version("s", 1) is None
    assert theirs.get_versions("s") == [2]
    assert theirs.delete_subject("s") == [2]
    assert theirs.delete_subject("s") == []
    assert ours.subjects(deleted=True) == ["s"]


def test_levels(theirs: Any) -> None:
    assert theirs.get_compatibility() == "BACKWARD"
    assert theirs.update_compatibility("FULL", "s") is True
    assert theirs.get_compatibility("s") == "FULL"


def test_messages(theirs: Any, ours: RegistryClient) -> None:
    serializer = AvroMessageSerializer(theirs)
    data = serializer.encode_record_with_schema("t-value", AvroSchema(ONE), {"a": 1})
    assert data == AvroEncoder(ours, ONE)("t", {"a": 1})
    assert AvroDecoder(ours).decode(data) == serializer.decode_message(data) == {"a": 1}
    newer = AvroEncoder(ours, TWO)("t", {"a": 1, "b": 2})
    parsed: Any = AvroSchema(ONE).schema
    reader = AvroMessageSerializer(theirs, reader_schema=parsed)
    assert reader.decode_message(newer) == {"a": 1}


def test_the_asynchronous_client(registry: RegistryServer) -> None:
    async def use() -> Any:
        client = AsyncSchemaRegistryClient(registry.url)
        first = await client.register("s", AvroSchema(ONE))
        found = await client.get_by_id(first)
        assert found is not None
        return found.raw_schema, await client.delete_subject("s")

    assert asyncio.run(use()) == (ONE, [1])
