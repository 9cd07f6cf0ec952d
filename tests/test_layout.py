"""The layout rules that no other tool sees."""

import importlib
import platform
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from project import ROOT

PACKAGES_FOR_USERS = (
    "tallymark",
    "tallymark.broker",
    "tallymark.client",
    "tallymark.coordination",
    "tallymark.deployment",
    "tallymark.log",
    "tallymark.mirror",
    "tallymark.serialization",
    "tallymark.testing",
    "tallymark_audit",
)


def test_the_standard_librarys_platform_is_not_shadowed() -> None:
    assert platform.__file__ is not None
    assert Path(platform.__file__).parent == Path(sysconfig.get_path("stdlib"))
    assert platform.system()


def test_platform_holds_one_package_and_nothing_else() -> None:
    assert [path.name for path in (ROOT / "platform").iterdir() if path.name != "__pycache__"] == [
        "tallymark"
    ]


def test_tests_hold_no_packages() -> None:
    """Only tests/support, which stands on the import path, holds packages of helpers."""
    found = set((ROOT / "tests").rglob("__init__.py"))
    assert found - set((ROOT / "tests/support").rglob("__init__.py")) == set()


def test_python_started_in_the_root_still_finds_the_standard_library() -> None:
    code = "import platform; assert platform.system()"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_locks_name_versions_and_hashes_and_no_address() -> None:
    for lock in (ROOT / "deploy").glob("requirements*.txt"):
        for line in lock.read_text().replace("\\\n", "").splitlines():
            assert "==" in line, line
            assert " --hash=sha256:" in line, line
            assert "://" not in line, line
            assert not line.startswith("-"), line


def test_every_entry_point_names_what_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sources = project_sources()
    for group in project["entry-points"].values():
        for value in group.values():
            module = value.split(":")[0].replace(".", "/")
            assert any(
                (root / f"{module}.py").is_file() or (root / module / "__init__.py").is_file()
                for root in sources
            ), value


@pytest.mark.parametrize("package", PACKAGES_FOR_USERS)
def test_every_name_that_a_package_offers_can_be_imported(package: str) -> None:
    """A module was renamed; the table of names that are loaded at first use kept the old name, and
    ``from tallymark.client import QueueInterceptor`` failed. No checker reads such a table."""
    module = importlib.import_module(package)
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert missing == []


def project_sources() -> list[Path]:
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
    return [ROOT / name for name in hatch["build"]["dev-mode-dirs"]]
