"""The registry is looked at: the real one, in this process."""

from pathlib import Path

from tallymark.deployment import Deployment, RegistrySettings
from tallymark.serialization import RegistryClient
from tallymark.serialization.schemas import Reference, Schema
from tallymark_dashboards.snapshots.registry_watch import RegistryWatch
from tallymark_schema_registry.testing import memory_registry

FIELD = '{"name": "id", "type": "long"}'
MORE = '{"name": "device", "type": ["null", "string"], "default": null}'
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "c", "type": "Click"}]}'


def click(*fields: str) -> str:
    return f'{{"type": "record", "name": "Click", "fields": [{", ".join(fields)}]}}'


def test_a_look_finds_subjects_versions_levels_and_references(tmp_path: Path) -> None:
    with memory_registry() as registry:
        with RegistryClient(registry.url) as client:
            client.register("clicks", click(FIELD))
            newest = client.register("clicks", click(FIELD, MORE))
            client.register("orders", Schema(ORDER, (Reference("Click", "clicks", 2),)))
            client.set_level("FULL", "orders")
            client.register("gone", '"string"')
            client.delete_subject("gone")
        port = int(registry.url.rpartition(":")[2])
        deployment = Deployment(data_dir=tmp_path, registry=RegistrySettings(port=port))
        watch = RegistryWatch(deployment, lambda: 1_000, lambda: None)
        assert watch.look(10_000)
        found = watch.state
        watch.close()
    subjects = found.subjects.value
    assert found.subjects.error == ""
    assert [one.version for one in subjects["clicks"].versions] == [1, 2]
    latest = subjects["clicks"].latest
    assert latest is not None
    assert latest.schema_id == newest
    assert "device" in latest.text
    assert (subjects["clicks"].level, subjects["clicks"].own_level) == ("BACKWARD", False)
    assert (subjects["orders"].level, subjects["orders"].own_level) == ("FULL", True)
    assert subjects["orders"].versions[0].references == (Reference("Click", "clicks", 2),)
    assert subjects["gone"].latest is None
    assert found.level == "BACKWARD"


def test_a_registry_that_is_away_keeps_what_was_read(tmp_path: Path) -> None:
    with memory_registry() as registry:
        with RegistryClient(registry.url) as client:
            client.register("clicks", click(FIELD))
        port = int(registry.url.rpartition(":")[2])
        deployment = Deployment(data_dir=tmp_path, registry=RegistrySettings(port=port))
        now = 1_000
        watch = RegistryWatch(deployment, lambda: now, lambda: None)
        assert watch.look(10_000)
    now = 61_000
    assert not watch.look(10_000)
    watch.close()
    assert list(watch.state.subjects.value) == ["clicks"]
    assert watch.state.subjects.age(now) == 60_000
    assert watch.state.subjects.error
