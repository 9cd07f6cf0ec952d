"""The jars of Apache Kafka: fetched by Maven from its central repository, kept in a cache.

What was fetched has to be what this version of Tallymark was tested with, file by file:
``jars.sha256`` beside this module, as ``sha256sum`` writes it; ``jars-3.9.1.sha256`` for the older
version. Anything else is not kept.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tallymark.cache_folder import cache_folder
from tallymark.errors import UserError

VERSION: Final = "4.1.0"
OLDER: Final = "3.9.1"
"""The last one before transactions of version 2 (KIP-890), for some tests."""
_SCALA: Final = "2.13"
_FETCH_SECONDS: Final = 600
CHECKSUMS: Final = Path(__file__).with_name("jars.sha256")
"""``<SHA-256 in hex>  <file name>`` a line; made anew by ``sha256sum`` when VERSION changes."""

# The server's jars bring no logger: without one it dies without a word.
_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tallymark</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_SCALA</artifactId>
      <version>VERSION</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


class NotAvailableError(UserError):
    """Apache Kafka cannot be had on this machine; the text says what is missing."""


def jars(fetch: bool = True, version: str = VERSION) -> Path:
    """The folder with the server's jars of this version and all they need. Fetched at the first
    call, which takes a minute; without ``fetch``, or where Maven does not get them:
    NotAvailableError."""
    folder = cache_folder() / f"apache-kafka-{version}"
    if folder.is_dir():
        return folder
    if not fetch:
        raise NotAvailableError(
            f"the jars of Apache Kafka {version} are not in {folder}",
            "fetch them with deploy/ensure-apache-kafka"
            if version == VERSION
            else f"fetch them with python -m tallymark.processes.apache_kafka {version}",
        )
    maven = shutil.which("mvn")
    if maven is None:
        raise NotAvailableError(
            f"the jars of Apache Kafka {version} are not cached, and there is no mvn to fetch them",
            "install Maven (Debian: apt-get install maven)",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        _fetch(maven, Path(scratch), version)
        check(Path(scratch) / "jars", _checksums(version).read_text(encoding="utf-8"))
        try:
            (Path(scratch) / "jars").rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    return folder


def check(folder: Path, checksums: str) -> None:
    """NotAvailableError unless the folder has the files of ``checksums``, and no others."""
    wanted = {name: digest for digest, name in map(str.split, checksums.splitlines())}
    found = {path.name: _sha256(path) for path in folder.iterdir()}
    wrong = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
    if wrong:
        raise NotAvailableError(
            f"of the jars of Apache Kafka that mvn got, {', '.join(wrong[:3])} "
            f"{'and others are' if len(wrong) > 3 else 'is'} not what {CHECKSUMS.name} lists",
            "look at where Maven gets them from (settings.xml, a proxy), and at ~/.m2",
        )


def _checksums(version: str) -> Path:
    return CHECKSUMS if version == VERSION else CHECKSUMS.with_name(f"jars-{version}.sha256")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(maven: str, scratch: Path, version: str) -> None:
    pom = _POM.replace("SCALA", _SCALA).replace("VERSION", version)
    (scratch / "pom.xml").write_text(pom, encoding="utf-8")
    command = [maven, "-q", "-B", "-C", "-Dstyle.color=never", "dependency:copy-dependencies"]
    try:
        ended = subprocess.run(
            [*command, "-DincludeScope=runtime", f"-DoutputDirectory={scratch}/jars"],
            cwd=scratch,
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise NotAvailableError(
            f"mvn did not get Apache Kafka {version} within {_FETCH_SECONDS} s"
        ) from None
    if ended.returncode:
        lines = (ended.stdout + ended.stderr).strip().splitlines()
        raise NotAvailableError(
            f"mvn did not get Apache Kafka {version}: {lines[0] if lines else 'it said nothing'}"
        )
