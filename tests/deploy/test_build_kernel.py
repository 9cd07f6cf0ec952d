"""The record kernel compiles, and says what its source says."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType

import pytest
from project import ROOT

from tallymark.protocol.records import walk as record_walk
from tallymark.protocol.records.batch import HEADER_SIZE, encode_batch

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"deploy/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = script("build_kernel")
    if lacking := builder.missing():
        pytest.skip("; ".join(each.strip() for each in lacking))
    folder = tmp_path_factory.mktemp("kernel")
    command = [sys.executable, str(ROOT / "deploy/build_kernel.py"), str(folder)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    (built,) = folder.glob("walk_compiled.*.so")
    return built


@pytest.fixture(scope="module")
def compiled(built: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("walk_compiled", built)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.soak  # it compiles for half a minute
def test_it_is_of_this_source(compiled: ModuleType) -> None:
    assert zlib.crc32(Path(record_walk.__file__).read_bytes()) == compiled.SOURCE


@pytest.mark.soak  # it compiles for half a minute
def test_every_changed_byte_is_judged_alike(compiled: ModuleType) -> None:
    """What it reads comes from strangers: wherever a byte is another one, or the end is missing,
    it says what the uncompiled walk says."""
    rows = [(b"k" * (n % 3), b"v" * (n * 9), (("h", b"x" * n), ("é", None)), n) for n in range(70)]
    good = encode_batch(rows)[HEADER_SIZE:]
    changed: list[bytes] = [good[:size] for size in range(0, len(good), 7)]
    for at in range(len(good)):
        others = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff")
        changed += [good[:at] + byte + good[at + 1 :] for byte in others]
    count = len(rows)
    for payload in (good, *changed[:: max(1, len(changed) // 4000)]):
        arguments = (payload, 0, count, count - 1, count)
        assert compiled.walk(*arguments) == record_walk.walk(*arguments)
        assert compiled.is_whole(payload, 0, count) == record_walk.is_whole(payload, 0, count)


@pytest.mark.soak  # it compiles for half a minute
def test_it_needs_nothing_but_python(built: Path) -> None:
    """The image's last stage has neither mypy nor a compiler: a kernel that imported something of
    theirs would be left out there in silence."""
    code = (
        f"import sys; sys.path.insert(0, {str(built.parent)!r}); import {built.name.split('.')[0]}"
    )
    said = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def test_what_is_missing_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In a venv without setuptools ``make kernel`` printed the last lines of a traceback."""
    builder = script("build_kernel")
    monkeypatch.setattr(builder.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(builder.shutil, "which", lambda name: None)
    monkeypatch.setattr(builder.sysconfig, "get_path", lambda name: str(tmp_path))
    assert builder.main(tmp_path) == 1
    said = capsys.readouterr().out
    assert "pip install --require-hashes -r" in said
    assert "no mypyc and no setuptools" in said
    assert "no C compiler" in said
    assert "Python.h" in said
    assert list(tmp_path.iterdir()) == []
