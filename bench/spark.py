"""What reading with Spark costs: records a second of wall time, and of processor time.

    python bench/spark.py [--records 1000000] [--rounds 3] [--layouts equal,sizes,mixed]
                          [--work "records,stamps"] [--json FILE]

A broker of ours in a process of its own, which is not counted; stamped records in 8 partitions, in
three layouts (see support/spark/logs.py). Each row is a process of its own with ``local[2]``
(support/spark/work.py has the rows): the best of the rounds after the first one, in which the Java
machine and the Python workers start. Processor time is that of the driver, the Java machine and
the Python workers together. ``peak`` is the largest of the Python processes. Beside it Spark's own
connector, where Maven can get it, and confluent-kafka in one process. ``TALLYMARK_JIT=0`` shows the
pure path.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from support.measure import machine, table
from support.own_broker import OwnBroker
from support.spark.connector_jars import connector_jars
from support.spark.logs import LAYOUTS, fill
from support.spark.work import WITH_SPARK, WITHOUT_SPARK

from tallymark.errors import UserError

_JOB: Final = Path(__file__).parent / "support" / "spark" / "job.py"
_SECONDS: Final = 3_600


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000, help="in each layout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--work", default=",".join([*WITH_SPARK, *WITHOUT_SPARK]))
    parser.add_argument("--folder", type=Path, help="where the broker's data is written")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    works = _possible(args.work.split(","))
    found: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(dir=args.folder, prefix="tallymark-bench-") as folder,
        OwnBroker(Path(folder)) as broker,
    ):
        for layout in args.layouts.split(","):
            count = fill(broker.bootstrap_servers, layout, args.records)
            for work in works:
                told = _measured(work, broker.bootstrap_servers, layout, args.rounds)
                found.append({"layout": layout, "work": work, "records": count, **told})
                print(_line(found[-1]), file=sys.stderr)
    print(table([("layout", "work", *_COLUMNS), *map(_row, found)]))
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "rows": found}, indent=1))


def _possible(works: list[str]) -> list[str]:
    known = {**WITH_SPARK, **WITHOUT_SPARK}
    unknown = [work for work in works if work not in known]
    if unknown:
        raise SystemExit(f"there is no {', '.join(unknown)}, but {', '.join(known)}")
    if "Spark's connector" in works:
        try:
            connector_jars()
        except UserError as error:
            print(f"without Spark's connector: {error}", file=sys.stderr)
            works = [work for work in works if work != "Spark's connector"]
    return works


def _measured(work: str, servers: str, layout: str, rounds: int) -> dict[str, float]:
    job = {"work": work, "servers": servers, "topic": layout, "rounds": rounds}
    ended = subprocess.run(
        [sys.executable, str(_JOB), json.dumps(job)],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    if ended.returncode:
        raise SystemExit(f"{work}, {layout} failed:\n{ended.stderr[:3000]}")
    told: dict[str, float] = json.loads(ended.stdout.strip().splitlines()[-1])
    return told


_COLUMNS: Final = ("M records/s", "M records/CPU-s", "first round, CPU-s", "peak, MB")


def _row(told: dict[str, Any]) -> tuple[str, ...]:
    millions = told["records"] / 1e6
    return (
        told["layout"],
        told["work"],
        f"{millions / told['seconds']:.2f}",
        f"{millions / told['cpu_seconds']:.2f}",
        f"{told['first_cpu_seconds']:.1f}",
        f"{told['peak_mb']:.0f}",
    )


def _line(told: dict[str, Any]) -> str:
    return ", ".join(_row(told))


if __name__ == "__main__":
    main()
