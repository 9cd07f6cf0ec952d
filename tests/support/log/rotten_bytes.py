"""Damage at rest: bytes of a batch in a log that was whole when it was written."""

from __future__ import annotations

from pathlib import PurePosixPath

from tallymark.log import Log
from tallymark.protocol.records.batch import split_batches
from tallymark.testing.memory_files import MemoryFiles


def rot(files: MemoryFiles, log: Log, offset: int, at: int = -1) -> None:
    """Flip a bit in the batch that begins at ``offset``, at byte ``at`` of it (-1: the last)."""
    for name in files.names(log.directory):
        path = PurePosixPath(log.directory) / name
        if path.suffix != ".log":
            continue
        content, begin = bytearray(files.content(str(path))), 0
        for each in split_batches(bytes(content)):
            if each.header.base_offset == offset:
                content[begin + at % each.header.size] ^= 1
                files.overwrite(str(path), content)
                return
            begin += each.header.size
    raise AssertionError(f"no batch begins at {offset}")
