"""The packed Python of make spark-package. That it runs on executors is tested on a real cluster
(tests/spark_jobs/engine/test_cluster.py)."""

from __future__ import annotations

import os
import tarfile
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from project import ROOT


@pytest.fixture(scope="module")
def package() -> ModuleType:
    spec = spec_from_file_location("spark_package", ROOT / "deploy" / "spark_package.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_has_the_native_packages_and_what_they_need(package: ModuleType) -> None:
    """A zip of --py-files cannot carry them."""
    found = package.needed("tallymark", ["spark"])
    assert set(found) >= {
        "numpy",
        "crc32c",
        "cramjam",
        "pyarrow",
        "pydantic-core",
    }
    assert not {"pyspark", "py4j", "tallymark", "fastapi"} & set(found)
    assert set(package.needed("tallymark", ["spark", "fast"])) - set(found) == {"numba", "llvmlite"}


def test_an_extra_that_there_is_none_of_is_refused(package: ModuleType) -> None:
    """A misspelt one left its packages out, and executors failed hours later."""
    with pytest.raises(SystemExit, match="tallymark has no extra laek"):
        package.needed("tallymark", ["spark", "laek"])


def test_the_extras_are_those_of_the_package(package: ModuleType) -> None:
    package.needed("tallymark", package.EXTRAS.split(","))


def test_the_same_files_are_the_same_archive(package: ModuleType, tmp_path: Path) -> None:
    place = tmp_path / "environment"
    (place / "bin").mkdir(parents=True)
    program = place / "bin" / "python"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (place / "lib").mkdir()
    package.pack(place, tmp_path / "one.tar.gz", 1)
    os.utime(program, (time.time() + 60, time.time() + 60))
    package.pack(place, tmp_path / "two.tar.gz", 1)
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        assert archive.getnames() == ["bin", "bin/python", "lib"]  # no folder above
        assert archive.getmember("bin/python").mode == 0o755


def test_a_python_that_does_not_run_is_not_packed(package: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "python"
    program.write_text("#!/bin/sh\necho no numpy >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(SystemExit, match="no numpy"):
        package.check(tmp_path)
