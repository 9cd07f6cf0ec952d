"""Shared code of the benchmarks: runs a client, measures a broker's CPU, prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, Protocol

import psutil

_CLIENTS: Final = Path(__file__).with_name("clients.py")
_BLOCK: Final = 8 * 1024 * 1024


class Served(Protocol):
    """What a client needs."""

    @property
    def bootstrap_servers(self) -> str: ...


class Running(Served, Protocol):
    """A broker process."""

    @property
    def pid(self) -> int: ...
    @property
    def data(self) -> Path: ...


def client(broker: Served, **job: Any) -> dict[str, float]:
    """Run one job of :mod:`clients` against ``broker``."""
    job = {"servers": broker.bootstrap_servers, **job}
    ended = subprocess.run(
        [sys.executable, str(_CLIENTS), json.dumps(job)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    if ended.returncode:
        raise RuntimeError(f"{job['job']} failed:\n{ended.stderr[-2000:]}")
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def measured(broker: Running, **job: Any) -> dict[str, float]:
    """:func:`client`, with ``cpu_seconds``: user and system time of the broker's processes."""
    before = cpu_seconds(broker.pid)
    result = client(broker, **job)
    return {**result, "cpu_seconds": cpu_seconds(broker.pid) - before}


def cpu_seconds(pid: int) -> float:
    """CPU that a process and its children have used so far."""
    root = psutil.Process(pid)
    times = [each.cpu_times() for each in [root, *root.children(recursive=True)]]
    return float(sum(each.user + each.system for each in times))


def rss_bytes(pid: int) -> int:
    """Memory that a process and its children occupy."""
    root = psutil.Process(pid)
    return sum(each.memory_info().rss for each in [root, *root.children(recursive=True)])


def log_bytes(data: Path, topic: str) -> int:
    """Bytes of the segments of a topic."""
    return sum(file.stat().st_size for file in data.glob(f"**/{topic}-*/*.log"))


def warm_page_cache(folder: Path, size: int) -> None:
    """Write and delete ``size`` bytes: on a virtual machine the first use of memory costs many
    times the second, and would count against the broker that runs first."""
    path = folder / "warm"
    block = bytes(_BLOCK)
    with path.open("wb", buffering=0) as file:
        for _ in range(size // _BLOCK):
            file.write(block)
    path.unlink()


def medians(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """The median of every number."""
    return {name: median(run[name] for run in runs) for name in runs[0]}


def table(rows: Sequence[Sequence[str]]) -> str:
    """The rows as a Markdown table; the first one is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """A description of the machine."""
    model = "?"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "cpus": os.cpu_count(),
        "cpu": model,
        "python": sys.version.split()[0],
        "load": round(os.getloadavg()[0], 2),
    }
