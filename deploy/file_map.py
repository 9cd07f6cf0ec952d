"""Prints docs/file-map.md from the docstrings of the modules: ``python deploy/file_map.py``."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = (
    "platform/tallymark",
    "audit/tallymark_audit",
    "schema_registry/tallymark_schema_registry",
    "spark_jobs/tallymark_spark_jobs",
    "dashboards/tallymark_dashboards",
    "tests/support",
)
HEAD: Final = """# The file map

Every file of the packages and the first sentence of it. How a message travels through them:
[the walked paths](architecture.md#the-walked-paths).

This page is made from the code: `python deploy/file_map.py > docs/file-map.md`.
"""
_ROLE: Final = re.compile(r":[a-z]+:`~?([\w.]+)`")
_SENTENCE: Final = re.compile(r"(?<=[^.\s][.!?])\s+(?=[A-Z`(])")


def file_map() -> str:
    """The whole page."""
    return HEAD + "".join(_room(room) for package in PACKAGES for room in _rooms(ROOT / package))


def _rooms(folder: Path) -> Iterator[Path]:
    if any(folder.glob("*.py")):
        yield folder
    for below in sorted(each for each in folder.iterdir() if each.is_dir()):
        if below.name != "__pycache__":
            yield from _rooms(below)


def _room(folder: Path) -> str:
    init = folder / "__init__.py"
    about = _first_sentence(init) if init.exists() else ""
    rows = "".join(_row(each) for each in sorted(folder.glob("*.py")) if each != init)
    head = f"\n## `{folder.relative_to(ROOT)}/`\n" + (f"\n{about}\n" if about else "")
    return head + (f"\n| file | what |\n|---|---|\n{rows}" if rows else "")


def _row(file: Path) -> str:
    return f"| `{file.name}` | {_first_sentence(file)} |\n"


def _first_sentence(file: Path) -> str:
    about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(about.partition("\n\n")[0].removesuffix("::").split())
    text = _ROLE.sub(lambda found: f"`{found[1].rpartition('.')[2]}`", paragraph)
    return _SENTENCE.split(text)[0].replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(file_map())
