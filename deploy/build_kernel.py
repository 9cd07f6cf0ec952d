"""Compiles the record kernel: ``make kernel``, or ``python deploy/build_kernel.py [FOLDER]``.

A copy of ``protocol/records/walk.py`` under the name ``walk_compiled`` is made into an
extension module by mypyc, and placed beside it, or in FOLDER. Brokers that start afterwards use it;
it needs nothing that they do not have. The copy carries the checksum of its source, by which
``tallymark doctor`` and a test notice one that is older. Compiling takes a C compiler, the headers
of this Python, and ``deploy/requirements-kernel.txt``. (With mypyc's integers of 64 bits it is four
times slower.)
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "platform/tallymark/protocol/records"
SOURCE = FOLDER / "walk.py"
NAME = "walk_compiled"
LOCK = Path(__file__).with_name("requirements-kernel.txt")
WITHOUT = "the kernel was not compiled: brokers do without it, and check less of each batch"


def main(target: Path) -> int:
    """Returns the exit code."""
    lacking = missing()
    if lacking:
        print("\n".join(("the kernel cannot be compiled here:", *lacking, WITHOUT)))
        return 1
    text = SOURCE.read_bytes()
    with tempfile.TemporaryDirectory(prefix="tallymark-kernel-") as folder:
        copy = Path(folder, f"{NAME}.py")
        copy.write_bytes(text + f"\n\nSOURCE: Final = {zlib.crc32(text)}\n".encode())
        said = subprocess.run(
            [sys.executable, "-m", "mypyc", copy.name],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        built = list(Path(folder).glob(f"{NAME}.*.so"))
        if said.returncode or not built:
            print("\n".join((said.stdout + said.stderr).strip().splitlines()[-8:]))
            print(WITHOUT)
            return 1
        for old in target.glob(f"{NAME}.*.so"):
            old.unlink()
        shutil.copy(built[0], target)
    print(f"compiled {target / built[0].name}")
    return 0


def missing() -> list[str]:
    """What compiling takes and is not here, each with what to do."""
    lacking: list[str] = []
    packages = [name for name in ("mypyc", "setuptools") if importlib.util.find_spec(name) is None]
    if packages:
        lacking.append(
            f"  no {' and no '.join(packages)} in {sys.executable}:"
            f" {sys.executable} -m pip install --require-hashes -r {LOCK}"
        )
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        lacking.append("  no C compiler on the PATH: install one (Debian: apt-get install gcc)")
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if not headers.is_file():
        lacking.append(f"  no {headers}: install this Python's headers (Debian: python3-dev)")
    return lacking


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
