"""Kafka's text checkpoint: a few numbers per partition, replaced as a whole.

::

    0                      format version, always 0
    2                      how many entries follow
    orders 0 4711          one entry a line, fields separated by a space
    orders 1 12

The checkpoints of a data directory have the fields topic, partition, offset;
``leader-epoch-checkpoint`` has epoch, start offset. There is no checksum: a file is written beside
its place, synced and renamed, so a reader never sees half of it. A file that does not parse counts
as absent, and its reader works without it (everything is verified, epochs are read from the
batches).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from tallymark.log.disk.files import Files, write_file

log = logging.getLogger(__name__)

_DIGITS: Final = 19
"""Of an int64. Python refuses to read a number of some thousand."""


def write_checkpoint(files: Files, path: str, entries: Iterable[tuple[object, ...]]) -> None:
    """Replace the checkpoint at ``path``, durably."""
    lines = [" ".join(str(field) for field in entry) for entry in entries]
    write_file(files, path, "\n".join(["0", str(len(lines)), *lines, ""]).encode())


def read_checkpoint(files: Files, path: str, fields: int) -> list[tuple[str, ...]]:
    """The entries, each of ``fields`` texts of which the last two are numbers; none where the file
    is missing or damaged."""
    try:
        return _parse(files.read(path).decode(), fields)
    except FileNotFoundError:
        return []
    except ValueError as error:
        log.warning("%s is damaged (%s), going on without it", path, error)
        return []


def _parse(text: str, fields: int) -> list[tuple[str, ...]]:
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] != "0":
        raise ValueError("it does not begin with version 0")
    entries = [tuple(line.split()) for line in lines[2:]]
    if len(entries) != int(lines[1]):
        raise ValueError(f"{lines[1]} entries announced, {len(entries)} there")
    for entry in entries:
        if len(entry) != fields or not all(_is_number(field) for field in entry[-2:]):
            raise ValueError(f"{entry} is no entry")
    return entries


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return len(digits) <= _DIGITS and digits.isascii() and digits.isdigit()
