"""A wheel that is built from a clean clone has everything in it, or is not built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from project import ROOT

VENDOR = "tallymark_dashboards/static/vendor"
pytestmark = pytest.mark.process


@pytest.fixture
def clean_clone(tmp_path: Path) -> Path:
    """The files of the repository, as they are, and nothing that make or npm left beside them."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    clone = tmp_path / "clone"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/", "bench/")):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name)
    return clone


def build(clone: Path, path: str) -> tuple[int, str, list[str]]:
    """Exit code, what was said, and the files of the wheel."""
    wheels = clone.parent / "wheels"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", wheels, clone],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    names: list[str] = []
    for wheel in wheels.glob("*.whl"):
        names = zipfile.ZipFile(wheel).namelist()
    return done.returncode, done.stdout + done.stderr, names


def test_it_contains_the_front_end_libraries_and_the_licence(clean_clone: Path) -> None:
    """A wheel built from a fresh clone lacked htmx: the libraries come by npm, which only ``make``
    called. It installed and ran, and its pages never updated by themselves."""
    if not shutil.which("npm"):
        pytest.skip("npm, which brings the front-end libraries, is not on this machine")
    code, said, names = build(clean_clone, os.environ["PATH"])
    assert code == 0, said
    assert {f"{VENDOR}/htmx.min.js", f"{VENDOR}/sse.min.js"} <= set(names)
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
    assert "pyspark_tallymark.py" in names


def test_without_npm_the_build_fails_and_says_why(clean_clone: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "dirname", "mkdir", "cp", "touch", "git"):
        (tools / tool).symlink_to(shutil.which(tool) or pytest.skip(f"no {tool} here"))
    code, said, names = build(clean_clone, str(tools))
    assert code != 0
    assert names == []
    assert "the wheel would lack htmx.min.js, sse.min.js" in said
    assert "install npm (Node.js) and build again" in said
