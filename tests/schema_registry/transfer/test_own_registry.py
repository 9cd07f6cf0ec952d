"""Our registry is what imports think a registry is: the same properties as with the one in memory,
over a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_registry import Dying, Killed, exported, import_once, version
from registry_snapshots import snapshots, text_of

from tallymark.serialization.http_retry import Http
from tallymark_schema_registry.catalog.content import Reference
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.testing import memory_registry
from tallymark_schema_registry.transfer.plan import plan, wrong_after
from tallymark_schema_registry.transfer.reading import read_registry
from tallymark_schema_registry.transfer.remote import RemoteRegistry
from tallymark_schema_registry.transfer.snapshot import Snapshot
from tallymark_schema_registry.web.responses import Profile

LATE = Reference("x.R9", "late", 2)


@contextmanager
def asked() -> Iterator[Http]:
    """A new registry."""
    with memory_registry() as registry, closing(Http(registry.url, 10, 1)) as http:
        yield http


@settings(max_examples=8)
@given(snapshots(everywhere=True))
def test_an_export_imported_elsewhere_is_the_same_export(source: Snapshot) -> None:
    with asked() as http:
        done = import_once(source, http)
        assert done.failed == []
        found = read_registry(RemoteRegistry(http))
    assert list(wrong_after(source, found)) == []
    with asked() as other:
        import_once(found, other)
        again = read_registry(RemoteRegistry(other))
    assert exported(again) == exported(found)


@settings(max_examples=8)
@given(snapshots(everywhere=True), st.integers(0, 30))
def test_an_import_that_was_killed_goes_on(source: Snapshot, at: int) -> None:
    with asked() as http:
        try:
            import_once(source, Dying(http, at))
        except Killed:
            assert import_once(source, http).failed == []
        found = read_registry(RemoteRegistry(http))
        assert list(wrong_after(source, found)) == []
        assert plan(source, found).empty


@pytest.mark.parametrize("profile", list(Profile))
def test_in_both_response_profiles(profile: Profile, tmp_path: Path) -> None:
    """Only the 8.x answers mark what is softly deleted."""
    source = Snapshot(configs={"": {"compatibilityLevel": "FULL"}}, modes={"": "READONLY"})
    for one in (
        version("late/2", 9, deleted=True),
        version("early/1", 1, text_of(1, "R9"), references=(LATE,), deleted=True),
        version("s/1", 5, deleted=True),
        version("s/4", 5),
        version(":.c:s/1", 5, metadata='{"properties":{"a":"b"}}'),
    ):
        source.add(one)
    store = f"sqlite:///{tmp_path / 'registry.db'}"
    with (
        RegistryServer(store, profile=profile) as server,
        closing(Http(server.url, 10, 1)) as http,
    ):
        assert import_once(source, http).failed == []
        assert exported(read_registry(RemoteRegistry(http))) == exported(source)
