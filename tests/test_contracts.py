"""The contracts between rooms find an import that points upwards, in every package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from project import ROOT

pytestmark = pytest.mark.process

# The file that gets the import, the import, and the contract that it breaks.
PLANTED: Final = {
    "platform/tallymark/broker/metrics/__init__.py": (
        "import tallymark.broker.server",
        "the rooms of the broker",
    ),
    "platform/tallymark/client/core/__init__.py": (
        "import tallymark.client.aio",
        "the rooms of the client",
    ),
    "platform/tallymark/cli/admin/__init__.py": (
        "import tallymark.cli.main",
        "the rooms of the command line",
    ),
    "audit/tallymark_audit/model/__init__.py": (
        "import tallymark_audit.api",
        "the rooms of the audit:",
    ),
    "spark_jobs/tallymark_spark_jobs/source/__init__.py": (
        "import tallymark_spark_jobs.cli",
        "the rooms of the Spark jobs",
    ),
    "dashboards/tallymark_dashboards/view/__init__.py": (
        "import tallymark_dashboards.app",
        "the rooms of the dashboards",
    ),
    "schema_registry/tallymark_schema_registry/__init__.py": (
        "import tallymark_dashboards",
        "products stand on the platform",
    ),
}


def lint(folder: Path) -> tuple[int, list[str]]:
    """The exit code of ``lint-imports`` on this copy, and the contracts that are broken."""
    packages = os.pathsep.join(str(folder / name.partition("/")[0]) for name in PLANTED)
    ran = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": packages, "NO_COLOR": "1", "COLUMNS": "400"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    broken = [line for line in ran.stdout.splitlines() if line.endswith("BROKEN")]
    return ran.returncode, broken


def test_an_import_that_points_upwards_is_found_in_each_package(tmp_path: Path) -> None:
    """Without the planted imports nothing is broken: it is they that are found."""
    for top in sorted({name.partition("/")[0] for name in PLANTED}):
        shutil.copytree(ROOT / top, tmp_path / top, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert lint(tmp_path) == (0, [])
    for name, (planted, _) in PLANTED.items():
        with (tmp_path / name).open("a") as file:
            file.write(f"\n{planted}\n")
    code, broken = lint(tmp_path)
    assert code == 1
    for name, (_, contract) in PLANTED.items():
        assert any(contract in line for line in broken), (name, broken)
