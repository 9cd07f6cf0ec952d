"""Compiled code on the disk: a file for each function, machine and version.

::

    ~/.cache/tallymark/compiled/read_batches-cpython-313-5f0c...e1.code
        "tallymark code 1\n" | SHA-256 of the rest, 32 bytes | what numba pickled

The code is run as it is, so the folder and its files must be this user's (or root's) and no other
user may write there; and a file that is damaged is none. Files are replaced whole: any number of
processes may read and write at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tallymark.cache_folder import cache_folder
from tallymark.private_files import open_private

_MAGIC: Final = b"tallymark code 1\n"
_DIGEST: Final = hashlib.sha256().digest_size
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_LARGEST: Final = 64 << 20


class UnusableStoreError(OSError):
    """Compiled code cannot be kept anywhere."""


class CodeStore:
    """The files in one folder, which exists."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> bytes | None:
        """The code of that name; None where there is none, or it is damaged, or another user's."""
        try:
            file = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        with open(file, "rb") as opened:
            if not _is_ours(os.fstat(file)):
                return None
            try:
                data = opened.read(_LARGEST)
            except OSError:
                return None
        start = len(_MAGIC) + _DIGEST
        code = data[start:]
        whole = data[:start] == _MAGIC + hashlib.sha256(code).digest()
        return code if whole else None

    def write(self, name: str, code: bytes) -> None:
        """Put it there, in the place of an older one. Raises OSError."""
        draft = self.folder / f".{name}.{secrets.token_hex(8)}"
        try:
            with open(draft, "xb", opener=open_private) as file:
                file.write(_MAGIC + hashlib.sha256(code).digest() + code)
            draft.replace(self._path(name))
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise

    def discard(self, name: str) -> None:
        """Take it away, if that is possible."""
        with suppress(OSError):
            self._path(name).unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While one process compiles, others wait. Raises OSError where nothing can be written."""
        file = open_private(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            with suppress(OSError):  # a file system without locks: some compile the same
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.code"


def default_store() -> CodeStore | None:
    """The user's, in the cache folder; None where that can be neither used nor made."""
    try:
        folder = cache_folder() / "compiled"
        with suppress(FileExistsError):
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
        found = os.lstat(folder)
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return None
    return CodeStore(folder) if stat.S_ISDIR(found.st_mode) and _is_ours(found) else None


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & _WRITABLE_BY_OTHERS
