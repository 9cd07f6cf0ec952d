"""From the bytes of many batches to the columns of their records: the loop that is compiled.

Uncompiled it is plain Python that says the same, slowly, which tests use. So it has integers,
buffers and tables only, and each position is compared with the end of its record before a byte is
read: compiled code checks no index itself.

It refuses what :class:`~tallymark.protocol.records.columns.RecordColumns` refuses: after a break
the batch is read again by that, which raises the error with its text. A record is drawn in
:mod:`tallymark.protocol.records.writer`, the tables in
:mod:`~tallymark.protocol.records.compiled.layout`.
"""

from __future__ import annotations

from typing import Any, Final

from tallymark.protocol.records.compiled.layout import (
    ATTRIBUTES,
    BAD_END,
    BAD_HEADER_KEY,
    BAD_HEADERS,
    BAD_KEY,
    BAD_NUMBER,
    BAD_VALUE,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BATCH_FIELDS,
    BEYOND_64_BITS,
    BREAK,
    BREAK_AT,
    BYTES_LEFT,
    COLUMNS,
    COUNT,
    END,
    HEADERS,
    KEY,
    KEY_SIZE,
    LAST_OFFSET,
    MAX_TIMESTAMP,
    OFFSET,
    OFFSET_OUTSIDE,
    OUTSIDE,
    RECORD,
    ROW,
    ROWS,
    RUNS_OVER,
    SCRATCH,
    SIZE,
    STAMP,
    STAMP_SIZE,
    START,
    TIMESTAMP,
    TOO_MANY,
    VALUE,
    VALUE_SIZE,
    WHOLE,
)
from tallymark.protocol.records.compiled.primitives import is_utf8, no_room, varint

_SMALLEST_RECORD: Final = 7
_LOG_APPEND_TIME: Final = 0x08
_T: Final = 0x74
_M: Final = 0x6D


def read_batches(data: Any, scratch: Any, batches: Any, first: int, columns: Any) -> int:
    """The records of the ``batches`` from ``first`` on, until ``columns`` has no room for all of a
    further batch: the number of the batch that was not read, or how many batches there are. -1: the
    tables are too narrow, or ``first`` is negative.

    A broken batch has no rows; those after it are read.
    """
    if batches.shape[1] < BATCH_FIELDS or columns.shape[0] < COLUMNS or first < 0:
        return -1
    row = 0
    room = columns.shape[1]
    number_of_batches: int = batches.shape[0]
    for number in range(first, number_of_batches):
        count = batches[number, COUNT]
        start, end = batches[number, START], batches[number, END]
        source = scratch if batches[number, SCRATCH] else data
        batches[number, ROW] = row
        batches[number, ROWS] = 0
        batches[number, BREAK_AT] = start
        if start < 0 or start > end or end > len(source):
            batches[number, BREAK] = OUTSIDE
            continue
        if count > (end - start) // _SMALLEST_RECORD:
            batches[number, BREAK] = TOO_MANY
            continue
        if count > room - row:
            return number
        wrong, at = read_records(
            source,
            start,
            end,
            count,
            batches[number, BASE_OFFSET],
            batches[number, BASE_TIMESTAMP],
            batches[number, MAX_TIMESTAMP],
            batches[number, ATTRIBUTES] & _LOG_APPEND_TIME != 0,
            columns,
            row,
        )
        if wrong == WHOLE and count > 0:
            low, high = columns[OFFSET, row], columns[OFFSET, row + count - 1]
            if low < batches[number, BASE_OFFSET] or high > batches[number, LAST_OFFSET]:
                wrong = OFFSET_OUTSIDE
        batches[number, BREAK] = wrong
        batches[number, BREAK_AT] = at
        if wrong == WHOLE and count > 0:
            batches[number, ROWS] = count
            row += count
    return number_of_batches


def read_one(
    data: Any,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int,
    is_append_time: bool,
    columns: Any,
) -> int:
    """The ``count`` records that fill ``data``: the kind of the first break, TOO_MANY where
    ``columns`` has no room for them."""
    if columns.shape[0] < COLUMNS or count > columns.shape[1]:
        return TOO_MANY
    wrong, _ = read_records(
        data,
        0,
        len(data),
        count,
        base_offset,
        base_timestamp,
        append_time,
        is_append_time,
        columns,
        0,
    )
    return wrong


def read_records(
    data: Any,
    pos: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int,
    is_append_time: bool,
    columns: Any,
    row: int,
) -> tuple[int, int]:
    """The records from ``pos`` to ``end``, written from ``row`` on: (kind of the first break, its
    position). The caller has checked that both are within ``data``, and that there is room."""
    for at in range(row, row + count):
        begin = pos
        length, pos = varint(data, pos, end)
        if pos < 0:
            return BAD_NUMBER, begin
        if length < 0:
            return BAD_END, begin
        if length > end - pos:
            return RUNS_OVER, begin
        stop = pos + length
        pos += 1  # attributes, unused
        delta, pos = varint(data, pos, stop)
        if pos < 0:
            return BAD_NUMBER, begin
        if is_append_time:
            columns[TIMESTAMP, at] = append_time
        elif no_room(base_timestamp, delta):
            return BEYOND_64_BITS, begin
        else:
            columns[TIMESTAMP, at] = base_timestamp + delta
        delta, pos = varint(data, pos, stop)
        if pos < 0:
            return BAD_NUMBER, begin
        if no_room(base_offset, delta):
            return BEYOND_64_BITS, begin
        key, pos = varint(data, pos, stop)
        if pos < 0:
            return BAD_NUMBER, begin
        if key < -1 or key > stop - pos:
            return BAD_KEY, begin
        columns[OFFSET, at] = base_offset + delta
        columns[RECORD, at] = begin
        columns[KEY, at] = pos
        columns[KEY_SIZE, at] = key
        key = max(key, 0)
        pos += key
        value, pos = varint(data, pos, stop)
        if pos < 0:
            return BAD_NUMBER, begin
        if value < -1 or value > stop - pos:
            return BAD_VALUE, begin
        columns[VALUE, at] = pos
        columns[VALUE_SIZE, at] = value
        value = max(value, 0)
        pos += value
        columns[SIZE, at] = key + value
        columns[HEADERS, at] = pos
        wrong, pos, stamp, size = read_headers(data, pos, stop)
        if wrong != WHOLE:
            return wrong, begin
        columns[STAMP, at] = stamp
        columns[STAMP_SIZE, at] = size
        if pos != stop:
            return BAD_END, begin
    return (WHOLE if pos == end else BYTES_LEFT), pos


def read_headers(data: Any, pos: int, stop: int) -> tuple[int, int, int, int]:
    """The headers of a record that ends at ``stop``: (kind of break, position after them, position
    and length of the value of the last one named ``tm``, a length of -1 where there is none)."""
    stamp, found = pos, -1
    count, pos = varint(data, pos, stop)
    if pos < 0:
        return BAD_NUMBER, pos, stamp, found
    if count < 0:
        return BAD_HEADERS, pos, stamp, found
    while count > 0:  # it ends with the record's bytes, whatever the count says
        count -= 1
        name, pos = varint(data, pos, stop)
        if pos < 0:
            return BAD_NUMBER, pos, stamp, found
        if name < 0 or name > stop - pos:
            return BAD_HEADER_KEY, pos, stamp, found
        is_stamp = name == 2 and data[pos] == _T and data[pos + 1] == _M
        if not is_stamp and not is_utf8(data, pos, pos + name):
            return BAD_HEADER_KEY, pos, stamp, found
        pos += name
        size, pos = varint(data, pos, stop)
        if pos < 0:
            return BAD_NUMBER, pos, stamp, found
        if size < -1 or size > stop - pos:
            return BAD_HEADERS, pos, stamp, found
        size = max(size, 0)
        if is_stamp:
            stamp, found = pos, size
        pos += size
    return WHOLE, pos, stamp, found
