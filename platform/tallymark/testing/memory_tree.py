"""A tree of files and folders in two states: what processes see, and what a power failure leaves.

A file keeps the bytes that were synced last beside those that were written, a folder the names that
it had when it was synced last. Names that a rename gave up are known apart: it is lost as a whole.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Survivors = Callable[[str, int], int]
"""(path, unsynced bytes appended) -> how many of them survive the power failure."""


@dataclass(slots=True, eq=False)
class Inode:
    """A file: ``content`` as processes see it, ``durable`` as the platter has it."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    synced: int = 0
    """The number of the latest sync that has begun of those that have ended."""


@dataclass(slots=True, eq=False)
class Folder:
    """A folder: ``names`` as processes see them, ``durable_names`` as the platter has them."""

    names: dict[str, Inode | Folder] = field(default_factory=dict)
    durable_names: dict[str, Inode | Folder] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    """Names given up by a rename, not by a removal, since the last sync."""


class MemoryTree:
    """Paths and what is there. Errors are those of an operating system."""

    def __init__(self) -> None:
        self._root = Folder()

    def find(self, path: str) -> Inode | Folder | None:
        """What is at ``path``; None: nothing."""
        node: Inode | Folder | None = self._root
        for part in _parts(path):
            node = node.names.get(part) if isinstance(node, Folder) else None
        return node

    def folder(self, path: str) -> Folder:
        """The folder at ``path``. FileNotFoundError."""
        node = self.find(path)
        if not isinstance(node, Folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        return node

    def inode(self, path: str, *, create: bool = False) -> Inode:
        """The file at ``path``; ``create``: an empty one where there is none. FileNotFoundError."""
        folder = self.folder(os.path.dirname(path))
        name = os.path.basename(path)
        if create and name not in folder.names:
            folder.names[name] = Inode()
        node = folder.names.get(name)
        if not isinstance(node, Inode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def make_dirs(self, path: str) -> None:
        """Make the folder, and those above it."""
        folder = self._root
        for part in _parts(path):
            below = folder.names.setdefault(part, Folder())
            if isinstance(below, Inode):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
            folder = below

    def lose_unsynced(self, survivors: Survivors, removed_are_back: bool) -> None:
        """Power failure: of the bytes that were appended since the last sync of a file the first
        ``survivors(path, count)`` are left; names removed since then are back, or not."""
        _lose(self._root, "", survivors, removed_are_back)


def _parts(path: str) -> Iterator[str]:
    return (part for part in path.split("/") if part)


def _lose(folder: Folder, path: str, survivors: Survivors, removed_are_back: bool) -> None:
    seen, folder.names = folder.names, {}
    for name, node in folder.durable_names.items():
        below = f"{path}/{name}"
        if isinstance(node, Folder):
            _lose(node, below, survivors, removed_are_back)
        elif name not in seen and not removed_are_back and name not in folder.moved:
            continue  # a rename is lost as a whole: the old name is back
        else:
            _lose_bytes(node, below, survivors)
        folder.names[name] = node
    folder.durable_names = dict(folder.names)
    folder.moved.clear()


def _lose_bytes(inode: Inode, path: str, survivors: Survivors) -> None:
    kept = inode.durable
    appended = bytes(inode.content[len(kept) :])
    if appended and inode.content.startswith(kept):  # else it was cut: the cut is lost as well
        kept += appended[: survivors(path, len(appended))]
    inode.content[:] = kept
    inode.durable = kept
