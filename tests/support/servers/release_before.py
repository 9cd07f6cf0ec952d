"""Releases before this one, to be upgraded from."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from project import ROOT

_LEVELS: Final = "platform/tallymark/replication/features.py"
"""The file that came with levels of features, and so with replication."""
_END_TXN: Final = ":(glob)platform/tallymark/broker/**/k26_*.py"
"""The one that came with the coordinator of transactions."""


def release_before(folder: Path) -> str:
    """Put its code into ``folder``: that of the last tag, or of the last commit that knows nothing
    of replication. Returns why it cannot be had, as without git's history; else an empty text."""
    return _extract(_git("describe", "--tags", "--abbrev=0", "HEAD^") or _before(_LEVELS), folder)


def release_without_transactions(folder: Path) -> str:
    """The same with the last tag, or else the last commit, whose brokers coordinate none."""
    commit = _before(_END_TXN)
    return _extract(commit and (_git("describe", "--tags", "--abbrev=0", commit) or commit), folder)


def _before(path: str) -> str:
    """The last commit without this path, as git matches it; empty where that is not known."""
    added = _git("log", "--first-parent", "--diff-filter=A", "--format=%H", "--", path)
    return _git("rev-parse", "--verify", f"{added.splitlines()[-1]}^") if added else ""


def _extract(commit: str, folder: Path) -> str:
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
