"""confluent-kafka-python's client of the registry: every operation that it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tallymark.serialization import RegistryClient
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.web.responses import Profile

pytestmark = pytest.mark.process

try:
    from confluent_kafka.schema_registry import (
        AsyncSchemaRegistryClient,
        ConfigCompatibilityLevel,
        Metadata,
        MetadataProperties,
        Schema,
        SchemaReference,
        SchemaRegistryClient,
        ServerConfig,
    )
    from confluent_kafka.schema_registry.error import SchemaRegistryError
except ImportError as missing:
    pytest.skip(
        f"confluent_kafka.schema_registry cannot be imported: {missing}", allow_module_level=True
    )

ONE = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"}]}'
TWO = ONE.replace("]}", ',{"name":"b","type":"int","default":0}]}')
WRONG = ONE.replace('"int"', '"string"')
USER = '{"type":"record","name":"U","namespace":"n","fields":[{"name":"r","type":"R"}]}'


def avro(text: str, **more: Any) -> Any:
    return Schema(text, "AVRO", **more)


@pytest.fixture
def theirs(registry: RegistryServer) -> Iterator[Any]:
    with SchemaRegistryClient({"url": registry.url, "max.retries": 1}) as client:
        yield client


def refused(call: Callable[[], Any]) -> tuple[int, int]:
    """HTTP status and error code."""
    with pytest.raises(SchemaRegistryError) as error:
        call()
    return error.value.http_status_code, error.value.error_code


def test_register_and_evolve(theirs: Any, profile: Profile) -> None:
    first = theirs.register_schema("a/b", avro(ONE))
    second = theirs.register_schema("a/b", avro(TWO), normalize_schemas=True)
    assert theirs.register_schema("other", avro(ONE)) == first
    assert second == first + 1
    conflict = 40901 if profile is Profile.EIGHT else 409
    assert refused(lambda: theirs.register_schema("a/b", avro(WRONG))) == (409, conflict)
    assert refused(lambda: theirs.register_schema("a/b", avro("nonsense"))) == (422, 42201)
    assert theirs.get_schema(first).schema_str == ONE
    assert refused(lambda: theirs.get_schema(4711)) == (404, 40403)
    assert theirs.lookup_schema("a/b", avro(TWO)).version == 2
    assert refused(lambda: theirs.lookup_schema("a/b", avro('"int"'))) == (404, 40403)
    assert theirs.get_subjects() == ["a/b", "other"]
    assert theirs.get_subjects(subject_prefix="a") == ["a/b"]
    assert theirs.get_versions("a/b") == [1, 2]
    latest = theirs.get_latest_version("a/b")
    assert (latest.schema_id, latest.version, latest.schema.schema_str) == (second, 2, TWO)
    assert theirs.get_version("a/b", 1).schema_id == first
    assert refused(lambda: theirs.get_version("a/b", 9)) == (404, 40402)
    assert theirs.get_subjects_by_schema_id(first) == ["a/b", "other"]
    found = theirs.get_schema_versions(first)
    assert [(one.subject, one.version) for one in found] == [("a/b", 1), ("other", 1)]
    assert theirs.get_schema_types() == ["AVRO"]
    assert theirs.get_contexts() == ["."]


def test_check(theirs: Any) -> None:
    theirs.register_schema("s", avro(ONE))
    assert theirs.test_compatibility("s", avro(TWO)) is True
    assert theirs.test_compatibility("s", avro(WRONG)) is False
    assert theirs.test_compatibility("s", avro(WRONG), version=1) is False
    assert theirs.test_compatibility_all_versions("s", avro(TWO)) is True
    assert theirs.test_compatibility("missing", avro(WRONG)) is True


def test_delete(theirs: Any) -> None:
    first = theirs.register_schema("s", avro(ONE))
    theirs.register_schema("s", avro(TWO))
    assert refused(lambda: theirs.delete_version("s", 1, permanent=True)) == (404, 40407)
    assert refused(lambda: theirs.delete_subject("s", permanent=True)) == (404, 40405)
    assert theirs.delete_version("s", 1) == 1
    assert refused(lambda: theirs.delete_version("s", 1)) == (404, 40406)
    assert theirs.get_versions("s") == [2]
    assert theirs.get_versions("s", deleted=True) == [1, 2]
    assert theirs.get_version("s", 1, deleted=True).schema_id == first
    theirs.clear_caches()  # it would give the id that it knows, and not ask
    assert theirs.get_schema(first).schema_str == ONE
    assert theirs.register_schema("s", avro(ONE)) == first
    assert theirs.get_versions("s") == [2, 3]
    assert theirs.delete_subject("s") == [2, 3]
    assert theirs.get_subjects() == []
    assert theirs.get_subjects(deleted=True) == ["s"]
    assert refused(lambda: theirs.get_latest_version("s")) == (404, 40401)
    assert refused(lambda: theirs.delete_subject("s")) == (404, 40404)
    # Version 1 went when its schema was registered again.
    assert refused(lambda: theirs.delete_version("s", 1, permanent=True)) == (404, 40402)
    assert theirs.delete_version("s", 2, permanent=True) == 2
    assert theirs.delete_subject("s", permanent=True) == [3]
    assert theirs.get_subjects(deleted=True) == []


def test_references(theirs: Any) -> None:
    theirs.register_schema("r", avro(ONE))
    to_r = SchemaReference("n.R", "r", 1)
    user = theirs.register_schema("u", avro(USER, references=[to_r]))
    assert theirs.get_schema(user).references == [to_r]
    assert theirs.get_latest_version("u").schema.references == [to_r]
    assert theirs.get_referenced_by("r", 1) == [user]
    assert refused(lambda: theirs.delete_version("r", 1)) == (422, 42206)
    missing = avro(USER, references=[SchemaReference("n.R", "r", 7)])
    assert refused(lambda: theirs.register_schema("u", missing)) == (422, 42201)
    theirs.clear_caches()
    written_out = theirs.get_schema(user, fmt="resolved").schema_str
    assert '"name":"R"' in written_out
    assert theirs.delete_subject("u") == [1]
    assert theirs.delete_subject("r") == [1]


def test_levels_and_configuration(theirs: Any) -> None:
    assert theirs.get_compatibility() == "BACKWARD"
    assert theirs.set_compatibility("s", "FULL") == {"compatibility": "FULL"}
    assert theirs.get_compatibility("s") == "FULL"
    assert refused(lambda: theirs.get_compatibility("none")) == (404, 40408)
    assert refused(lambda: theirs.set_compatibility("s", "SIDEWAYS")) == (422, 42203)
    config = ServerConfig(
        compatibility=ConfigCompatibilityLevel.FORWARD,
        compatibility_group="major",
        default_metadata=Metadata(None, MetadataProperties({"owner": "shop"}), None),
    )
    theirs.set_config("s", config)
    found = theirs.get_config("s")
    assert found.compatibility_level is ConfigCompatibilityLevel.FORWARD
    assert found.compatibility_group == "major"
    assert found.default_metadata.properties.properties == {"owner": "shop"}
    theirs.delete_config("s")
    assert refused(lambda: theirs.get_config("s")) == (404, 40408)


def test_modes(theirs: Any) -> None:
    assert theirs.get_global_mode() == "READWRITE"
    assert refused(lambda: theirs.get_mode("s")) == (404, 40409)
    theirs.register_schema("s", avro(ONE))
    assert theirs.update_mode("s", "READONLY") == "READONLY"
    assert theirs.get_mode("s") == "READONLY"
    assert refused(lambda: theirs.register_schema("s", avro(TWO))) == (422, 42205)
    assert refused(lambda: theirs.delete_subject("s")) == (422, 42205)
    assert refused(lambda: theirs.update_mode("s", "SIDEWAYS")) == (422, 42204)
    assert theirs.delete_mode("s") == "READONLY"
    theirs.register_schema("s", avro(TWO))
    assert refused(lambda: theirs.update_global_mode("IMPORT")) == (422, 42205)
    assert theirs.update_global_mode("IMPORT", force=True) == "IMPORT"
    assert theirs.update_global_mode("READWRITE") == "READWRITE"


def test_import(theirs: Any) -> None:
    """With ids and versions of another registry, as its own tools send them."""
    theirs.update_mode("s", "IMPORT")
    body = {"schema": ONE, "id": 700, "version": 5}
    path = "subjects/s/versions"
    assert theirs._rest_client.post(path, body=body)["id"] == 700
    assert theirs._rest_client.post(path, body=body)["id"] == 700
    taken = {**body, "schema": TWO}
    assert refused(lambda: theirs._rest_client.post(path, body=taken)) == (422, 42205)
    theirs.update_mode("s", "READWRITE")
    assert theirs.get_version("s", 5).schema_id == 700
    assert theirs.register_schema("s", avro(TWO)) == 701
    assert theirs.get_versions("s") == [5, 6]


def test_metadata(theirs: Any) -> None:
    def of(owner: str) -> Any:
        return Metadata(None, MetadataProperties({"owner": owner}), None)

    theirs.register_schema("s", avro(ONE, metadata=of("shop")))
    theirs.register_schema("s", avro(ONE, metadata=of("sales")))
    assert theirs.get_versions("s") == [1, 2]
    found = theirs.get_latest_with_metadata("s", {"owner": "shop"})
    assert (found.version, found.schema.metadata.properties.properties) == (1, {"owner": "shop"})


@pytest.mark.parametrize("profile", [Profile.EIGHT], indirect=True)
def test_guids(theirs: Any, ours: RegistryClient) -> None:
    registered = theirs.register_schema_full_response("s", avro(ONE))
    assert theirs.get_schema_by_guid(registered.guid).schema_str == ONE
    assert ours.guid(registered.schema_id) == registered.guid
    unknown = "00000000-0000-0000-0000-000000000000"
    assert refused(lambda: theirs.get_schema_by_guid(unknown)) == (404, 40403)


@pytest.mark.parametrize("profile", [Profile.SEVEN], indirect=True)
def test_a_guid_that_the_registry_does_not_say(theirs: Any, ours: RegistryClient) -> None:
    """Ours computes it, and asks the registry whether it is right."""
    schema_id = theirs.register_schema("s", avro(ONE))
    assert theirs.get_schema_by_guid(ours.guid(schema_id)).schema_str == ONE


def test_the_asynchronous_client(registry: RegistryServer) -> None:
    async def use() -> Any:
        async with AsyncSchemaRegistryClient({"url": registry.url}) as client:
            first = await client.register_schema("s", avro(ONE))
            found = await client.get_schema(first)
            deleted = await client.delete_subject("s")
            return found.schema_str, deleted

    assert asyncio.run(use()) == (ONE, [1])
