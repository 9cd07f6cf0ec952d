"""Whether other users of this machine may read what is ours: modes of the data and of secrets."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from tallymark.deployment import Deployment
from tallymark.processes.checks.reach import Finding

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MOST: Final = 20_000
"""Names that are looked at: a folder that is closed closes what is below it."""


def check_modes(deployment: Deployment) -> list[Finding]:
    """A warning where the data folder, or a file with a password, allows others something."""
    folder = deployment.data_dir.absolute()
    found = [_of_folder(folder)] if folder.is_dir() else []
    wide = [path for path in _secrets(deployment) if _allows(path)]
    found += [
        Finding(
            "secrets",
            "warning",
            f"{path} may be read by others (mode {stat.S_IMODE(path.stat().st_mode):04o})",
            f"chmod 600 {path}",
        )
        for path in wide
    ]
    return found


def _of_folder(folder: Path) -> Finding:
    """One line: a folder that only its user may enter needs no look at what is in it."""
    if not _allows(folder):
        return Finding("modes", "ok", f"{folder} is its user's alone")
    wide = [path for path in islice(_below(folder), _MOST) if _allows(path)]
    if not wide:
        return Finding("modes", "ok", f"what is in {folder} is its user's alone")
    return Finding(
        "modes",
        "warning",
        f"others may read {len(wide)} files and folders of {folder}, {wide[0]} for one",
        f"chmod -R go= {folder} (new ones are closed by themselves)",
    )


def _below(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        yield from (Path(where, name) for name in sorted(folders) + sorted(files))


def _secrets(deployment: Deployment) -> Iterator[Path]:
    for cluster in deployment.clusters:
        for name, value in cluster.security:
            if name.endswith(("_password_file", "_secret_file", "_keystore_location")) and value:
                path = Path(str(value))
                if path.is_file():
                    yield path


def _allows(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return not stat.S_ISLNK(found.st_mode) and bool(found.st_mode & _OTHERS)
