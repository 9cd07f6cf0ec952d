"""One log, counted in each way that there is: the rows have to be the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Literal

import pytest
from generated_logs import GeneratedLog
from hostile_fetches import hostile_fetch

from tallymark.protocol.records.compiled import kernel as records
from tallymark_spark_jobs.counting.compiled import kernel as strips
from tallymark_spark_jobs.counting.compiled.strip_loop import cut_strips
from tallymark_spark_jobs.source import tables
from tallymark_spark_jobs.source.counted.rows import counted_rows
from tallymark_spark_jobs.source.kinds import STAMPED
from tallymark_spark_jobs.source.options import SourceOptions
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.reading import read_tables
from tallymark_spark_jobs.source.tables import TableReader

Way = Literal["pure", "numpy", "compiled", "python"]
"""No compiled loop; strips are cut with numpy; by the compiled loop; by the loop as Python."""
WAYS: tuple[Way, ...] = ("pure", "numpy", "compiled", "python")
READER = TableReader()


def warm() -> None:
    """Wait for the compiled loops."""
    records.warm()
    strips.KERNEL.warm()
    assert records.KERNEL.wait(250)
    assert strips.KERNEL.wait(250)


def rows_of(
    options: SourceOptions, log: GeneratedLog, way: Way, start: int = 0
) -> list[dict[str, Any]]:
    """The rows, sorted."""
    span = Span("t", 3, start, max(start, log.end))
    with _counted(way):
        read = read_tables(log, span, READER, passes=True)
        batches = counted_rows(options, span, read)
        found = [_without_times(row) for batch in batches for row in batch.to_pylist()]
    return sorted(found, key=repr)


def _without_times(row: dict[str, Any]) -> dict[str, Any]:
    """The times around damage are those of batches, the empty ones of which no table has."""
    if row["kind"] == STAMPED:
        return row
    times = ("window", "min_timestamp", "max_timestamp")
    told = {name: value for name, value in row.items() if name not in times}
    return told | {"instance": row["instance"].partition(":")[0]}


@contextmanager
def _counted(way: Way) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_FEW_BYTES", 0)
        if way == "pure":
            patch.setattr(records, "ready", lambda: False)
        if way == "numpy":
            patch.setattr(strips.KERNEL, "_compiled", None)
            patch.setattr(strips.KERNEL, "warm", lambda: None)
        if way == "python":
            patch.setattr(strips, "byte_array", bytes)  # numbers of eight bits would not add up
            patch.setattr(strips.KERNEL, "_compiled", {"cut_strips": cut_strips})
        yield


def hostile_log(random: Random) -> tuple[GeneratedLog, int]:
    """Batches as nobody should make them, and the offset from which on they are read."""
    fetched, start = hostile_fetch(random)
    left_out = {id(batch) for batch in fetched.left_out}
    both = [(batch, id(batch) in left_out) for batch in (*fetched.batches, *fetched.left_out)]
    both.sort(key=lambda one: one[0].header.base_offset)
    return GeneratedLog(both, random.choice((1, 3, 100))), start
