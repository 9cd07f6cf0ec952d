"""Where the project lies."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = next(path for path in Path(__file__).parents if (path / "pyproject.toml").is_file())
"""The folder of ``pyproject.toml``, whatever folder a test stands in."""
