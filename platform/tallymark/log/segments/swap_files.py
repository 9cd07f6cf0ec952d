"""The files of a compacted segment, and what a start does with them after a crash.

The names are Kafka's. ``.cleaned`` files are unfinished and are removed at a start. A ``.log.swap``
file is whole: it takes the place of its sources, see :mod:`tallymark.log.compaction.swap`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from tallymark.log.disk.files import Files
from tallymark.log.segments.scan import walk

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
INDEXES: Final = (".index", ".timeindex")
ABORTED: Final = ".txnindex"
BESIDE: Final = (*INDEXES, ABORTED)
"""All that a segment may have beside its log file."""

log = logging.getLogger(__name__)


def complete_swaps(files: Files, directory: str) -> None:
    """At a start: finish what a crash has interrupted in this folder, durably."""
    names = files.listdir(directory)
    bases = [int(name[:-4]) for name in names if name.endswith(".log") and name[:-4].isdigit()]
    for name in names:
        base = name.removesuffix(f".log{SWAP}")
        if base == name or not base.isdigit():
            continue
        end = _end_of(files, f"{directory}/{name}")
        if end is None:
            # Should not happen: the file was synced before it got its name. The sources are whole.
            log.error("%s/%s does not end with a whole batch and is not used", directory, name)
            continue
        first = int(base)
        sources = [first, *(other for other in bases if first < other < end)]
        log.info("%s: completing the compaction of %d segments", directory, len(sources))
        remove_sources(files, directory, sources)
        rename_aborted(files, f"{directory}/{base}")
        files.rename(f"{directory}/{name}", f"{directory}/{base}.log")
        files.sync_dir(directory)


def remove_prepared(files: Files, directory: str) -> None:
    """Durably remove the new segments that a start would put in the place of their sources: the log
    has been changed since they were made."""
    names = [name for name in files.listdir(directory) if name.endswith(f".log{SWAP}")]
    for name in names:
        files.remove(f"{directory}/{name}")
    if names:
        files.sync_dir(directory)


def remove_new(files: Files, directory: str, base_offset: int) -> None:
    """Remove the files of a new segment that is not wanted, whatever they are called by now."""
    names = (f".log{SWAP}", f".log{CLEANED}", *(f"{suffix}{CLEANED}" for suffix in BESIDE))
    remove_files(files, f"{directory}/{base_offset:020d}", names)


def remove_sources(files: Files, directory: str, sources: Sequence[int]) -> None:
    """Durably remove the old files, except the log file that the new one will replace, and what
    :func:`rename_aborted` will: unlike the indexes it cannot be built again."""
    for number, base in enumerate(sources):
        suffixes = (".log", *BESIDE) if number else INDEXES
        remove_files(files, f"{directory}/{base:020d}", suffixes)
    files.sync_dir(directory)


def rename_aborted(files: Files, stem: str) -> None:
    """Give the new segment its index of aborted transactions, if it has one, and not already."""
    if files.exists(f"{stem}{ABORTED}{CLEANED}"):
        files.rename(f"{stem}{ABORTED}{CLEANED}", f"{stem}{ABORTED}")


def remove_files(files: Files, stem: str, suffixes: Sequence[str]) -> None:
    """Remove the files ``stem`` + each of ``suffixes``, as far as they are there."""
    for suffix in suffixes:
        files.remove(stem + suffix)


def _end_of(files: Files, path: str) -> int | None:
    """The offset behind the last batch, None where the file does not end with one."""
    file = files.open(path, create=False)
    try:
        size = file.size()
        end, position = 0, 0
        for position, header in walk(file.handle, 0, size):
            end = header.next_offset
            position += header.size
        return end if position == size and size else None
    finally:
        file.close()
