"""Runs that tasks count are those that Spark counts from rows (``reconcile/counts.py``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from generated_logs import GeneratedLog, generated_log

from tallymark import Admin, Producer
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.hashing import MASK
from tallymark_spark_jobs.counting.digests import digest_of_ranges
from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.reconcile.counts import cell_runs
from tallymark_spark_jobs.source.counted.rows import counted_rows
from tallymark_spark_jobs.source.options import SourceOptions
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.portions import PiecePortion
from tallymark_spark_jobs.source.reading import read_span
from tallymark_spark_jobs.source.rows import schema_of
from tallymark_spark_jobs.source.stamp_rows import stamp_rows

pytestmark = pytest.mark.spark
W = 1000
NAMES = (
    *("topic", "origin_partition", "window", "server", "instance", "aborted", "damaged"),
    *("first_sequence", "last_sequence", "messages", "extra", "bytes", "malformed"),
    *("first_partition", "last_partition", "first_offset", "last_offset"),
    *("min_timestamp", "max_timestamp"),
)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("tests", log, "local[2]") as session:
        yield session


def told(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What is compared of runs. Spark sums the halves of hashes, so these may be larger there."""
    found: list[tuple[Any, ...]] = []
    for row in rows:
        low, high = row.get("content_low"), row.get("content_high")
        content = None if low is None or high is None else low + (high << 32) & MASK
        copies = sorted(
            tuple(copy.values() if isinstance(copy, dict) else copy) for copy in row["copies"]
        )
        found.append((*(row[name] for name in NAMES), copies, row.get("block"), content))
    return sorted(found, key=repr)


@pytest.mark.parametrize("contents", [False, True])
def test_runs_of_tasks_are_the_runs_of_rows(spark: Any, contents: bool) -> None:
    """Sixty logs: gaps, copies, records of many producers mixed, stamps that cannot be read,
    aborted transactions, borders of windows. Spark divides as numbers of 53 bits, so it has other
    blocks of greater sequences."""
    runs = SourceOptions("unused:1", mode="runs", window_ms=W, include_content_hash=contents)
    stamps = replace(runs, mode="stamps")
    schema = schema_of(stamps)
    rows: list[Any] = []
    counted: list[dict[str, Any]] = []
    for seed in range(60):
        log = GeneratedLog(generated_log(1000 * contents + seed))
        span = Span(f"t{seed}", 3, 0, log.end)
        for pieces in read_span(log, span):
            assert isinstance(pieces, list)
            rows.append(stamp_rows(schema, span, PiecePortion(pieces)))
        for batch in counted_rows(runs, span, read_span(log, span)):
            counted += batch.to_pylist()
    frame = spark.createDataFrame(pa.Table.from_batches(rows, schema=schema))
    expected = [row.asDict() for row in cell_runs(frame, W).collect()]
    if contents:
        counted, expected = (
            [row for row in some if (row["last_sequence"] or 0) < 1 << 53]
            for some in (counted, expected)
        )
    assert len(expected) > 300
    assert told(counted) == told(expected)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``t`` with two partitions of 3,000 stamped records of two producers."""
    with BrokerThread(tmp_path_factory.mktemp("runs")) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t", 2)
        for server in ("web-1", "web-2"):
            with Producer(
                bootstrap_servers=broker.bootstrap_servers,
                audit=False,
                stamp=True,
                server=server,
                linger_ms=50,
            ) as producer:
                for n in range(3_000):
                    producer.send("t", b"v" * (n % 7), partition=n % 2, timestamp=10_000 + n)
        yield broker.bootstrap_servers


def load(spark: Any, servers: str, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": servers, "subscribe": "t", "windowMs": str(W), **options}
    return spark.read.format("tallymark").options(**given).load()


@pytest.mark.soak_cases("true")
@pytest.mark.parametrize("contents", ["false", "true"])
def test_the_source_gives_runs(spark: Any, servers: str, contents: str) -> None:
    given = {"includeContentHash": contents, "startingTimestamp": "10500"}
    rows = load(spark, servers, mode="runs", **given).collect()
    stamps = spark.read.format("tallymark").options(
        **{"kafka.bootstrap.servers": servers, "subscribe": "t", "mode": "stamps", **given}
    )
    expected = [row.asDict() for row in cell_runs(stamps.load(), W).collect()]
    assert told(row.asDict() for row in rows) == told(expected)
    assert sum(row["messages"] for row in rows) == 5_000


def test_cells_of_several_tasks_add_up(spark: Any, servers: str) -> None:
    """A cell that two spans share has two rows; their digests fold to that of the whole."""
    from pyspark.sql import functions as F

    frame = load(spark, servers, mode="cells", rowsPerPartition="700")
    assert frame.rdd.getNumPartitions() > 4
    keys = ["topic", "origin_partition", "window", "server", "instance"]
    cells = frame.groupBy(*keys).agg(
        F.sum("messages").alias("messages"),
        F.bit_xor("digest_xor").alias("xor"),
        F.sum("digest_low").alias("low"),
        F.sum("digest_high").alias("high"),
        F.min("first_sequence").alias("first"),
        F.max("last_sequence").alias("last"),
    )
    found = cells.collect()
    assert len(found) == 2 * 2 * 3
    for cell in found:
        key = CellKey(*(cell[name] for name in keys))
        digest = (cell.messages, cell.xor & MASK, cell.low + (cell.high << 32) & MASK)
        assert digest == digest_of_ranges(key, [(cell.first, cell["last"])])
