"""What the reconciliation costs: judging many cells in tasks, and whole runs over three clusters.

    export PYTHONPATH=tests/support/audit                 # tasks need it as well
    .venv/bin/python bench/reconcile.py cells [CELLS]     # a million made-up cells, 1,000 wrong
    .venv/bin/python bench/reconcile.py runs [MESSAGES [WINDOWS]]    # three brokers here
    .venv/bin/python bench/reconcile.py trusted [MESSAGES]    # 7 topics of 1,440 windows, loaded

Processor time is of driver, Java machine and Python workers together (brokers not counted).
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from tallying import DEPLOYMENT, W, claim_of, key_of, shared_of, tally_of

from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.reconcile.judging.groups import families
from tallymark_spark_jobs.reconcile.judging.in_tasks import judge_in_tasks, span_of
from tallymark_spark_jobs.reconcile.reading.claim_tasks import (
    SCHEMA,
    batches_of,
    claim_rows,
)
from tallymark_spark_jobs.reconcile.reading.count_tasks import rows_of, schema
from tallymark_spark_jobs.reconcile.shapes.period import Period

INSTANCES = 1_000
"""Producers, each with a cell in every window."""
WRONG = 1_000
"""One cell of so many lacks messages."""


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "cells"
    number = int(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(prefix="tallymark-bench-") as folder, ExitStack() as stack:
        if what == "cells":
            log = Path(folder) / "spark.log"
            spark = stack.enter_context(spark_session("bench", log, "local[2]"))
            cells(spark, number or 1_000_000)
        else:
            from support.reconcile_runs import runs  # brokers are started before Spark

            trusted = what == "trusted"
            windows = int(sys.argv[3]) if len(sys.argv) > 3 else 1_440 if trusted else 144
            topics = 7 if trusted else 1
            runs(stack, Path(folder), number or 300_000, windows, processor, topics, trusted)


def cells(spark: Any, number: int) -> None:
    """Judge made-up cells of one cluster; each claim and each tally comes out of a task."""
    from pyspark.sql.pandas.types import from_arrow_schema

    alone = DEPLOYMENT.model_copy(update={"clusters": DEPLOYMENT.clusters[:1], "mirrors": ()})
    claims = [claim_of("dc1", key_of(0, at), [(0, 9)]) for at in range(INSTANCES)]
    shared = shared_of(claims, alone)
    facts = replace(shared.facts, as_of=1 << 50, known={"dc1": {"t"}})
    shared = replace(shared, facts=facts, period=Period(None, 1 << 49))
    numbers = spark.range(0, number, 1, 8)
    counted = numbers.mapInArrow(_tallies, from_arrow_schema(schema()))
    claimed = numbers.mapInArrow(_claims, from_arrow_schema(SCHEMA))
    began, used = time.monotonic(), processor()
    span_ms = span_of(number, number // INSTANCES, W)
    family = families(["t"], shared.edges)
    judged = judge_in_tasks(counted, claimed, shared, family, span_ms)
    wrong = sum(len(one.cells) for one in judged.verdicts if one.missing)
    taken, cpu = time.monotonic() - began, processor() - used
    java = max((one.memory_info().rss for one in family_of() if "java" in one.name()), default=0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{number:,} cells, {wrong:,} wrong, {len(judged.verdicts):,} windows: {taken:.1f} s, "
        f"{cpu:.1f} CPU-s, driver {peak / 1024:.0f} MB, Java machine {java >> 20} MB"
    )


def _keyed(batches: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        for at in batch.column(0).to_pylist():
            yield at, key_of(at // INSTANCES * W, at % INSTANCES)


def _tallies(batches: Iterator[Any]) -> Iterator[Any]:
    some: list[Any] = []
    for at, key in _keyed(batches):
        held = [n for n in range(40) if n % 2] if at % WRONG == 7 else range(40)
        some.append(tally_of(key, held, 40 * at))
        if len(some) == 2_000:
            yield from rows_of("dc1", some)
            some = []
    yield from rows_of("dc1", some)


def _claims(batches: Iterator[Any]) -> Iterator[Any]:
    rows = (
        row
        for _, key in _keyed(batches)
        for one in [claim_of("dc1", key, [(0, 39)])]
        for row in claim_rows("dc1", {one.part: (1, one.claim)}, {one.part.reporter: "producer"})
    )
    yield from batches_of(rows)


def family_of() -> list[psutil.Process]:
    """This process and all below it."""
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def processor() -> float:
    """Seconds of processor of this process and all below it, those that ended too; without
    brokers."""
    total = 0.0
    for one in family_of():
        try:
            if "broker" in one.cmdline():
                continue
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


if __name__ == "__main__":
    main()
