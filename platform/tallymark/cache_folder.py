"""Where what can be made or fetched again is kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$TALLYMARK_CACHE``, else ``~/.cache/tallymark``; it may not exist. RuntimeError: the user
    has no home."""
    given = os.environ.get("TALLYMARK_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tallymark"
