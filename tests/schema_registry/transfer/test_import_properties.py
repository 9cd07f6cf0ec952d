"""What one registry holds, another one holds after an import, down to levels and modes."""

from __future__ import annotations

import io
import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from memory_registry import MemoryRegistry
from registry_snapshots import snapshots

from tallymark.errors import ConnectError
from tallymark_schema_registry.transfer.importing import Done, ImportRun
from tallymark_schema_registry.transfer.plan import plan, wrong_after
from tallymark_schema_registry.transfer.reading import read_registry
from tallymark_schema_registry.transfer.remote import RemoteRegistry
from tallymark_schema_registry.transfer.schema_file import read_file, write_snapshot
from tallymark_schema_registry.transfer.snapshot import Snapshot


def exported(snapshot: Snapshot) -> bytes:
    out = io.BytesIO()
    write_snapshot(snapshot, out)
    return out.getvalue()


def import_once(source: Snapshot, server: Any, stop: threading.Event | None = None) -> Done:
    registry = RemoteRegistry(server)
    target = read_registry(registry)
    made = plan(source, target)
    assert not made.conflicts, made.conflicts
    return ImportRun(registry, made, target, stop or threading.Event(), lambda done: None).run()


class Dying:
    """Its process is killed before it sends the request number ``at``."""

    def __init__(self, inner: MemoryRegistry, at: int) -> None:
        self._inner, self._left = inner, at

    def request(self, method: str, path: str, body: Any = None) -> Any:
        if method != "GET":
            self._left -= 1
            if self._left < 0:
                raise ConnectError("x", "connect", "killed")
        return self._inner.request(method, path, body)

    def close(self) -> None:
        """Nothing is open."""


@given(snapshots())
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
def test_an_import_that_was_killed_goes_on(source: Snapshot, at: int, bulk: bool) -> None:
    server = MemoryRegistry(bulk=bulk)
    try:
        import_once(source, Dying(server, at))
    except ConnectError:
        import_once(source, server)
    assert exported(read_registry(RemoteRegistry(server))) == exported(source)
    before = server.requests
    again = plan(source, read_registry(RemoteRegistry(server)))
    assert again.empty
    assert again.same == len(source.versions)
    assert server.requests > before
