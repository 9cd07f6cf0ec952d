"""The compiled loops over runs with types."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tallymark.jit.kernel import Kernel
from tallymark.protocol.records.compiled.kernel import BYTES, TABLE, byte_array
from tallymark.protocol.records.compiled.primitives import is_utf8
from tallymark.protocol.schema import Buffer
from tallymark_audit.model import sketches
from tallymark_audit.model.compiled_runs import measure_loop, run_loop
from tallymark_audit.model.compiled_runs.layout import (
    BLOCK_FIELDS,
    CRC_TABLES,
    RUN_FIELDS,
    SKETCH_FIELDS,
)
from tallymark_audit.model.record_runs import MAX_TIMESTAMP, MIN_TIMESTAMP, Rules

if TYPE_CHECKING:
    from tallymark.protocol.records.compiled.kernel import IntArray

_GAMMA: Final = (1 + sketches.ACCURACY) / (1 - sketches.ACCURACY)
_SOURCES: Final = f"{BYTES}, {BYTES}, {TABLE}"
_RUNS: Final = f"{TABLE}, int64"

KERNEL: Final = Kernel(
    f"{__name__}:KERNEL",
    "counting records",
    functions={
        run_loop.cut_runs: (
            f"int64({_SOURCES}, int64, int64, {TABLE}, {TABLE}, int64, int64, int64)"
        ),
        run_loop.join_runs: f"int64({_SOURCES}, {_RUNS}, int64)",
        measure_loop.sketch_runs: f"int64({_RUNS}, {TABLE}, int64, {TABLE}, {TABLE})",
        measure_loop.hash_runs: f"int64({_SOURCES}, {_RUNS}, {TABLE}, {TABLE}, {TABLE})",
    },
    helpers=(
        is_utf8,
        run_loop.stamp_number,
        run_loop.is_server,
        run_loop.is_same,
        run_loop.is_within,
        run_loop.goes_on,
        run_loop.begin_run,
        run_loop.end_of_run,
        measure_loop.bucket_at,
        measure_loop.count_buckets,
        measure_loop.mix,
        measure_loop.crc32,
    ),
)


def run_table(records: int) -> IntArray:
    """A table of the runs of so many records."""
    return _table(records, RUN_FIELDS)


def sketch_table(records: int) -> IntArray:
    """A table of the sketches of so many records' runs."""
    return _table(records, SKETCH_FIELDS)


def block_table(records: int) -> IntArray:
    """A table of the blocks of so many records."""
    return _table(records, BLOCK_FIELDS)


def cut_runs(
    data: Buffer,
    scratch: Buffer,
    batches: IntArray,
    first: int,
    end: int,
    columns: IntArray,
    runs: IntArray,
    rules: Rules,
) -> int:
    """Write the runs of the batches from ``first`` to ``end``, excluded, whose records are in
    ``columns``: how many there are. Raises ValueError for tables that do not fit together."""
    times = (rules.window_ms, _within(rules.future), _within(rules.past))
    tables = (batches, first, end, columns, runs)
    return _checked(KERNEL["cut_runs"](byte_array(data), byte_array(scratch), *tables, *times))


def join_runs(
    data: Buffer, scratch: Buffer, batches: IntArray, runs: IntArray, found: int, seen_at: int
) -> int:
    """Join those of the ``found`` runs that continue each other over the ends of batches: how many
    are left."""
    loop = KERNEL["join_runs"]
    return _checked(loop(byte_array(data), byte_array(scratch), batches, runs, found, seen_at))


def sketch_runs(runs: IntArray, columns: IntArray, seen_at: int, found: IntArray) -> int:
    """Write the sketches of the runs to ``found``: how many rows there are."""
    loop = KERNEL["sketch_runs"]
    return _checked(loop(runs, len(runs), columns, seen_at, sketch_bounds(), found))


def hash_runs(
    data: Buffer,
    scratch: Buffer,
    batches: IntArray,
    runs: IntArray,
    columns: IntArray,
    found: IntArray,
) -> int:
    """Write the blocks of the runs to ``found``: how many rows there are."""
    sources, loop = (byte_array(data), byte_array(scratch), batches), KERNEL["hash_runs"]
    return _checked(loop(*sources, runs, len(runs), columns, crc_tables(), found))


@lru_cache(maxsize=1)
def sketch_bounds() -> IntArray:
    """The buckets of :mod:`tallymark_audit.model.sketches`: row 0 the greatest integer of each, row
    1 the bucket. Some of the first hold no integer."""
    import numpy as np

    buckets = [sketches.ZERO, *range(sketches.LAST + 1)]
    greatest = [*map(_greatest, buckets[:-1]), run_loop.MOST]
    return np.array([greatest, buckets], np.int64)


def _greatest(bucket: int) -> int:
    value = int(_GAMMA**bucket) if bucket > 0 else 1
    while sketches.bucket_of(value + 1) <= bucket:
        value += 1
    while value > 1 and sketches.bucket_of(value) > bucket:
        value -= 1
    return value


@lru_cache(maxsize=1)
def crc_tables() -> IntArray:
    """Row 0: the CRC-32 of each byte; each further row: the same with one zero byte more."""
    import numpy as np

    # zlib complements its register before and after: this shows the plain table.
    table = [zlib.crc32(bytes((byte,)), 0xFFFF_FFFF) ^ 0xFFFF_FFFF for byte in range(256)]
    rows = [table]
    for _ in range(CRC_TABLES - 1):
        rows.append([crc >> 8 ^ table[crc & 0xFF] for crc in rows[-1]])
    return np.array(rows, np.int64)


def _table(records: int, fields: int) -> IntArray:
    import numpy as np

    return np.empty((records, fields), np.int64)


def _checked(found: int) -> int:
    if found < 0:
        raise ValueError("these tables do not fit together")
    return found


def _within(time: int) -> int:
    """The time (ms), or the last or first one that there is."""
    return max(MIN_TIMESTAMP, min(MAX_TIMESTAMP, time))
