"""A snapshot in a file: one record of ``_schemas`` a line, and a last line that proves it whole.

The last line is a record of the kind NOOP, over which registries pass::

    {"key":{"keytype":"NOOP","magic":0},"value":{"records":10012,"sha256":"..."}}

``sha256`` is that of all bytes before it. A file of another program need not have it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO

from tallymark.errors import UserError
from tallymark.private_files import open_private
from tallymark_schema_registry.transfer.lines import (
    NOOP,
    Entry,
    Key,
    UnreadableError,
    line_of,
    read_line,
)
from tallymark_schema_registry.transfer.snapshot import Replay, Snapshot, entries_of


def write_snapshot(snapshot: Snapshot, out: BinaryIO) -> int:
    """Write its records; how many. Equal snapshots are equal bytes."""
    digest, records = hashlib.sha256(), 0
    for entry in entries_of(snapshot):
        line = f"{line_of(entry)}\n".encode()
        digest.update(line)
        out.write(line)
        records += 1
    proof = {"records": records, "sha256": digest.hexdigest()}
    out.write(f"{line_of(Entry(Key(NOOP), proof))}\n".encode())
    return records


def save_snapshot(snapshot: Snapshot, path: Path) -> int:
    """Put a whole, synced file in the place of ``path``; how many records. A crash leaves what was
    there, and perhaps ``FILE.partial``."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    with open(partial, "xb", opener=open_private) as out:
        records = write_snapshot(snapshot, out)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(path)
    return records


def read_file(source: BinaryIO, name: str) -> Replay:
    """The records of a file. UserError, with the number of the line, where it is damaged: what is
    missing in a backup must not be missed when it is too late."""
    replay, digest = Replay(), hashlib.sha256()
    proof: dict[str, Any] | None = None
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        if proof is not None:
            raise _damaged(name, f"line {number} comes after the last one")
        entry = _entry(name, number, line)
        if entry.key.kind == NOOP and entry.value and "sha256" in entry.value:
            proof = dict(entry.value)
            continue
        digest.update(line)
        replay.add(entry)
    if proof is not None and proof["sha256"] != digest.hexdigest():
        told = f"it has {replay.records} records, its last line says {proof.get('records')}"
        raise _damaged(name, f"{told}; its SHA-256 is not the one that the last line says")
    replay.proven = proof is not None
    return replay


def _entry(name: str, number: int, line: bytes) -> Entry:
    try:
        return read_line(line.decode().rstrip("\r\n"))
    except (UnreadableError, UnicodeDecodeError) as error:
        raise _damaged(name, f"line {number}: {error}") from None


def _damaged(name: str, why: str) -> UserError:
    return UserError(f"{name} is no whole export of schemas: {why}", "export it again")
