"""Spark's own Kafka connector, fetched once by Maven into the cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from support.paper.java_client import checked_jars

from tallymark.cache_folder import cache_folder
from tallymark.errors import UserError

_SOURCE: Final = Path(__file__).with_name("connector")
_SECONDS: Final = 600


def connector_jars(fetch: bool = True) -> list[Path]:
    """The jars that ``format("kafka")`` needs beside PySpark's. Without ``fetch`` none where the
    cache has none; else raises UserError where they cannot be had."""
    sums = (_SOURCE / "jars.sha256").read_text(encoding="utf-8")
    state = hashlib.sha256((_SOURCE / "pom.xml").read_bytes() + sums.encode()).hexdigest()
    folder = cache_folder() / f"spark-connector-{state[:16]}"
    if not folder.is_dir():
        if not fetch:
            return []
        _fetch(folder, sums)
    return sorted(folder.iterdir())


def _fetch(folder: Path, sums: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise UserError("Spark's connector cannot be had without Maven", "apt-get install maven")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        got = Path(scratch) / "got"
        command = [maven, "-q", "-B", "-C", "-f", str(_SOURCE / "pom.xml")]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={got}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        if ended.returncode:
            said = (ended.stdout + ended.stderr).strip().splitlines() or ["nothing"]
            raise UserError(f"Maven cannot get Spark's connector: {said[0]}")
        wanted = {line.split()[1] for line in sums.splitlines()}
        for jar in got.iterdir():
            if jar.name not in wanted:
                jar.unlink()
        checked_jars(got, sums)
        got.rename(folder)
