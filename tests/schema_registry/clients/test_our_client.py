"""Our own client with our registry: every operation that it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallymark.serialization import (
    AvroDecoder,
    AvroEncoder,
    Reference,
    RegistryClient,
    RegistryError,
    Schema,
    SerializationError,
)
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.web.responses import Profile

ONE = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"}]}'
TWO = ONE.replace("]}", ',{"name":"b","type":"int","default":0}]}')
WRONG = ONE.replace('"int"', '"string"')
USER = '{"type":"record","name":"U","namespace":"n","fields":[{"name":"r","type":"R"}]}'


def refused(call: Callable[[], Any]) -> tuple[int, int]:
    """HTTP status and error code."""
    with pytest.raises(RegistryError) as error:
        call()
    return error.value.status, error.value.code


def test_delete_and_restore(ours: RegistryClient) -> None:
    first = ours.register("s", ONE)
    ours.register("s", TWO)
    assert ours.delete_version("s", 1) == 1
    assert refused(lambda: ours.delete_version("s", 1)) == (404, 40406)
    assert (ours.versions("s"), ours.versions("s", deleted=True)) == ([2], [1, 2])
    assert ours.versions("s", deleted_only=True) == [1]
    assert ours.version("s", 1) is None
    found = ours.version("s", 1, deleted=True)
    assert found is not None
    assert found.schema_id == first
    assert ours.restore("s", 1) == 1
    assert ours.versions("s") == [1, 2]
    assert ours.delete_subject("s") == [1, 2]
    assert ours.subjects() == []
    assert ours.subjects(deleted=True) == ours.subjects(deleted_only=True) == ["s"]
    assert ours.schema(first) == ONE
    assert ours.delete_subject("s", permanent=True) == [1, 2]
    assert refused(lambda: ours.schema(first)) == (404, 40403)
    assert ours.register("s", ONE) > first


def test_references(ours: RegistryClient) -> None:
    ours.register("r", ONE)
    user = ours.register("u", Schema(USER, (Reference("n.R", "r"),)))
    to_r = (Reference("n.R", "r", 1),)
    assert ours.schema_by_id(user).references == to_r
    assert ours.referenced_by("r", 1) == [user]
    assert refused(lambda: ours.delete_version("r", 1)) == (422, 42206)
    found = ours.lookup("u", Schema(USER, to_r))
    assert found is not None
    assert (found.schema_id, found.schema.references) == (user, to_r)
    data = AvroEncoder(ours, Schema(USER, to_r))("t", {"r": {"a": 5}})
    assert AvroDecoder(ours).decode(data) == {"r": {"a": 5}}
    assert sorted(ours.uses(user)) == [("t-value", 1), ("u", 1)]


def test_lists(ours: RegistryClient) -> None:
    ours.register("a", ONE)
    ours.register("a", TWO)
    ours.register("b", ONE)
    found = [(one.subject, one.version) for one in ours.all_versions()]
    assert found == [("a", 1), ("a", 2), ("b", 1)]
    latest = [(one.subject, one.version) for one in ours.all_versions("a", latest_only=True)]
    assert latest == [("a", 2)]
    assert ours.subjects("b") == ["b"]
    assert ours.contexts() == ["."]
    assert ours.uses(1) == [("a", 1), ("b", 1)]


def test_levels_and_modes(ours: RegistryClient) -> None:
    assert ours.set_config({"compatibility": "FULL", "normalize": True}, "s")["normalize"] is True
    assert ours.config("s")["compatibilityLevel"] == ours.level("s") == "FULL"
    assert refused(lambda: ours.config("other")) == (404, 40408)
    assert ours.delete_config("s")["compatibilityLevel"] == "FULL"
    assert refused(lambda: ours.delete_config("s")) == (404, 40401)
    assert ours.mode("s") == "READWRITE"
    assert refused(lambda: ours.mode("s", default_to_global=False)) == (404, 40409)
    assert ours.set_mode("READONLY") == "READONLY"
    assert refused(lambda: ours.register("s", ONE)) == (422, 42205)
    assert ours.set_mode("READWRITE") == "READWRITE"
    ours.register("s", ONE)


def test_what_may_be_registered_is_asked_again_after_a_change(ours: RegistryClient) -> None:
    """An answer that is remembered must not hide that the registry is read-only now."""
    ours.register("s", ONE)
    ours.delete_subject("s")
    ours.set_mode("READONLY", "s")
    assert refused(lambda: ours.register("s", ONE)) == (422, 42205)
    assert ours.delete_mode("s") == "READONLY"
    assert ours.register("s", ONE) == 1
    assert ours.versions("s") == [2]


def test_import(ours: RegistryClient) -> None:
    ours.set_mode("IMPORT", "s")
    assert ours.register("s", ONE, schema_id=700, version=5) == 700
    assert ours.register("s", ONE, schema_id=700, version=5) == 700
    ours.set_mode("READWRITE", "s")
    assert ours.register("s", TWO, version=6) == 701
    assert ours.versions("s") == [5, 6]


def test_a_version_is_a_condition(ours: RegistryClient) -> None:
    ours.register("s", ONE, version=1)
    assert refused(lambda: ours.register("s", TWO, version=7))[0] == 422
    assert ours.versions("s") == [1]


def test_a_dry_run_changes_nothing(ours: RegistryClient) -> None:
    new = ours.dry_run("s", ONE)
    assert (new.would_create, new.compatible, new.version) == (True, True, 1)
    assert ours.subjects() == []
    first = ours.register("s", ONE)
    again = ours.dry_run("s", ONE)
    assert (again.would_create, again.schema_id, again.version) == (False, first, 1)
    wrong = ours.dry_run("s", WRONG)
    assert not wrong.compatible
    assert wrong.messages
    later = ours.dry_run("s", TWO)
    assert later.would_create
    assert later.diff
    assert ours.versions("s") == [1]


def test_changes(ours: RegistryClient) -> None:
    assert ours.changes() == []
    ours.register("s", ONE)
    first = ours.changes(0, wait_s=5)
    assert first
    ours.delete_subject("s")
    assert ours.changes(0)[: len(first)] == first
    assert len(ours.changes(0)) > len(first)
    assert len(ours.changes(0, limit=1)) == 1


def test_contexts(ours: RegistryClient, registry: RegistryServer) -> None:
    """Ids are counted in each context; an address can name one."""
    ours.register("s", ONE)
    with RegistryClient(f"{registry.url}/contexts/.test") as there:
        assert there.register("s", TWO) == 1
        data = AvroEncoder(there, TWO)("t", {"a": 1, "b": 2})
        assert AvroDecoder(there).decode(data) == {"a": 1, "b": 2}
        assert there.schema(1) == TWO
    assert ours.schema(1) == ONE
    assert sorted(ours.contexts()) == [".", ".test"]
    found = ours.latest(":.test:s")
    assert found is not None
    assert found.text == TWO


@pytest.mark.parametrize("profile", [Profile.SEVEN], indirect=True)
def test_a_guid_is_not_guessed(ours: RegistryClient) -> None:
    """Of a schema with references the registry must say it."""
    ours.register("r", ONE)
    user = ours.register("u", Schema(USER, (Reference("n.R", "r", 1),)))
    with pytest.raises(SerializationError, match="does not say the guid"):
        ours.guid(user)


@pytest.mark.parametrize("profile", [Profile.EIGHT], indirect=True)
def test_guids(ours: RegistryClient) -> None:
    ours.register("r", ONE)
    user = ours.register("u", Schema(USER, (Reference("n.R", "r", 1),)))
    assert ours.schema_by_guid(ours.guid(user)).text == USER
