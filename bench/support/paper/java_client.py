"""The Java clients of the four products, fetched and compiled once by Maven into the cache.

What Maven gets has to be what ``java/jars.sha256`` lists, file by file."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tallymark.cache_folder import cache_folder
from tallymark.errors import UserError
from tallymark.processes.java import find_java

_SOURCE: Final = Path(__file__).with_name("java")
_BUILD_SECONDS: Final = 600
_HEAP: Final = "1g"


def java_command() -> list[str]:
    """The command of a client's process, without its arguments. Raises UserError where it cannot be
    built."""
    built = _build()
    return [
        *(
            find_java("the Java clients"),
            f"-Xmx{_HEAP}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        ),
        *("-cp", f"{built}/classes:{built}/lib/*", "paper.Main"),
    ]


def checked_jars(folder: Path, checksums: str) -> None:
    """UserError unless the folder has the files that ``checksums`` lists, and no others."""
    wanted = {name: digest for digest, name in map(str.split, checksums.splitlines())}
    found = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.iterdir()}
    wrong = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
    if wrong:
        raise UserError(
            f"of the jars that Maven got, {', '.join(wrong)} are not what jars.sha256 lists",
            "look at where Maven gets them from (settings.xml, a proxy), and at ~/.m2",
        )


def _build() -> Path:
    sums = (_SOURCE / "jars.sha256").read_text(encoding="utf-8")
    files = [_SOURCE / "pom.xml", *sorted(_SOURCE.glob("src/**/*.java"))]
    state = hashlib.sha256(b"".join(each.read_bytes() for each in files) + sums.encode())
    folder = cache_folder() / f"paper-clients-{state.hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None or shutil.which("javac") is None:
        raise UserError(
            "the Java clients cannot be built without Maven and a Java compiler",
            "install them (Debian: apt-get install maven openjdk-17-jdk-headless)",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        command = [maven, "-q", "-B", "-C", "-Dstyle.color=never", "-f", str(_SOURCE / "pom.xml")]
        ended = subprocess.run(
            [*command, f"-Dbuild.folder={made}", "compile"],
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
        )
        if ended.returncode:
            said = (ended.stdout + ended.stderr).strip().splitlines() or ["nothing"]
            raise UserError(f"Maven cannot build the Java clients: {said[0]}")
        checked_jars(made / "lib", sums)
        made.rename(folder)
    return folder
