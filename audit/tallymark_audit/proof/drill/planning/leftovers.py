"""The folder of a drill before the next one: what a perfect drill has left is removed, what is left
of another one is kept, since it is all that can say why::

    FOLDER/failed/seed-3-20261129T044514/     data, logs, seals, store, outcome.json, story.txt
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

OUTCOME: Final = "outcome.json"
"""Written by :mod:`tallymark_audit.proof.drill.evidence`."""
FAILED: Final = "failed"
KEPT: Final = 3
"""So many failed drills are kept beside the present one: each has some 100 MB."""


def clear(folder: Path, but: str) -> None:
    """Make room for a drill. ``but``: a file that stays."""
    seed = _failed_seed(folder)
    if seed is not None:
        _set_aside(folder, seed, but)
    for path in folder.iterdir():
        if path.name in (FAILED, but):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _failed_seed(folder: Path) -> int | None:
    """The seed of the drill that the folder holds, if that was not perfect. None: it was, or the
    folder holds none."""
    try:
        found = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
        return None if found["perfect"] else int(found["seed"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _set_aside(folder: Path, seed: int, but: str) -> None:
    ended = datetime.fromtimestamp((folder / OUTCOME).stat().st_mtime, UTC)
    aside = folder / FAILED / f"seed-{seed}-{ended:%Y%m%dT%H%M%S}"
    aside.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in (FAILED, but):
            path.rename(aside / path.name)
    kept = sorted((folder / FAILED).glob(f"*/{OUTCOME}"), key=lambda path: path.stat().st_mtime)
    for oldest in kept[:-KEPT]:
        shutil.rmtree(oldest.parent)
