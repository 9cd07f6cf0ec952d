"""The Java client, kafka-clients from Maven Central: one run of its driver for everything. Kafka
Streams is a process beside it.

``deploy/ensure-java-clients`` builds the drivers (tests/foreign/java) for each version into a cache
folder; a test asks here whether what is there is of today's sources.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pytest
from project import ROOT

VERSIONS: Final = ("3.9.1", "4.1.0")
"""Of both; deploy/ensure-java-clients builds the same."""
What: TypeAlias = Literal["clients", "streams"]

_TIMEOUT: Final = 90.0


def driver(version: str, what: What = "clients") -> str:
    """The class path of the driver with this version; skips where it is not built."""
    home = Path(os.environ.get("TALLYMARK_CACHE") or Path.home() / ".cache/tallymark")
    folder = home / f"java-{what}" / version
    if not is_built(version, what):
        pytest.skip(f"kafka-{what} {version} is not built here: deploy/ensure-java-clients")
    return f"{folder}/classes:{folder}/lib/*"


def is_built(version: str, what: What = "clients") -> bool:
    """Whether the driver of today's sources is there with this version."""
    command = [str(ROOT / "deploy/ensure-java-clients"), "--built", what, version]
    return subprocess.run(command, check=False).returncode == 0


def run(version: str, servers: str, prefix: str, folder: Path, others: list[str]) -> dict[str, Any]:
    """Run every scenario: its name to the line that the driver printed for it."""
    lines = _run(version, "foreign.Driver", servers, prefix, str(folder), *others)
    return {line["scenario"]: line for line in lines}


def write_transactions(version: str, servers: str, topic: str, seed: int) -> dict[str, Any]:
    """``Transactions.java`` says what is written and returned."""
    (line,) = _run(version, "foreign.Transactions", servers, topic, str(seed))
    return line


def _run(version: str, main: str, *arguments: str) -> list[dict[str, Any]]:
    options = (
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    )
    done = subprocess.run(
        ["java", *options, "-cp", driver(version), main, *arguments],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    print(done.stderr)  # what the client had to say, beside a test that fails
    return [json.loads(line) for line in done.stdout.splitlines()]


def with_tokens(
    version: str, servers: str, topic: str, file: Path, seconds: int
) -> subprocess.Popen[str]:
    """``Tokens.java`` says what ``file`` holds, and what it prints: one line of JSON."""
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1")
    arguments = (servers, topic, str(file), str(seconds))
    return subprocess.Popen(
        ["java", *options, "-cp", driver(version), "foreign.Tokens", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )


def failover(
    version: str, servers: str, topic: str, name: str, pause_ms: int, metadata_age_ms: int
) -> subprocess.Popen[str]:
    """``Failover.java`` says what it does, what it prints, and that a line ends it."""
    options = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    arguments = (servers, topic, name, str(pause_ms), str(metadata_age_ms))
    return subprocess.Popen(
        ["java", *options, quiet, "-cp", driver(version), "foreign.Failover", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def word_count(
    version: str, servers: str, name: str, topics: tuple[str, str], folder: Path
) -> subprocess.Popen[str]:
    """``WordCount.java`` says what it does, what it prints, and that the end of its input ends it.
    ``name`` is the application's id, ``topics`` are those of lines and counts; its log is a file in
    ``folder``, where its state is."""
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    arguments = (servers, name, *topics, str(folder / "state"))
    classes = driver(version, "streams")
    with (folder / "streams.log").open("ab") as log:
        return subprocess.Popen(
            ["java", *options, quiet, "-cp", classes, "foreign.WordCount", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
