"""Records that a replica gave up although they were committed: saved aside before the cut.

An unclean election makes the shorter log the truth. What the others then cut off is nowhere else,
so it is kept as it was, in a folder beside the logs, until it is the oldest and room is needed.
:mod:`tallymark.protocol.records.saved_tail` draws the folder.

All folders of a data directory together have at most so many bytes; the oldest are removed first.
What a tail is worth falls with its age: the window of its records was judged and repaired long ago,
or retention would have deleted them by now. Refusing the new one instead would lose the only copy
of what no operator has looked at yet. A tail that alone is larger is refused.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from tallymark.errors import TallymarkError
from tallymark.log.cutting import Cut
from tallymark.log.disk.files import Files, write_file
from tallymark.log.disk.partition_folder import deleted_name, remove_folder
from tallymark.log.reading import ReadableLog
from tallymark.protocol.records.saved_tail import (
    DESCRIPTION,
    TRUNCATED,
    Tail,
    decode_tail,
    encode_tail,
)

log: Final = logging.getLogger(__name__)

_PIECE: Final = 1024 * 1024
_FILE_BYTES: Final = 1024 * 1024 * 1024


class TailNotSavedError(TallymarkError):
    """A tail is not saved; the text says why."""


def tail_of(cut: Cut, **known: Any) -> Tail:
    """The tail that a planned cut takes; ``known`` are the other fields."""
    return Tail(
        from_offset=cut.first_offset,
        to_offset=cut.old_end_offset,
        bytes=cut.size,
        epochs=cut.epochs,
        **known,
    )


def save_tail(files: Files, home: str, source: ReadableLog, tail: Tail, most_bytes: int) -> str:
    """Save the batches of ``tail`` from its log in the data directory ``home``; on return they are
    on the disk. Returns the folder. ``most_bytes``: of all tails in the directory. Nothing may be
    appended to the log meanwhile; any thread may call it.

    Raises TailNotSavedError; then nothing of it is left, as far as the disk lets go of it.
    """
    if tail.bytes > most_bytes:
        raise TailNotSavedError(
            f"it has {tail.bytes} bytes, and log.truncated.max.bytes allows {most_bytes}"
        )
    folder = f"{home}/{deleted_name(f'{tail.topic}-{tail.partition}', TRUNCATED)}"
    try:
        _make_room(files, home, most_bytes - tail.bytes)
        files.make_dirs(folder)
        _copy(files, folder, source, tail)
        write_file(files, f"{folder}/{DESCRIPTION}", encode_tail(tail))
        files.sync_dir(home)
    except (OSError, TallymarkError) as error:
        _drop(files, folder)
        raise TailNotSavedError(str(error)) from error
    return folder


def _copy(files: Files, folder: str, source: ReadableLog, tail: Tail) -> None:
    at, written, file = tail.from_offset, 0, None
    while at < tail.to_offset:
        piece = source.read(at, _PIECE, tail.to_offset)
        if not len(piece):
            break  # compaction has left nothing behind here
        if file is None or written >= _FILE_BYTES:
            if file is not None:
                file.handle.sync()
                file.close()
            file, written = files.open(f"{folder}/{at:020d}.log"), 0
        file.append(piece.read())
        written += len(piece)
        at = piece.next_offset
    if file is not None:
        file.handle.sync()
        file.close()


def _make_room(files: Files, home: str, most_bytes: int) -> None:
    """Remove the oldest tails until the others have at most ``most_bytes``, and what a crash has
    left of one that was being saved."""
    known: list[tuple[int, str, Tail]] = []
    for folder in _folders(files, home):
        found = read_tail(files, folder)
        if found is None:
            _drop(files, folder)
        else:
            known.append((found.saved_at, folder, found))
    known.sort(key=lambda one: one[:2])
    total = sum(each.bytes for _, _, each in known)
    for _, folder, each in known:
        if total <= most_bytes:
            return
        remove_folder(files, folder)
        total -= each.bytes
        log.error(
            "saved records are removed, they are the oldest and log.truncated.max.bytes is "
            "reached partition=%s-%d offsets=%d-%d folder=%s",
            *(each.topic, each.partition, each.from_offset, each.to_offset, folder),
        )


def _drop(files: Files, folder: str) -> None:
    try:
        if files.is_dir(folder):
            remove_folder(files, folder)
    except OSError as error:
        log.error("%s is of no use and cannot be removed: %s", folder, error)


# --- what is there


def saved_tails(files: Files, home: str) -> list[tuple[str, Tail]]:
    """(folder, description) of the tails in a data directory, the oldest first. Folders that are
    not whole are left out. OSError: it cannot be read."""
    found = [(folder, read_tail(files, folder)) for folder in _folders(files, home)]
    whole = [(folder, tail) for folder, tail in found if tail is not None]
    return sorted(whole, key=lambda one: (one[1].saved_at, one[0]))


def read_tail(files: Files, folder: str) -> Tail | None:
    """The description in the folder; None where there is none that can be read."""
    path = f"{folder}/{DESCRIPTION}"
    return decode_tail(files.read(path)) if files.exists(path) else None


def _folders(files: Files, home: str) -> list[str]:
    return [
        f"{home}/{name}"
        for name in files.listdir(home)
        if name.endswith(TRUNCATED) and files.is_dir(f"{home}/{name}")
    ]
