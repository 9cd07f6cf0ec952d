"""From the columns of a fetch's records to its runs: the loop that is compiled.

Uncompiled it is plain Python that says the same, slowly, which tests use. A run is what
:func:`tallymark_audit.model.record_runs.runs_of_columns` says it is; the reference is there, the
layout of a stamp in :mod:`tallymark.client.producing.stamps`.

Every position is compared with the end of its buffer before a byte is read, also where the caller's
tables are wrong: then the loops return -1.
"""

from __future__ import annotations

from typing import Any, Final

from tallymark.protocol.records.compiled.layout import (
    BATCH_FIELDS,
    BREAK,
    COLUMNS,
    ROW,
    ROWS,
    SCRATCH,
    SIZE,
    TIMESTAMP,
    WHOLE,
)
from tallymark.protocol.records.compiled.layout import OFFSET as RECORD_OFFSET
from tallymark.protocol.records.compiled.layout import STAMP as RECORD_STAMP
from tallymark.protocol.records.compiled.layout import STAMP_SIZE as RECORD_STAMP_SIZE
from tallymark.protocol.records.compiled.primitives import is_utf8
from tallymark_audit.model.compiled_runs.layout import (
    BATCH,
    BYTES,
    COUNT,
    EARLIEST,
    FIRST_ROW,
    LATEST,
    NUMBER,
    OFFSET,
    PARTITION,
    RUN_FIELDS,
    SEQUENCE,
    SERVER,
    SKEWED,
    STAMP,
    STAMP_SIZE,
    WINDOW,
)

MOST: Final = 0x7FFF_FFFF_FFFF_FFFF
LEAST: Final = -MOST - 1
_VERSION: Final = 1
_IDENTITY: Final = 9  # version and instance
_SHORTEST_STAMP: Final = 11
_LONGEST_NUMBER: Final = 9
_MAX_PARTITION: Final = 0x7FFF_FFFF
_MAX_SERVER: Final = 255


def cut_runs(
    data: Any,
    scratch: Any,
    batches: Any,
    first: int,
    end: int,
    columns: Any,
    runs: Any,
    window_ms: int,
    future: int,
    past: int,
) -> int:
    """The runs of the batches from ``first`` to ``end``, excluded, whose records are in
    ``columns``: how many there are; -1: the tables do not fit together. A run ends where its batch
    does. Records stamped after ``future`` or before ``past`` (ms) are skewed."""
    if (
        batches.shape[1] < BATCH_FIELDS
        or columns.shape[0] < COLUMNS
        or runs.shape[1] < RUN_FIELDS
        or runs.shape[0] < columns.shape[1]
        or first < 0
        or end > batches.shape[0]
        or window_ms < 1
    ):
        return -1
    found = 0
    for number in range(first, end):
        row, rows = batches[number, ROW], batches[number, ROWS]
        if batches[number, BREAK] != WHOLE or rows == 0:
            continue
        if row < 0 or rows < 0 or rows > columns.shape[1] - row or found + rows > runs.shape[0]:
            return -1
        source = scratch if batches[number, SCRATCH] else data
        stop = row + rows
        while row < stop:
            run = runs[found]
            if not begin_run(source, columns, row, window_ms, run):
                return -1
            run[BATCH] = number
            row = end_of_run(source, columns, row, stop, window_ms, future, past, run)
            if row < 0:
                return -1
            found += 1
    return found


def begin_run(source: Any, columns: Any, row: int, window_ms: int, run: Any) -> bool:
    """Write what the first record of a run says; whether its stamp is within ``source``."""
    stamp, size = columns[RECORD_STAMP, row], columns[RECORD_STAMP_SIZE, row]
    if size > 0 and (stamp < 0 or size > len(source) - stamp):
        return False
    at = columns[TIMESTAMP, row]
    run[FIRST_ROW] = row
    run[OFFSET] = columns[RECORD_OFFSET, row]
    run[WINDOW] = at - at % window_ms if at >= 0 else -window_ms
    run[STAMP] = stamp
    run[STAMP_SIZE] = size
    run[SERVER] = -1
    run[NUMBER] = -1
    run[PARTITION] = -1
    run[SEQUENCE] = -1
    if size < _SHORTEST_STAMP or source[stamp] != _VERSION:
        return True
    partition, number = stamp_number(source, stamp + _IDENTITY, stamp + size)
    if number < 0 or partition > _MAX_PARTITION:
        return True
    sequence, server = stamp_number(source, number, stamp + size)
    if server < 0 or not is_server(source, server, stamp + size):
        return True
    run[SERVER] = server
    run[NUMBER] = number
    run[PARTITION] = partition
    run[SEQUENCE] = sequence
    return True


def end_of_run(
    source: Any,
    columns: Any,
    row: int,
    stop: int,
    window_ms: int,
    future: int,
    past: int,
    run: Any,
) -> int:
    """Add the records that continue the run that begins at ``row``: the row after them, ``stop`` at
    the latest; -1: a stamp is not within ``source``."""
    window = run[WINDOW]
    low = window if window >= 0 else LEAST
    high = MOST if window > MOST - window_ms else window + window_ms - 1
    begin, offset = row, run[OFFSET]
    earliest = latest = columns[TIMESTAMP, row]
    size = skewed = 0
    while True:
        at = columns[TIMESTAMP, row]
        earliest, latest = min(earliest, at), max(latest, at)
        if at > future or 0 <= at < past:
            skewed += 1
        size += columns[SIZE, row]
        row += 1
        if row == stop:
            break
        at = columns[TIMESTAMP, row]
        if at < low or at > high:
            break
        before, offset = offset, columns[RECORD_OFFSET, row]
        if before == MOST or offset != before + 1:
            break
        stamp, length = columns[RECORD_STAMP, row], columns[RECORD_STAMP_SIZE, row]
        if length > 0 and (stamp < 0 or length > len(source) - stamp):
            return -1
        if not goes_on(source, run, row - begin, stamp, length):
            break
    run[COUNT] = row - begin
    run[BYTES] = size
    run[EARLIEST] = earliest
    run[LATEST] = latest
    run[SKEWED] = skewed
    return row


def goes_on(source: Any, run: Any, ahead: int, stamp: int, size: int) -> bool:
    """Whether a stamp of ``size`` bytes continues a run ``ahead`` records after its first. The
    stamps of both are within ``source``."""
    first = run[STAMP]
    if run[SERVER] < 0:
        return size == run[STAMP_SIZE] and (size <= 0 or is_same(source, first, stamp, size))
    head = run[NUMBER] - first
    if size <= head or not is_same(source, first, stamp, head):
        return False
    sequence, server = stamp_number(source, stamp + head, stamp + size)
    name = first + run[STAMP_SIZE] - run[SERVER]
    return (
        server >= 0
        and sequence - run[SEQUENCE] == ahead
        and stamp + size - server == name
        and is_same(source, run[SERVER], server, name)
    )


def join_runs(data: Any, scratch: Any, batches: Any, runs: Any, found: int, seen_at: int) -> int:
    """Put runs that continue each other over the ends of batches together, in place: how many runs
    are left; -1: the tables do not fit together. What is decided for each run as a whole decides
    the same for both parts: neither has a skewed record, nor one from after ``seen_at`` (ms)."""
    if found > runs.shape[0] or runs.shape[1] < RUN_FIELDS or batches.shape[1] < BATCH_FIELDS:
        return -1
    kept = 0
    for at in range(1, found):
        run, more = runs[kept], runs[at]
        if run[BATCH] < 0 or more[BATCH] >= batches.shape[0] or run[BATCH] > more[BATCH]:
            return -1
        is_scratch = batches[run[BATCH], SCRATCH]
        source = scratch if is_scratch else data
        ahead = run[COUNT]
        if (
            is_scratch == batches[more[BATCH], SCRATCH]
            and run[WINDOW] == more[WINDOW]
            and more[FIRST_ROW] - run[FIRST_ROW] == ahead
            and more[OFFSET] >= ahead  # so that there is a difference
            and more[OFFSET] - ahead == run[OFFSET]
            and run[SKEWED] == 0
            and more[SKEWED] == 0
            and (seen_at < 0 or max(run[LATEST], more[LATEST]) <= seen_at)
            and is_within(source, run)
            and is_within(source, more)
            and goes_on(source, run, ahead, more[STAMP], more[STAMP_SIZE])
        ):
            run[COUNT] += more[COUNT]
            run[BYTES] += more[BYTES]
            run[EARLIEST] = min(run[EARLIEST], more[EARLIEST])
            run[LATEST] = max(run[LATEST], more[LATEST])
        else:
            kept += 1
            runs[kept] = more
    return min(found, kept + 1)


def is_within(source: Any, run: Any) -> bool:
    """Whether the stamp of a run is within the buffer, and its parts are within the stamp."""
    stamp, size = run[STAMP], run[STAMP_SIZE]
    if size <= 0:
        return bool(run[SERVER] < 0)
    if stamp < 0 or size > len(source) - stamp:
        return False
    return bool(run[SERVER] < 0 or stamp < run[NUMBER] < run[SERVER] <= stamp + size)


def stamp_number(data: Any, pos: int, stop: int) -> tuple[int, int]:
    """The number at ``pos`` of a stamp that ends at ``stop``, and the position after it; -1 where
    it is cut short, longer than 9 bytes, or in more bytes than it needs."""
    value = shift = 0
    last = min(stop, pos + _LONGEST_NUMBER)
    at = pos
    while at < last:
        byte = data[at] & 0x7F
        value |= byte << shift
        if byte == data[at]:
            if byte == 0 and at > pos:
                return 0, -1
            return value, at + 1
        at += 1
        shift += 7
    return 0, -1


def is_server(data: Any, pos: int, end: int) -> bool:
    """Whether the bytes are the name of a server: UTF-8 without NUL, not too long."""
    if end - pos > _MAX_SERVER:
        return False
    for at in range(pos, end):
        if data[at] == 0:
            return False
    return is_utf8(data, pos, end)


def is_same(data: Any, one: int, other: int, size: int) -> bool:
    """Whether so many bytes at two positions are the same."""
    for at in range(size):
        if data[one + at] != data[other + at]:
            return False
    return True
