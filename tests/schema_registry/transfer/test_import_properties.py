"""What one registry holds, another one holds after an import, down to levels and modes."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_registry import Dying, Killed, MemoryRegistry, exported, import_once
from registry_snapshots import snapshots

from tallymark_schema_registry.transfer.plan import plan, wrong_after
from tallymark_schema_registry.transfer.reading import read_registry
from tallymark_schema_registry.transfer.remote import RemoteRegistry
from tallymark_schema_registry.transfer.schema_file import read_file
from tallymark_schema_registry.transfer.snapshot import Snapshot


@given(snapshots())
@pytest.mark.slow
def test_an_export_imported_elsewhere_is_the_same_export(source: Snapshot) -> None:
    file = exported(source)
    read = read_file(io.BytesIO(file), "x").snapshot()
    assert read == source
    server = MemoryRegistry()
    done = import_once(read, server)
    assert done.failed == []
    found = read_registry(RemoteRegistry(server))
    assert list(wrong_after(source, found)) == []
    assert exported(found) == file


@given(snapshots(), st.integers(0, 30), st.booleans())
@pytest.mark.slow
def test_an_import_that_was_killed_goes_on(source: Snapshot, at: int, bulk: bool) -> None:
    server = MemoryRegistry(bulk=bulk)
    try:
        import_once(source, Dying(server, at))
    except Killed:
        import_once(source, server)
    assert exported(read_registry(RemoteRegistry(server))) == exported(source)
    before = server.requests
    again = plan(source, read_registry(RemoteRegistry(server)))
    assert again.empty
    assert again.same == len(source.versions)
    assert server.requests > before
