"""Counting with Spark against counting by hand in plain Python."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tallymark_audit.model.cells import window_of
from tallymark_audit.model.ranges import RangeSet
from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.reconcile.counts import COPIES_NAMED, cell_runs
from tallymark_spark_jobs.source.rows import STAMPS

pytestmark = pytest.mark.spark
W = 5_000


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("tests", Path(log), "local[2]") as session:
        yield session


def row(
    sequence: int | None,
    *,
    topic: str = "t",
    partition: int = 0,
    offset: int = 0,
    timestamp: int = 0,
    instance: str = "aa" * 8,
    stamped: int = 1,
    origin: int | None = None,
) -> dict[str, Any]:
    named = stamped == 1
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "size": 10,
        "stamped": stamped,
        "server": f"server-{instance[0]}" if named else "",
        "instance": instance if named else "",
        "origin_partition": (partition if origin is None else origin) if named else None,
        "sequence": sequence,
    }


def frame(spark: Any, rows: list[dict[str, Any]]) -> Any:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=STAMPS)).repartition(3)


Cell = tuple[str, int, int, str, str]


def by_hand(rows: list[dict[str, Any]]) -> dict[Cell, dict[str, Any]]:
    cells: dict[Cell, dict[str, Any]] = defaultdict(
        lambda: {"sequences": [], "messages": 0, "bytes": 0, "malformed": 0, "copies": set()}
    )
    seen: set[tuple[Cell, int]] = set()
    for one in sorted(rows, key=lambda one: (one["partition"], one["offset"])):
        origin = one["partition"] if one["origin_partition"] is None else one["origin_partition"]
        window = window_of(one["timestamp"], W)
        key = (one["topic"], origin, window, one["server"], one["instance"])
        cell, sequence = cells[key], one["sequence"]
        cell["messages"] += 1
        cell["bytes"] += one["size"]
        cell["malformed"] += one["stamped"] == -1
        if sequence is None:
            continue
        if (key, sequence) in seen:
            cell["copies"].add((one["partition"], one["offset"], sequence))
        seen.add((key, sequence))
        cell["sequences"].append(sequence)
    return cells


def by_spark(spark: Any, rows: list[dict[str, Any]]) -> dict[Cell, dict[str, Any]]:
    cells: dict[Cell, dict[str, Any]] = defaultdict(
        lambda: {"ranges": [], "messages": 0, "bytes": 0, "malformed": 0, "copies": set()}
    )
    for run in cell_runs(frame(spark, rows), W).collect():
        key = (run.topic, run.origin_partition, run.window, run.server, run.instance)
        cell = cells[key]
        for name in ("messages", "bytes", "malformed"):
            cell[name] += run[name]
        cell["copies"] |= {tuple(copy) for copy in run.copies}
        assert run.extra == len(run.copies)
        if run.first_sequence is not None:
            cell["ranges"].append((run.first_sequence, run.last_sequence))
    return cells


def test_counts_equal_the_count_by_hand(spark: Any) -> None:
    """Gaps, copies in the same and in another partition, rows without and with broken stamps,
    several windows (one before 1970), producers and topics, all shuffled."""
    rng = random.Random(7)
    rows: list[dict[str, Any]] = []
    offsets: dict[tuple[str, int], int] = defaultdict(int)

    def add(sequence: int | None, partition: int, **more: Any) -> None:
        place = (more.get("topic", "t"), partition)
        offsets[place] += rng.choice((1, 1, 1, 3))
        rows.append(row(sequence, partition=partition, offset=offsets[place], **more))

    for topic in ("t", "u"):
        for instance in ("aa" * 8, "bb" * 8):
            for partition in (0, 1):
                for sequence in range(60):
                    at = {"timestamp": sequence * 211 - 100, "topic": topic, "instance": instance}
                    if rng.random() < 0.1:
                        continue
                    add(sequence, partition, **at)
                    while rng.random() < 0.15:
                        add(sequence, rng.choice((0, 1)), origin=partition, **at)
        for number in range(20):
            add(None, number % 2, topic=topic, timestamp=number * 700, stamped=0)
            if number % 5 == 0:
                add(None, 0, topic=topic, timestamp=number * 700, stamped=-1)
    expected, counted = by_hand(rows), by_spark(spark, rows)
    assert counted.keys() == expected.keys()
    for key, cell in expected.items():
        got = counted[key]
        ranges = RangeSet.of(cell["sequences"])
        assert sorted(got["ranges"]) == list(ranges), key
        assert {k: got[k] for k in ("messages", "bytes", "malformed", "copies")} == {
            k: cell[k] for k in ("messages", "bytes", "malformed", "copies")
        }
    assert any(cell["copies"] for cell in expected.values())


def test_a_healthy_cell_is_one_run_with_its_offsets_and_times(spark: Any) -> None:
    rows = [row(n, offset=100 + n, timestamp=6_000 + n) for n in range(50)]
    (run,) = cell_runs(frame(spark, rows), W).collect()
    assert (run.first_sequence, run.last_sequence, run.messages, run.extra) == (0, 49, 50, 0)
    assert (run.first_offset, run.last_offset) == (100, 149)
    assert (run.min_timestamp, run.max_timestamp, run.window) == (6_000, 6_049, 5_000)
    assert (run.first_partition, run.last_partition, run.bytes) == (0, 0, 500)


def test_copies_are_counted_exactly_and_named_up_to_a_bound(spark: Any) -> None:
    rows = [row(n % 2, offset=n) for n in range(COPIES_NAMED + 50)]
    (run,) = cell_runs(frame(spark, rows), W).collect()
    assert run.extra == COPIES_NAMED + 48
    assert len(run.copies) == COPIES_NAMED
