"""Compares a long log with a short one: the same work on a partition of 1 GB and of many GB.

    python bench/large_log.py [--gb 20] [--against-kafka]

Appends until the partition has that many gigabytes. At 1 GB and at the end it measures producing,
reading the newest messages, and reading from offsets all over the log, the same amount each time.
The last one measures the disk where the log is larger than the page cache.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from support.apache_kafka import apache_kafka
from support.measure import Running, client, log_bytes, measured, table, warm_page_cache
from support.own_broker import OwnBroker

_GB: Final = 1_000_000_000
_PART: Final = 250_000
"""Messages of 1,000 bytes in one measurement."""
_ROUNDS: Final = 3
_UNITS: Final = ("MB/s", "us CPU/msg")
_WORK: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("produce", "produce", {"batch": 500}),
    ("read the end", "consume", {"fetch_bytes": 200_000, "tail": True}),
    ("read all over", "scatter", {"fetch_bytes": 1_000_000}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gb", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="where data is written")
    parser.add_argument("--against-kafka", action="store_true", help="Apache Kafka instead")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="tallymark-bench-") as name:
        scratch = Path(name)
        free = shutil.disk_usage(scratch).free
        needed = (args.gb + 3) * _GB
        if free < needed:
            raise SystemExit(
                f"{needed / _GB:.0f} GB are needed below {scratch}, {free / _GB:.0f} are free"
            )
        broker = apache_kafka(scratch / "b") if args.against_kafka else OwnBroker(scratch / "b")
        with broker:
            client(broker, job="make", topic="large")
            rows = [("log", *(f"{name} {unit}" for name, _, _ in _WORK for unit in _UNITS))]
            for size in (1, args.gb):
                _fill(broker, size)
                rows.append(_measure(broker, scratch))
            print(table(rows))


def _fill(broker: Running, gigabytes: int) -> None:
    while (missing := gigabytes * _GB - log_bytes(broker.data, "large")) > 0:
        count = max(1, min(missing, _GB) // 1000 // 500) * 500
        client(
            broker, job="produce", driver="frames", topic="large", count=count, size=1000, batch=500
        )


def _measure(broker: Running, scratch: Path) -> tuple[str, ...]:
    log_gb = log_bytes(broker.data, "large") / _GB
    cells = [f"{log_gb:.1f} GB"]
    for _, job, options in _WORK:
        runs: list[dict[str, float]] = []
        for _ in range(_ROUNDS):
            warm_page_cache(scratch, _GB // 2)
            runs.append(
                measured(
                    broker,
                    job=job,
                    driver="frames",
                    topic="large",
                    count=_PART,
                    size=1000,
                    **options,
                )
            )
        speed = sorted(run["messages"] / run["seconds"] / 1000 for run in runs)[_ROUNDS // 2]
        cpu = sorted(1e6 * run["cpu_seconds"] / run["messages"] for run in runs)[_ROUNDS // 2]
        cells += [f"{speed:,.0f}", f"{cpu:.2f}"]
    return tuple(cells)


if __name__ == "__main__":
    main()
