"""``make spark-package``: a Python with Tallymark, as one file for ``spark-submit --archives``.

    python deploy/spark_package.py build/tallymark-spark.tar.gz [--extras spark,lake,fast]

numpy, crc32c and cramjam are native code, which ``--py-files`` cannot carry; so the workers get a
whole Python: this interpreter with its standard library, the packages of the extras as they are
installed here (by their locks), and our own as a wheel. PySpark is left out, since Spark brings it
to its workers. It runs from any folder:

    spark-submit --archives tallymark-spark.tar.gz#environment \\
        --conf spark.pyspark.python=./environment/bin/python ...

The workers' machines need the same processor, and a C library no older than this machine's.
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).parents[1]
EXTRAS: Final = "spark,lake,iceberg,fast,postgresql"
BROUGHT_BY_SPARK: Final = {"pyspark", "py4j"}
_UNUSED: Final = shutil.ignore_patterns(
    "__pycache__", "site-packages", "dist-packages", "config-*", "test", "idlelib", "ensurepip"
)
_LAUNCHER: Final = """\
#!/bin/sh
# Finds its own library, wherever the archive was unpacked.
here=$(dirname "$(readlink -f "$0")")
export LD_LIBRARY_PATH="$here/../lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$here/{python}" "$@"
"""
_NATIVE: Final = "import numpy, crc32c, cramjam, pyarrow, tallymark_spark_jobs.source.planning"


def main() -> None:
    """Print where the archive is and how large it is."""
    options = argparse.ArgumentParser(description="Pack a Python with Tallymark for Spark.")
    options.add_argument("archive", type=Path, help="such as build/tallymark-spark.tar.gz")
    options.add_argument("--extras", default=EXTRAS, help=f"of the package (default: {EXTRAS})")
    options.add_argument("--fast", action="store_true", help="compress little")
    given = options.parse_args()
    given.archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tallymark-spark-package-") as folder:
        place = Path(folder, "environment")
        lay_out(place, [extra for extra in given.extras.split(",") if extra])
        check(place)
        pack(place, given.archive, 1 if given.fast else 6)
    megabytes = given.archive.stat().st_size / 1e6
    print(f"{given.archive}: {megabytes:.0f} MB; for --archives {given.archive.name}#environment")


def lay_out(place: Path, extras: Collection[str], compiled: bool = True) -> None:
    """The whole Python, below ``place``. Not ``compiled``, each file is compiled when it is first
    imported: that is for a folder that is used where it is."""
    packages = _interpreter(place) / "site-packages"
    for name in needed("tallymark", extras):
        _copy_distribution(name, packages)
    _install_ourselves(packages)
    if not compiled:
        return
    # Unpacked files get new times, by which Python would take each compiled file for an old one.
    compileall.compile_dir(
        place / "lib", quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )


def check(place: Path) -> None:
    """SystemExit unless it runs by itself, from another folder. What Spark brings is not there."""
    command = [str(place / "bin" / "python"), "-I", "-c", _NATIVE]
    ran = subprocess.run(command, cwd="/", env={}, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"the packed Python does not run:\n{ran.stderr}")


def pack(place: Path, archive: Path, level: int) -> None:
    """The same files give the same archive, whenever and by whomever it is made."""

    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", level, raw, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for each in sorted(place.iterdir()):
            tar.add(each, each.name, filter=anonymous)  # sorts what is below


def needed(package: str, extras: Collection[str]) -> list[str]:
    """The packages that ``package`` with these extras needs here, and what these need in turn,
    without itself and what Spark brings. SystemExit names an extra that there is none of."""
    unknown = set(extras) - set(metadata.metadata(package).get_all("Provides-Extra") or ())
    if unknown:
        raise SystemExit(f"{package} has no extra {', '.join(sorted(unknown))}")
    found: set[str] = set()
    waiting = [(package, frozenset(extras))]
    while waiting:
        name, wanted = waiting.pop()
        for text in metadata.requires(name) or ():
            requirement = Requirement(text)
            other = re.sub(r"[-_.]+", "-", requirement.name).lower()
            if not _applies(requirement, wanted) or other in BROUGHT_BY_SPARK:
                continue
            if other not in found or requirement.extras:
                waiting.append((other, frozenset(requirement.extras)))
            found.add(other)
    return sorted(found - {package})


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _interpreter(place: Path) -> Path:
    """Copy this interpreter and its standard library; returns the library's folder."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = place / "lib" / version
    base = {"installed_base": sys.base_prefix, "base": sys.base_prefix}
    shutil.copytree(sysconfig.get_path("stdlib", vars=base), library, ignore=_UNUSED)
    (place / "bin").mkdir()
    shutil.copy2(Path(os.path.realpath(sys.executable)), place / "bin" / version)
    launcher = place / "bin" / "python"
    launcher.write_text(_LAUNCHER.format(python=version), encoding="ascii")
    launcher.chmod(0o755)
    for shared in _shared_libraries():
        shutil.copy2(shared, place / "lib" / shared.name)
    return library


def _shared_libraries() -> Iterator[Path]:
    """The library that the interpreter is in, if it is not in the executable itself."""
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        folder = Path(sysconfig.get_config_var("LIBDIR"))
        yield folder / sysconfig.get_config_var("INSTSONAME")


def _copy_distribution(name: str, packages: Path) -> None:
    """What was installed of one package below site-packages; not its programs."""
    for file in metadata.distribution(name).files or ():
        if file.suffix == ".pyc" or ".." in file.parts:
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(str(file.locate())), target)


def _install_ourselves(packages: Path) -> None:
    """Not the checkout: the wheel, which is what users have."""
    with tempfile.TemporaryDirectory(prefix="tallymark-wheel-") as folder:
        build = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
        subprocess.run([sys.executable, *build, "-w", folder, str(ROOT)], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as content:
            content.extractall(packages)


if __name__ == "__main__":
    main()
