"""From the records of many batches to strips: the loop that is compiled.

Uncompiled it is plain Python that says the same, slowly. A record belongs to a *cell*: sender,
window, aborted or not. Cells are found by a hash of these, and each knows its newest strip::

    slots  [ -1, 1, -1, 0, .. ]        cell, by hash; the next free slot where that is taken
    cells  [ stamp, window .. strip ]  a row a cell
    strips [ sequence, records .. ]    a row a strip

Positions are compared with the end of their buffer before a byte is read: compiled code checks no
index itself.
"""

from __future__ import annotations

from typing import Any, Final

from tallymark.client.producing.stamps import (
    INSTANCE_BYTES,
    MAX_PARTITION,
    MAX_SERVER_BYTES,
    STAMP_VERSION,
)
from tallymark.protocol.records.compiled.layout import (
    BATCH_FIELDS,
    BREAK,
    COLUMNS,
    OFFSET,
    ROW,
    ROWS,
    SCRATCH,
    SIZE,
    STAMP,
    STAMP_SIZE,
    TIMESTAMP,
    WHOLE,
)
from tallymark.protocol.records.compiled.primitives import is_utf8
from tallymark_audit.model.hashing import BLOCK
from tallymark_spark_jobs.counting.compiled.content_loop import content_of, is_inside

# --- strips: the fields of a Strip, and the last record's offset
CELL: Final = 0
WINDOW: Final = 1
ABORTED: Final = 2
SEQUENCE: Final = 3
RECORDS: Final = 4
FIRST_OFFSET: Final = 5
LAST_OFFSET: Final = 6
BYTES: Final = 7
EARLIEST: Final = 8
LATEST: Final = 9
STRAIGHT: Final = 10
CONTENT: Final = 11
NEWEST: Final = 12
STRIP_FIELDS: Final = 13

# --- cells
KIND: Final = 0
"""0: stamped; -1: without a stamp; -2: with bytes that are no stamp."""
CELL_WINDOW: Final = 1
CELL_ABORTED: Final = 2
BUFFER: Final = 3
"""1: its stamp is in the scratch buffer."""
HEAD: Final = 4
NUMBER: Final = 5
SERVER: Final = 6
STOP: Final = 7
"""Positions of its first stamp, of the sequence and the server in that, and after it."""
NEWEST_STRIP: Final = 8
CELL_FIELDS: Final = 9

_IDENTITY: Final = 1 + INSTANCE_BYTES
_SHORTEST: Final = _IDENTITY + 2
_LONGEST_NUMBER: Final = 9
_PRIME: Final = 0x01000193
_SPREAD: Final = 0x7FFF_FFFF


def cut_strips(
    data: Any,
    scratch: Any,
    batches: Any,
    aborted: Any,
    columns: Any,
    rules: Any,
    crcs: Any,
    slots: Any,
    cells: Any,
    strips: Any,
) -> int:
    """Write the strips of the batches' records: how many there are; -1: the tables do not fit.
    ``rules``: window (ms), first and last time (ms), whether strips are straight, whether contents
    are hashed. ``slots`` are all -1, a power of two of them, and at least twice as many as there
    may be ``cells``. ``crcs``: the tables of the content loop."""
    if (
        batches.shape[1] < BATCH_FIELDS
        or columns.shape[0] < COLUMNS
        or len(aborted) < batches.shape[0]
        or len(rules) < 5
        or crcs.shape[0] < 8
        or crcs.shape[1] < 256
        or cells.shape[1] < CELL_FIELDS
        or strips.shape[1] < STRIP_FIELDS
        or len(slots) < 2 * cells.shape[0]
        or rules[0] < 1
    ):
        return -1
    known = found = 0
    number_of_batches: int = batches.shape[0]
    for batch in range(number_of_batches):
        row, rows = batches[batch, ROW], batches[batch, ROWS]
        if batches[batch, BREAK] != WHOLE or rows <= 0:
            continue
        if row < 0 or rows > columns.shape[1] - row:
            return -1
        buffer = 1 if batches[batch, SCRATCH] else 0
        gone = 1 if aborted[batch] else 0
        known, found = cut_batch(
            data, scratch, buffer, gone, columns, row, rows, rules, crcs, slots, cells, strips,
            known, found,
        )  # fmt: skip
        if found < 0:
            return -1
    return found


def cut_batch(
    data: Any,
    scratch: Any,
    buffer: int,
    gone: int,
    columns: Any,
    row: int,
    rows: int,
    rules: Any,
    crcs: Any,
    slots: Any,
    cells: Any,
    strips: Any,
    known: int,
    found: int,
) -> tuple[int, int]:
    """The same for one batch: how many cells and strips there are then; -1 strips: they do not
    fit."""
    source = scratch if buffer else data
    window_ms, low, high, straight, contents = rules[0], rules[1], rules[2], rules[3], rules[4]
    cell = -1
    for at in range(row, row + rows):
        time = columns[TIMESTAMP, at]
        if time < low or time > high:
            continue
        begin, size = columns[STAMP, at], columns[STAMP_SIZE, at]
        if size > 0 and (begin < 0 or size > len(source) - begin):
            return known, -1
        if known >= cells.shape[0] or found >= strips.shape[0]:
            return known, -1
        window = time - time % window_ms if time >= 0 else -window_ms
        sequence = -1
        if cell >= 0 and cells[cell, CELL_WINDOW] == window:  # mostly the one before
            rival = scratch if cells[cell, BUFFER] else data
            sequence = sequence_if_same(source, begin, size, rival, cells[cell])
        if sequence < 0:
            cell, sequence = cell_of(
                data, scratch, buffer, begin, size, window, gone, slots, cells, known
            )
            known = max(known, cell + 1)
            if cell < 0:
                continue
        offset = columns[OFFSET, at]
        strip = cells[cell, NEWEST_STRIP]
        if strip < 0 or not goes_on(strips[strip], sequence, offset, straight, contents):
            strip, found = found, found + 1
            begin_strip(strips[strip], cells[cell], cell, sequence, offset, time)
            cells[cell, NEWEST_STRIP] = strip
        put_in(strips[strip], offset, time, columns[SIZE, at])
        if contents and sequence >= 0:
            if not is_inside(source, columns, at):
                return known, -1
            strips[strip, CONTENT] += content_of(crcs, source, columns, at, sequence)
    return known, found


def cell_of(
    data: Any,
    scratch: Any,
    buffer: int,
    begin: int,
    size: int,
    window: int,
    gone: int,
    slots: Any,
    cells: Any,
    known: int,
) -> tuple[int, int]:
    """The cell and the sequence of a record; a cell that is new becomes number ``known``. -1: it is
    not counted, for it was aborted and has no stamp."""
    source = scratch if buffer else data
    sequence, number, server = -1, begin, begin
    kind = -1 if size < 0 else -2
    if size >= _SHORTEST and source[begin] == STAMP_VERSION:
        partition, behind = number_at(source, begin + _IDENTITY, begin + size)
        if behind > 0 and partition <= MAX_PARTITION:
            number = behind
            sequence, server = number_at(source, number, begin + size)
            if server > 0 and is_name(source, server, begin + size):
                kind = 0
    if kind < 0:
        sequence, number, server = -1, begin, begin + max(size, 0)
        if gone:
            return -1, -1
    stop = begin + size if kind == 0 else server
    place = hash_of(source, begin, number, server, stop, window ^ gone) if kind == 0 else window
    place = (place ^ kind) & (len(slots) - 1)
    while slots[place] >= 0:
        cell = slots[place]
        rival = scratch if cells[cell, BUFFER] else data
        if (
            cells[cell, KIND] == kind
            and cells[cell, CELL_WINDOW] == window
            and cells[cell, CELL_ABORTED] == gone
            and (kind < 0 or is_sender(source, begin, number, server, stop, rival, cells[cell]))
        ):
            return cell, sequence
        place = (place + 1) & (len(slots) - 1)
    slots[place] = known
    cell = cells[known]
    cell[KIND] = kind
    cell[CELL_WINDOW] = window
    cell[CELL_ABORTED] = gone
    cell[BUFFER] = buffer
    cell[HEAD] = begin
    cell[NUMBER] = number
    cell[SERVER] = server
    cell[STOP] = stop
    cell[NEWEST_STRIP] = -1
    return known, sequence


def sequence_if_same(source: Any, begin: int, size: int, rival: Any, cell: Any) -> int:
    """The sequence of a stamp of the cell's sender; -1: it is of another one, or none."""
    head = cell[NUMBER] - cell[HEAD]
    if cell[KIND] != 0 or size <= head or not is_same(source, begin, rival, cell[HEAD], head):
        return -1
    sequence, server = number_at(source, begin + head, begin + size)
    name = cell[STOP] - cell[SERVER]
    if server < 0 or begin + size - server != name:
        return -1
    return sequence if is_same(source, server, rival, cell[SERVER], name) else -1


def is_sender(
    source: Any, begin: int, number: int, server: int, stop: int, rival: Any, cell: Any
) -> bool:
    """Whether the stamp is of the cell's sender."""
    head, name = number - begin, stop - server
    return bool(
        head == cell[NUMBER] - cell[HEAD]
        and name == cell[STOP] - cell[SERVER]
        and is_same(source, begin, rival, cell[HEAD], head)
        and is_same(source, server, rival, cell[SERVER], name)
    )


def goes_on(strip: Any, sequence: int, offset: int, straight: int, contents: int) -> bool:
    """Whether the record continues the strip. Records without a stamp always do."""
    if sequence < 0:
        return True
    if sequence - strip[SEQUENCE] != strip[RECORDS] or (contents and sequence % BLOCK == 0):
        return False
    step = offset - strip[NEWEST]
    return bool(step == 1 or (step > 0 and not straight))


def begin_strip(strip: Any, cell: Any, number: int, sequence: int, offset: int, time: int) -> None:
    """A strip without records."""
    strip[CELL] = number if cell[KIND] == 0 else cell[KIND]
    strip[WINDOW] = cell[CELL_WINDOW]
    strip[ABORTED] = cell[CELL_ABORTED]
    strip[SEQUENCE] = sequence
    strip[RECORDS] = 0
    strip[FIRST_OFFSET] = offset
    strip[LAST_OFFSET] = offset
    strip[BYTES] = 0
    strip[EARLIEST] = time
    strip[LATEST] = time
    strip[STRAIGHT] = 1
    strip[CONTENT] = 0
    strip[NEWEST] = offset


def put_in(strip: Any, offset: int, time: int, size: int) -> None:
    """Add a record to a strip."""
    if strip[RECORDS] > 0 and offset - strip[NEWEST] != 1:
        strip[STRAIGHT] = 0
    strip[NEWEST] = offset
    strip[RECORDS] += 1
    strip[BYTES] += size
    strip[FIRST_OFFSET] = min(strip[FIRST_OFFSET], offset)
    strip[LAST_OFFSET] = max(strip[LAST_OFFSET], offset)
    strip[EARLIEST] = min(strip[EARLIEST], time)
    strip[LATEST] = max(strip[LATEST], time)


def number_at(data: Any, pos: int, stop: int) -> tuple[int, int]:
    """The number at ``pos`` of a stamp that ends at ``stop``, and the position after it; -1 where
    it is cut short, longer than 9 bytes, or in more bytes than it needs."""
    value = 0
    for index in range(_LONGEST_NUMBER):
        if pos + index >= stop:
            return 0, -1
        byte = data[pos + index] & 0x7F
        value |= byte << 7 * index
        if byte == data[pos + index]:
            if byte == 0 and index > 0:
                return 0, -1
            return value, pos + index + 1
    return 0, -1


def is_name(data: Any, pos: int, stop: int) -> bool:
    """Whether a server can have that name: UTF-8 without NUL, not too long."""
    if stop - pos > MAX_SERVER_BYTES:
        return False
    for at in range(pos, stop):
        if data[at] == 0:
            return False
    return is_utf8(data, pos, stop)


def is_same(one: Any, at: int, other: Any, where: int, size: int) -> bool:
    """Whether so many bytes are the same."""
    for step in range(size):
        if one[at + step] != other[where + step]:
            return False
    return True


def hash_of(data: Any, begin: int, number: int, server: int, stop: int, seed: int) -> int:
    """Of a sender's bytes and a seed: FNV-1a of 32 bits (Fowler, Noll, Vo), but for the sign."""
    value = seed & _SPREAD
    for at in range(begin + 1, number):
        value = ((value ^ data[at]) * _PRIME) & _SPREAD
    for at in range(server, stop):
        value = ((value ^ data[at]) * _PRIME) & _SPREAD
    return value ^ (value >> 15)
