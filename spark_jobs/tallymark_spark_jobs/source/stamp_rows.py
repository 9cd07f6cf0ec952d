"""Rows of ``mode=stamps``, column by column, without an object for each record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tallymark_audit.model.hashing import content_sums
from tallymark_spark_jobs.source import columns
from tallymark_spark_jobs.source.kinds import ABORTED, STAMPED
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.portions import Numbers, Portion
from tallymark_spark_jobs.source.record_rows import offset_column, partition_column, topic_column
from tallymark_spark_jobs.source.stamp_runs import StampRun


def stamp_rows(schema: Any, span: Span, portion: Portion) -> Any:
    """A record batch of those columns of :data:`~tallymark_spark_jobs.source.rows.STAMPS` that the
    schema has. ``size`` is the bytes of key and value, as claims count."""
    runs: list[StampRun] | None = None
    made: list[Any] = []
    for field in schema:
        if field.name in _OF_RECORDS:
            made.append(_OF_RECORDS[field.name](span, portion))
        else:
            runs = portion.stamp_runs() if runs is None else runs
            made.append(_OF_RUNS[field.name](runs, portion))
    return pa.RecordBatch.from_arrays(made, schema=schema)


def _kinds(runs: Sequence[StampRun], portion: Portion) -> Any:
    kinds = _each(runs, [run.kind for run in runs]).astype(np.int8)
    told = list(portion.of_batches())
    if any(aborted for _, _, aborted in told):
        aborted = np.repeat([flag for _, _, flag in told], [rows for rows, _, _ in told])
        kinds[aborted] = ABORTED
    return columns.numbers(kinds, pa.int8())


def _origins(runs: Sequence[StampRun], _: Portion) -> Any:
    origins = _each(runs, [run.origin for run in runs]).astype(np.int32)
    return columns.numbers(origins, pa.int32(), origins >= 0)


def _sequences(runs: Sequence[StampRun], _: Portion) -> Any:
    sequences, valid = _numbered(runs)
    return columns.numbers(sequences, pa.int64(), valid)


def _numbered(runs: Sequence[StampRun]) -> tuple[Numbers, Any]:
    """Each record's sequence, and whether it has one."""
    counts = np.array([run.rows for run in runs], np.int64)
    firsts = np.array([run.first for run in runs], np.int64) - (counts.cumsum() - counts)
    valid = np.repeat(np.array([run.kind == STAMPED for run in runs]), counts)
    sequences = np.repeat(firsts, counts) + np.arange(int(counts.sum()))
    return np.where(valid, sequences, 0), valid


def _contents(runs: Sequence[StampRun], portion: Portion) -> Any:
    keys, values = portion.keys(), portion.values()
    hashes = np.zeros(len(values), np.uint64)
    at = 0
    for run in runs:
        end = at + run.rows
        if run.kind == STAMPED:
            each = range(run.rows)
            hashes[at:end] = content_sums(run.first, keys[at:end], values[at:end], each)
        at = end
    _, valid = _numbered(runs)
    # 64 bits as Spark's bigint has them.
    return columns.numbers(hashes.view(np.int64), pa.int64(), valid)


def _each(runs: Sequence[StampRun], values: Sequence[int]) -> Numbers:
    return np.repeat(np.array(values, np.int64), [run.rows for run in runs])


_OF_RECORDS: Final[Mapping[str, Callable[[Span, Portion], Any]]] = {
    "topic": topic_column,
    "partition": partition_column,
    "offset": offset_column,
    "timestamp": lambda _, portion: columns.numbers(portion.timestamps(), pa.int64()),
    "size": lambda _, portion: columns.numbers(portion.sizes().astype(np.int32), pa.int32()),
}
_OF_RUNS: Final[Mapping[str, Callable[[Sequence[StampRun], Portion], Any]]] = {
    "stamped": _kinds,
    "server": lambda runs, _: columns.repeated([(run.server, run.rows) for run in runs]),
    "instance": lambda runs, _: columns.repeated([(run.instance, run.rows) for run in runs]),
    "origin_partition": _origins,
    "sequence": _sequences,
    "content": _contents,
}
