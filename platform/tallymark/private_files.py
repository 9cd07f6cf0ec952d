"""Files that other users may not read, and that are not written through another user's link.

Where another user can place names (``/tmp``, a journal folder that several users share) a link in
the place of a file would have us write into what it points to. So a file is opened for writing
without following one (``O_NOFOLLOW``: OSError ELOOP), or a new one is put in its place.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
_OUR_OWN: Final = ("/dev/std", "/dev/fd/", "/proc/self/fd/")


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """``os.open`` without following a link; a new file is its user's alone."""
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)


def open_locked(path: str | os.PathLike[str]) -> int:
    """A descriptor of the file, which is made where there is none, locked for this process alone.

    The lock lasts as long as the descriptor, or a copy of it that a child has inherited. Raises
    BlockingIOError while another process has the lock, and OSError otherwise; nothing is left open.
    """
    file = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    return file


def log_opener(path: str, flags: int) -> int:
    """For ``open(..., opener=log_opener)``: the same for a log, which others may read where the
    umask lets them. ``/dev/stdout`` and its like are links that no other user can have placed."""
    follow = path.startswith(_OUR_OWN)
    return os.open(path, flags | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), 0o644)


def make_private(path: str | os.PathLike[str]) -> None:
    """An empty file where there is none, for a library that would make one with the modes that the
    umask allows (SQLite gives its other files the mode of the first)."""
    with suppress(FileExistsError):
        os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def write_private(path: Path, text: str, encoding: str = "utf-8") -> None:
    """Put a new file with ``text`` in the place of ``path``, whatever stood there and however wide
    its mode was: a reader finds the old content or the new one."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(draft, "x", encoding=encoding, opener=open_private) as file:
            file.write(text)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
