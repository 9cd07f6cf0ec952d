"""The files of ``static/``, read once at the start. The address of a file has the hash of its
contents, so that browsers keep it for ever."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COMPRESSED: Final = (".css", ".js", ".svg")
DIGITS: Final = 12
"""Hexadecimal digits of the hash in an address."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    """``packed``: the same, compressed with gzip; empty where that saves nothing."""

    media_type: str
    digest: str
    body: bytes
    packed: bytes


@dataclass(frozen=True, slots=True)
class StaticFiles:
    """By name below the folder: ``tallymark.css``, ``vendor/idiomorph.min.js``."""

    files: Mapping[str, StaticFile]

    @classmethod
    def below(cls, folder: Path) -> StaticFiles:
        """All files below a folder."""
        found = sorted(file for file in folder.rglob("*") if file.is_file())
        return cls({file.relative_to(folder).as_posix(): _read(file) for file in found})

    def path(self, name: str) -> str:
        """``<hash>/<name>``; only the name of a file that is not there."""
        file = self.files.get(name)
        return f"{file.digest}/{name}" if file else name

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def find(self, path: str) -> tuple[StaticFile | None, bool]:
        """The file of ``<hash>/<name>`` or ``<name>``, and whether the hash is that of its
        contents: another one is of a page that an older version served."""
        if path in self.files:
            return self.files[path], False
        digest, _, name = path.partition("/")
        file = self.files.get(name)
        return file, file is not None and digest == file.digest


def _read(path: Path) -> StaticFile:
    body = path.read_bytes()
    packed = gzip.compress(body, 9, mtime=0) if path.suffix in COMPRESSED else b""
    return StaticFile(
        media_type=mimetypes.guess_type(path.name)[0] or "application/octet-stream",
        digest=hashlib.sha256(body).hexdigest()[:DIGITS],
        body=body,
        packed=packed if len(packed) < len(body) else b"",
    )
