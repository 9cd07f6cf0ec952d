"""Files that the architecture names are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()
ROOTS = (
    "",
    "platform/tallymark",
    "audit/tallymark_audit",
    "schema_registry/tallymark_schema_registry",
    "spark_jobs/tallymark_spark_jobs",
    "dashboards/tallymark_dashboards",
)
TEST = re.compile(r"`((?:[a-z_]+/)+test_\w+\.py)?(?:::(test_\w+))?`")
MODULE = re.compile(r":mod:`~?(\.*)([\w.]+)`")
PACKAGE_FILES = [
    file
    for folder in ("platform", "audit", "schema_registry", "spark_jobs", "dashboards")
    for file in (ROOT / folder).rglob("*.py")
]


@pytest.mark.slow
def test_the_file_map_is_up_to_date() -> None:
    """The map was kept by hand and missed 124 files."""
    command = [sys.executable, str(ROOT / "deploy/file_map.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert len(printed.splitlines()) > 1_000
    page = (ROOT / "docs/file-map.md").read_text()
    assert page == printed, "python deploy/file_map.py > docs/file-map.md"


@pytest.mark.slow
def test_the_page_of_metrics_is_what_a_broker_reports() -> None:
    command = [sys.executable, str(ROOT / "deploy/metrics_page.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (ROOT / "docs/metrics.md").read_text()
    assert page == printed, "python deploy/metrics_page.py > docs/metrics.md"


def test_every_path_that_is_walked_is_there() -> None:
    text = PAGE.split("## The walked paths", 1)[1].split("\n## ", 1)[0]
    paths = set(re.findall(r"`([\w./-]+/[\w.-]+\.py)`", text))
    assert len(paths) > 80
    missing = [path for path in paths if not any((ROOT / top / path).exists() for top in ROOTS)]
    assert sorted(missing) == []


def test_every_test_that_the_architecture_names_is_there() -> None:
    """When tests moved into rooms the page went on naming 112 of them where they had been."""
    lost: list[str] = []
    named, text = 0, ""
    for file, function in TEST.findall(PAGE):
        if not file and not function:
            continue
        if file:
            path = ROOT / "tests" / file.removeprefix("tests/")
            text = path.read_text() if path.is_file() else ""
        named += 1
        if not text or (function and not re.search(rf"def {function}\b", text)):
            lost.append(f"{file}::{function}")
    assert named > 150
    assert lost == []


def test_every_module_that_a_docstring_names_is_there() -> None:
    """Docstrings went on naming modules by the rooms that they had left."""
    found = {name: file for file in PACKAGE_FILES if (name := _module(file))}
    lost = [
        (str(file.relative_to(ROOT)), dots + name)
        for module, file in found.items()
        for dots, name in MODULE.findall(file.read_text())
        if _absolute(module, file, dots, name) not in found
    ]
    assert len(found) > 1_000
    assert lost == []


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _absolute(module: str, file: Path, dots: str, name: str) -> str:
    if not dots:
        return name
    up = len(dots) - (file.name == "__init__.py")
    return ".".join([*module.split(".")[: -up or None], name])
