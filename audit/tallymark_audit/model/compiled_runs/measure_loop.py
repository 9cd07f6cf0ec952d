"""How late the records of runs were, and the hashes of their contents: the loops that are compiled.

They do what :mod:`tallymark_audit.model.sketches` and :mod:`tallymark_audit.model.hashing` do, the
references.
"""

from __future__ import annotations

from typing import Any, Final

from tallymark.protocol.records.compiled.layout import (
    BATCH_FIELDS,
    COLUMNS,
    KEY,
    KEY_SIZE,
    SCRATCH,
    TIMESTAMP,
    VALUE,
    VALUE_SIZE,
)
from tallymark_audit.model.compiled_runs.layout import (
    BATCH,
    BLOCK,
    BLOCK_FIELDS,
    BLOCKS,
    COUNT,
    CRC_TABLES,
    EARLIEST,
    FIRST_ROW,
    LATEST,
    RUN_FIELDS,
    SEQUENCE,
    SERVER,
    SKETCH,
    SKETCH_FIELDS,
    SKETCHES,
)
from tallymark_audit.model.compiled_runs.run_loop import MOST
from tallymark_audit.model.hashing import BLOCK as BLOCK_SIZE

_NULL: Final = 0x6E756C6C
_BITS_32: Final = 0xFFFF_FFFF
_BYTE: Final = 0xFF
# The constants of splitmix64, as signed numbers: products of 64 bits overflow on purpose.
_STEP: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST_FACTOR: Final = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND_FACTOR: Final = 0x94D049BB133111EB - (1 << 64)


def sketch_runs(
    runs: Any, found: int, columns: Any, seen_at: int, bounds: Any, sketches: Any
) -> int:
    """Write the sketch of each run: how long before ``seen_at`` (ms) its records were stamped.
    ``bounds``: row 0 has the greatest value of each bucket, rising; row 1 the bucket. -1: the
    tables do not fit together."""
    if (
        found > runs.shape[0]
        or runs.shape[1] < RUN_FIELDS
        or columns.shape[0] < COLUMNS
        or sketches.shape[0] < columns.shape[1]
        or sketches.shape[1] < SKETCH_FIELDS
        or bounds.shape[0] < 2
        or bounds.shape[1] < 1
    ):
        return -1
    used = 0
    for at in range(found):
        run = runs[at]
        run[SKETCH], run[SKETCHES] = used, 0
        if seen_at < 0 or run[EARLIEST] < 0:
            continue
        row = run[FIRST_ROW]
        # Compared before it is added: compiled sums that overflow may be left out of a comparison.
        if row < 0 or run[COUNT] < 1 or run[COUNT] > columns.shape[1] - row:
            return -1
        stop = row + run[COUNT]
        if run[COUNT] > sketches.shape[0] - used:
            return -1
        slowest = bucket_at(bounds, seen_at - run[EARLIEST])
        if slowest == bucket_at(bounds, seen_at - run[LATEST]):
            sketches[used, 0], sketches[used, 1] = bounds[1, slowest], run[COUNT]
            used += 1
        else:
            used = count_buckets(columns, row, stop, seen_at, bounds, sketches, used)
        run[SKETCHES] = used - run[SKETCH]
    return used


def count_buckets(
    columns: Any, row: int, stop: int, seen_at: int, bounds: Any, sketches: Any, used: int
) -> int:
    """Count the records of one run by their buckets: where the rows written from ``used`` on end.
    Neighbours are mostly of one bucket."""
    first = used
    last = -1
    for at in range(row, stop):
        bucket = bounds[1, bucket_at(bounds, seen_at - columns[TIMESTAMP, at])]
        if last < 0 or sketches[last, 0] != bucket:
            last = first
            while last < used and sketches[last, 0] != bucket:
                last += 1
            if last == used:
                sketches[used, 0], sketches[used, 1] = bucket, 0
                used += 1
        sketches[last, 1] += 1
    return used


def bucket_at(bounds: Any, value: int) -> int:
    """The place in ``bounds`` of the first that is not less than the value; at most the last."""
    low, high = 0, bounds.shape[1] - 1
    while low < high:
        middle = (low + high) >> 1
        if value <= bounds[0, middle]:
            high = middle
        else:
            low = middle + 1
    return low


def hash_runs(
    data: Any,
    scratch: Any,
    batches: Any,
    runs: Any,
    found: int,
    columns: Any,
    tables: Any,
    blocks: Any,
) -> int:
    """Write the blocks of each stamped run. ``tables`` are those of :func:`crc32`. -1: the tables
    do not fit together, or a key or a value is not within its buffer."""
    if (
        found > runs.shape[0]
        or runs.shape[1] < RUN_FIELDS
        or columns.shape[0] < COLUMNS
        or batches.shape[1] < BATCH_FIELDS
        or blocks.shape[0] < columns.shape[1]
        or blocks.shape[1] < BLOCK_FIELDS
        or tables.shape[0] < CRC_TABLES
        or tables.shape[1] <= _BYTE
    ):
        return -1
    used = 0
    for at in range(found):
        run = runs[at]
        run[BLOCK], run[BLOCKS] = used, 0
        if run[SERVER] < 0:
            continue
        row, sequence = run[FIRST_ROW], run[SEQUENCE]
        # Compared before it is added: compiled sums that overflow may be left out of a comparison.
        if row < 0 or run[COUNT] < 1 or run[COUNT] > columns.shape[1] - row:
            return -1
        stop = row + run[COUNT]
        if run[COUNT] > blocks.shape[0] - used:
            return -1
        if run[BATCH] < 0 or run[BATCH] >= batches.shape[0]:
            return -1
        source = scratch if batches[run[BATCH], SCRATCH] else data
        block = -1
        for place in range(row, stop):
            if block < 0 or sequence % BLOCK_SIZE == 0:
                block = used
                blocks[block, 0] = sequence // BLOCK_SIZE
                blocks[block, 1] = blocks[block, 2] = 0
                used += 1
            key, key_size = columns[KEY, place], columns[KEY_SIZE, place]
            value, value_size = columns[VALUE, place], columns[VALUE_SIZE, place]
            if key_size > 0 and (key < 0 or key_size > len(source) - key):
                return -1
            if value_size > 0 and (value < 0 or value_size > len(source) - value):
                return -1
            low, high = _NULL, 0
            if value_size >= 0:
                low = crc32(tables, source, value, value_size, 0)
            if key_size >= 0:
                high = crc32(tables, source, key, key_size, (key_size + 1) & _BITS_32)
            blocks[block, 1] += 1
            blocks[block, 2] += mix(mix(sequence) ^ (high << 32 | low))
            sequence += 1
        run[BLOCKS] = used - run[BLOCK]
    return used


def mix(number: int) -> int:
    """:func:`tallymark_audit.model.hashing.mix`, of and to a signed number of 64 bits."""
    z = number + _STEP
    z = (z ^ ((z >> 30) & (MOST >> 29))) * _FIRST_FACTOR
    z = (z ^ ((z >> 27) & (MOST >> 26))) * _SECOND_FACTOR
    return z ^ ((z >> 31) & (MOST >> 30))


def crc32(tables: Any, data: Any, pos: int, size: int, crc: int) -> int:
    """``zlib.crc32`` of so many bytes, continued from ``crc``: eight bytes at a time, with a table
    for each ("slicing by 8": Kounavis and Berry, ISCC 2005)."""
    crc ^= _BITS_32
    end = pos + size
    while end - pos >= 8:
        low = crc ^ (data[pos] | data[pos + 1] << 8 | data[pos + 2] << 16 | data[pos + 3] << 24)
        crc = (
            tables[7, low & _BYTE]
            ^ tables[6, low >> 8 & _BYTE]
            ^ tables[5, low >> 16 & _BYTE]
            ^ tables[4, low >> 24 & _BYTE]
            ^ tables[3, data[pos + 4]]
            ^ tables[2, data[pos + 5]]
            ^ tables[1, data[pos + 6]]
            ^ tables[0, data[pos + 7]]
        )
        pos += 8
    while pos < end:
        crc = crc >> 8 ^ tables[0, (crc ^ data[pos]) & _BYTE]
        pos += 1
    return crc ^ _BITS_32
