"""Compiles the record kernel: ``make kernel``, or ``python deploy/build_kernel.py [FOLDER]``.

A copy of ``protocol/record_walk.py`` under the name ``record_walk_compiled`` is made into an
extension module by mypyc, and placed beside it, or in FOLDER. Brokers that start afterwards use it.
The copy carries the checksum of its source, by which a test notices one that is older. Needs a C
compiler, and mypy and setuptools in this Python. (With mypyc's integers of 64 bits it is slower.)
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "platform/tallymark/protocol"
SOURCE = FOLDER / "record_walk.py"
NAME = "record_walk_compiled"


def main(target: Path) -> int:
    """Returns the exit code."""
    text = SOURCE.read_bytes()
    with tempfile.TemporaryDirectory(prefix="tallymark-kernel-") as folder:
        copy = Path(folder, f"{NAME}.py")
        compiled = text.replace(
            b"\nInt: TypeAlias = int", b"\nfrom mypy_extensions import i64 as Int"
        )
        copy.write_bytes(compiled + f"\n\nSOURCE: Final = {zlib.crc32(text)}\n".encode())
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
            print("the kernel was not compiled: brokers do without it")
            return 1
        for old in target.glob(f"{NAME}.*.so"):
            old.unlink()
        shutil.copy(built[0], target)
    print(f"compiled {target / built[0].name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
