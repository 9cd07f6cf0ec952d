"""Our registry is what imports think a registry is: the same properties as with the one in memory,
over a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st
from memory_registry import Dying, Killed, exported, import_once
from registry_snapshots import snapshots

from tallymark.serialization.http_retry import Http
from tallymark_schema_registry.catalog.content import AVRO
from tallymark_schema_registry.testing import memory_registry
from tallymark_schema_registry.transfer.plan import plan, wrong_after
from tallymark_schema_registry.transfer.reading import read_registry
from tallymark_schema_registry.transfer.remote import RemoteRegistry
from tallymark_schema_registry.transfer.snapshot import Snapshot


@contextmanager
def asked() -> Iterator[Http]:
    """A new registry."""
    with memory_registry() as registry:
        http = Http(registry.url, 10, 1)
        try:
            yield http
        finally:
            http.close()


@settings(max_examples=8)
@given(snapshots(kinds=(AVRO,), everywhere=True))
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
@given(snapshots(kinds=(AVRO,), everywhere=True), st.integers(0, 30))
def test_an_import_that_was_killed_goes_on(source: Snapshot, at: int) -> None:
    with asked() as http:
        try:
            import_once(source, Dying(http, at))
        except Killed:
            assert import_once(source, http).failed == []
        found = read_registry(RemoteRegistry(http))
        assert list(wrong_after(source, found)) == []
        assert plan(source, found).empty
