"""What can go wrong with the file of a SQLite database, besides SQL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tallymark_schema_registry.store.changes import StoreFailed

NETWORK: Final = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "ncpfs")
)
"""Types of file systems that other machines may write too."""
_MOUNTS: Final = Path("/proc/self/mounts")


class SameFile:
    """The file of a running registry. Where it is removed or replaced, SQLite would go on
    writing to a file that has no name any more, and all that it acknowledged would be lost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = _identity(path)

    def check(self) -> None:
        """Raises StoreFailed where another file, or none, has the name."""
        try:
            now = _identity(self._path)
        except OSError as error:
            raise StoreFailed(
                f"the registry's store {self._path} is gone ({error.strerror}); put it back, or "
                "restart what serves it"
            ) from error
        if now != self._identity:
            raise StoreFailed(
                f"another file has taken the place of the registry's store {self._path}; restart "
                "what serves it"
            )


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def network_disk(path: Path, mounts: Path = _MOUNTS) -> str:
    """The type of the network file system that the path is on; "" where it is on none, and where
    that cannot be found out. Readers of a file in WAL mode share memory, so all of them must be on
    one machine; and locks of such file systems are not always kept."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    place = path.absolute()
    found = ("", Path("/"))
    for line in lines:
        _, folder, kind, *_ = [*line.split(" "), "", "", ""]
        # The kernel writes a space in a name as \\040.
        mounted = Path(folder.encode().decode("unicode_escape"))
        if place.is_relative_to(mounted) and len(mounted.parts) >= len(found[1].parts):
            found = kind, mounted
    kind = found[0]
    return kind if kind in NETWORK or kind.startswith("fuse.") else ""
