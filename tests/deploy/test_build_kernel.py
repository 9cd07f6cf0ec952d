"""The record kernel compiles, and says what its source says."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path
from types import ModuleType

import pytest

from tallymark.protocol import record_walk
from tallymark.protocol.records import HEADER_SIZE, encode_batch

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    if shutil.which("cc") is None or importlib.util.find_spec("setuptools") is None:
        pytest.skip("no C compiler, or no setuptools")
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        pytest.skip("this Python has no headers")
    folder = tmp_path_factory.mktemp("kernel")
    command = [sys.executable, str(ROOT / "deploy/build_kernel.py"), str(folder)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    (built,) = folder.glob("record_walk_compiled.*.so")
    spec = importlib.util.spec_from_file_location("record_walk_compiled", built)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_of_this_source(compiled: ModuleType) -> None:
    assert zlib.crc32(Path(record_walk.__file__).read_bytes()) == compiled.SOURCE


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
