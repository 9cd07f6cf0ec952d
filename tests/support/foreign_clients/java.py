"""The Java client, kafka-clients from Maven Central: one run of its driver for everything.

``deploy/ensure-java-clients`` builds the driver (tests/foreign/java) for each version into a cache
folder; a test asks here whether what is there is of today's sources.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from project import ROOT

VERSIONS: Final = ("3.9.1", "4.1.0")
"""Of kafka-clients; deploy/ensure-java-clients builds the same."""

_TIMEOUT: Final = 90.0


def driver(version: str) -> str:
    """The class path of the driver with this version of the client; skips where it is not built."""
    home = Path(os.environ.get("TALLYMARK_CACHE") or Path.home() / ".cache/tallymark")
    folder = home / "java-clients" / version
    if not is_built(version):
        pytest.skip(f"the Java client {version} is not built here: deploy/ensure-java-clients")
    return f"{folder}/classes:{folder}/lib/*"


def is_built(version: str) -> bool:
    """Whether the driver of today's sources is there with this version of the client."""
    command = [str(ROOT / "deploy/ensure-java-clients"), "--built", version]
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
    version: str, servers: str, topic: str, name: str, pause_ms: int
) -> subprocess.Popen[str]:
    """``Failover.java`` says what it does, what it prints, and that a line ends it."""
    options = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    arguments = (servers, topic, name, str(pause_ms))
    return subprocess.Popen(
        ["java", *options, quiet, "-cp", driver(version), "foreign.Failover", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
