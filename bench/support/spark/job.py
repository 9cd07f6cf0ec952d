"""One row of ``bench/spark.py`` in a process of its own: its result as JSON on standard output.

``python job.py '{"work": "records", "servers": "host:port", "topic": "equal", "rounds": 3}'``.
Processor time is that of this process, of the Java machine and of all Python workers; the first
round, in which these start and load their code, is not among the others.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.spark.connector_jars import connector_jars
from support.spark.work import WITH_SPARK, WITHOUT_SPARK

_SETTLE_SECONDS: Final = 0.5


def main() -> None:
    job: dict[str, Any] = json.loads(sys.argv[1])
    name, where = job["work"], (job["servers"], job["topic"])
    work = WITH_SPARK.get(name) or WITHOUT_SPARK[name]
    with _session(name) as spark:
        rounds = [_round(lambda: work(spark, *where)) for _ in range(job["rounds"] + 1)]
        peak = _peak()
    seconds, processor = zip(*rounds, strict=True)
    told = {
        "first_seconds": seconds[0],
        "seconds": min(seconds[1:]),
        "first_cpu_seconds": processor[0],
        "cpu_seconds": min(processor[1:]),
        "peak_mb": peak / 1e6,
    }
    print(json.dumps(told))


@contextmanager
def _session(name: str) -> Iterator[Any]:
    if name not in WITH_SPARK:
        yield None
        return
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = ",".join(map(str, connector_jars())) if name == "Spark's connector" else ""
    with tempfile.TemporaryDirectory(prefix="tallymark-bench-") as folder:
        builder = SparkSession.builder.master("local[2]").appName("bench")
        settings = {
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.memory": "1g",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": folder,
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            **({"spark.jars": jars} if jars else {}),
        }
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


def _round(work: Any) -> tuple[float, float]:
    before, began = _cpu_seconds(), time.monotonic()
    work()
    seconds = time.monotonic() - began
    time.sleep(_SETTLE_SECONDS)  # workers that have ended are counted once their parent knows
    return seconds, _cpu_seconds() - before


def _cpu_seconds() -> float:
    """Of this process and all below it, those included that have ended."""
    total = 0.0
    root = psutil.Process()
    for each in [root, *root.children(recursive=True)]:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _peak() -> int:
    """Bytes of the largest Python process, at its peak."""
    peak = 0
    root = psutil.Process()
    for each in [root, *root.children(recursive=True)]:
        try:
            status = Path(f"/proc/{each.pid}/status").read_text(encoding="ascii")
            is_python = "python" in each.name()
        except (psutil.NoSuchProcess, OSError):
            continue
        lines = [line.split() for line in status.splitlines() if line.startswith("VmHWM")]
        if is_python and lines:  # one that has ended has none
            peak = max(peak, int(lines[0][1]) * 1024)
    return peak


if __name__ == "__main__":
    main()
