"""Logs that are kept by number, and set aside by size while they are written.

::

    broker-dc1-0.log      what is written now, up to LOG_BYTES
    broker-dc1-0.log.1    what was before, up to .KEEP
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from tallymark.private_files import log_opener

LOG_BYTES: Final = 16 * 1024 * 1024
KEEP: Final = 4
"""So a log takes 80 MiB at most, and a process with an access log 160 MiB."""


def renamed(path: Path) -> None:
    """Set the log aside by its name: for a writer that opens it anew. OSError: it cannot be."""
    _make_room(path)
    path.rename(_numbered(path, 1))


def copied(path: Path) -> None:
    """Set the log aside and empty it, for one that another process has open for appending and
    cannot be asked to open anew (a process's standard error, a JVM). What is written in the moment
    between the last look and the cut is lost. OSError: it stays as it is."""
    _make_room(path)
    draft = _numbered(path, 1)
    try:
        with path.open("rb") as source, open(draft, "wb", opener=log_opener) as target:
            shutil.copyfileobj(source, target, 1 << 20)
            while more := source.read():
                target.write(more)
            target.flush()
            os.truncate(path, 0)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _make_room(path: Path) -> None:
    """Nothing is called ``.1`` any more, and what was ``.KEEP`` is gone."""
    _numbered(path, KEEP).unlink(missing_ok=True)
    for number in range(KEEP - 1, 0, -1):
        older = _numbered(path, number)
        if older.is_symlink() or older.exists():
            older.rename(_numbered(path, number + 1))


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
