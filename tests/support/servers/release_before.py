"""The release before this one, to be upgraded from."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from project import ROOT

_LEVELS: Final = "platform/tallymark/replication/features.py"
"""The file that came with levels of features, and so with replication."""


def release_before(folder: Path) -> str:
    """Put its code into ``folder``: that of the last tag, or of the last commit that knows nothing
    of replication. Returns why it cannot be had, as without git's history; else an empty text."""
    commit = _git("describe", "--tags", "--abbrev=0", "HEAD^")
    if not commit:
        added = _git("log", "--first-parent", "--diff-filter=A", "--format=%H", "--", _LEVELS)
        commit = _git("rev-parse", "--verify", f"{added}^") if added else ""
    if not commit:
        return "git's history is not here (a copy, or a shallow clone)"
    archive = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, capture_output=True, check=False
    ).stdout
    if not archive:
        return f"git cannot give the files of {commit}"
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return ""


def _git(*words: str) -> str:
    """What git prints; empty where it cannot."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
