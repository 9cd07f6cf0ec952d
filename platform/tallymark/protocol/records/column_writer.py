"""Encodes the records of a whole batch at once, from columns. A producer's speed depends on this.

A record's bytes (drawn in :mod:`tallymark.protocol.records.writer`) differ from its neighbour's in
few places. Within a *run* of records the widths of all counters and the timestamp are the same, so
everything but value, offset delta and stamp sequence is one constant::

    length | 0 | time delta | OFFSET DELTA | key null | value length | VALUE | headers | SEQ | rest
    └──────── constant ────┘              └───── constant ────┘       └constant┘     └ constant ─

The columns are interleaved by slice assignment and joined, all of it in C: about 0.1 us a record
where values are of one length (0.4 us where not) instead of 1.3 us record by record; half of that
where the whole batch is one run, like the batch before it. Records without such runs (irregular
timestamps, huge records) are written one by one.
:class:`~tallymark.protocol.records.writer.BatchBuilder` is the reference; a test compares all
three.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from tallymark.protocol.records.writer import nullable
from tallymark.protocol.schema import Buffer
from tallymark.protocol.varint import TABLE_LIMIT, VARINT, encode_uvarint, encode_varint

_NULL: Final = encode_varint(-1)
_PLAIN_LIMIT: Final = TABLE_LIMIT - 600
"""The length of records up to this size is in the table of varints, whatever else is in them."""
_NARROW: Final = 64
"""Offset deltas from here on have two bytes."""
_USUAL: Final = 512
_WORTH_IT: Final = 4
"""With fewer records a run on average, runs are not worth it."""
_LOW_BITS: Final = 14
_BLOCK: Final = 1 << _LOW_BITS
_FRAMES: Final = (64, 256, 1024)
"""Records that frames are made for; a batch takes the first part of one."""
_SHORT: Final = tuple(encode_uvarint(n) for n in range(_BLOCK))
_LOW: Final = tuple(bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(_BLOCK))
"""The first two bytes of a uvarint of three or more bytes."""


class RunningHeader(NamedTuple):
    """A last header that every record has: ``prefix``, a uvarint that counts up from ``first``,
    ``suffix``. ``key`` is its encoded name, length before it."""

    key: bytes
    prefix: bytes
    first: int
    suffix: bytes


class Columns(NamedTuple):
    """Records, column by column; all of one length. ``headers`` are encoded, with the count (the
    running header included) before them; None: no record has any of its own."""

    times: Sequence[int]
    """Milliseconds."""
    values: Sequence[Buffer | None]
    keys: Sequence[Buffer | None] | None
    headers: Sequence[bytes] | None
    running: RunningHeader | None


class _Run(NamedTuple):
    """Records ``start`` to ``stop`` - 1: one time delta, one width of every counter."""

    start: int
    stop: int
    delta: bytes
    before: bytes
    """What the records have between their value (or own headers) and the sequence."""
    sequences: Sequence[bytes]
    after: bytes


def encode_columns(columns: Columns) -> bytes:
    """The records, uncompressed; at least one."""
    return _in_runs(columns) or b"".join(_one_by_one(columns))


def _in_runs(columns: Columns) -> bytes | None:
    """The fast way; None for records that it is not made for."""
    if len(columns.values) == 1:
        return None  # by itself it is always of one length, and of another one the next time
    length = -1
    if columns.keys is None and columns.headers is None:
        lengths = _lengths(columns.values)
        if len(lengths) == 1:
            (length,) = lengths
            framed = _framed(columns, length)
            if framed is not None:
                return framed
    runs = _runs(columns)
    if runs is None:
        return None
    if length >= 0:
        return _of_one_length(columns, runs, length)
    return _of_any_length(columns, runs)


def _one_by_one(columns: Columns) -> Iterator[bytes]:
    """The plain way: records of any size, at any times."""
    times, running = columns.times, columns.running
    for index, value in enumerate(columns.values):
        parts: list[Buffer] = [
            b"\0",
            encode_varint(times[index] - times[0]),
            encode_varint(index),
            *nullable(columns.keys[index] if columns.keys else None),
            *nullable(value),
            columns.headers[index] if columns.headers else VARINT[running is not None],
        ]
        if running is not None:
            sequence = encode_uvarint(running.first + index)
            size = len(running.prefix) + len(sequence) + len(running.suffix)
            parts += (running.key, VARINT[size], running.prefix, sequence, running.suffix)
        record = b"".join(parts)
        yield encode_varint(len(record)) + record


def _lengths(values: Sequence[Buffer | None]) -> set[int]:
    """The lengths there are; none of them for values of which one is null."""
    try:
        return set(map(len, values))  # type: ignore[arg-type] # a None among them is the TypeError
    except TypeError:
        return set()


# --- batches that are like the last one -------------------------------------------------------


def _framed(columns: Columns, length: int) -> bytes | None:
    """The records, for values of ``length`` with one timestamp, whose sequences have the same width
    and upper bytes: what stands between these was the same in the last such batch. None for
    others."""
    count, times, running = len(columns.values), columns.times, columns.running
    if count > _FRAMES[-1] or length > _PLAIN_LIMIT or times.count(times[0]) != count:
        return None
    most = next(most for most in _FRAMES if count <= most)
    if running is None:
        parts = _frame(most, length, 0, VARINT[0], 1)[: 2 * count]
        parts[1::2] = columns.values  # type: ignore[assignment] # none of them is None here
        parts.append(VARINT[0])
        return b"".join(parts)
    first = running.first
    if first % _BLOCK + count > _BLOCK or first < 128 < first + count:
        return None
    sequences, upper = _sequences(first, count)
    after = upper + running.suffix
    size = len(running.prefix) + len(sequences[0]) + len(after)
    before = b"".join((VARINT[1], running.key, VARINT[size], running.prefix))
    parts = _frame(most, length, len(before) + len(sequences[0]), after, 3)[: 4 * count]
    parts[1::4] = columns.values  # type: ignore[assignment] # none of them is None here
    parts[2::4] = [before] * count
    parts[3::4] = sequences
    parts.append(after)
    return b"".join(parts)


@lru_cache(maxsize=32)
def _frame(count: int, length: int, stamp: int, end: bytes, gaps: int) -> list[Buffer]:
    """Of each record what stands before its value, with the ``end`` of the one before it, and
    ``gaps`` for the rest: ``length`` bytes of value, ``stamp`` bytes, ``end``. Not to be changed:
    take a part of it, which as a list is copied once."""
    parts: list[Buffer] = [b""] * (count * (1 + gaps))
    leads = _leads(count, length, stamp + len(end))
    parts[:: 1 + gaps] = [end + lead for lead in leads] if end else leads
    parts[0] = leads[0]
    return parts


@lru_cache(maxsize=32)
def _leads(count: int, length: int, rest: int) -> tuple[bytes, ...]:
    """Of each record what stands before its value: ``length`` bytes of value, ``rest`` behind it.
    Stamps change the end of the records before after 16,384 sequences, but not this."""
    middle = _NULL + VARINT[length]
    fixed = 2 + len(middle) + length + rest
    return tuple(
        VARINT[fixed + len(offset)] + b"\0\0" + offset + middle for offset in VARINT[:count]
    )


# --- runs -----------------------------------------------------------------------------------


def _runs(columns: Columns) -> list[_Run] | None:
    count = len(columns.values)
    if count > TABLE_LIMIT:
        return None
    spans = _time_spans(columns.times, count)
    if spans is None:
        return None
    cuts = _cuts(columns.running, count)
    if not cuts and len(spans) == 1:
        return [_run(columns, *spans[0])]
    runs: list[_Run] = []
    for start, stop, delta in spans:
        edges = [start, *(cut for cut in cuts if start < cut < stop), stop]
        for begin, end in pairwise(edges):
            runs.append(_run(columns, begin, end, delta))
    return runs


def _cuts(running: RunningHeader | None, count: int) -> list[int]:
    """Where a counter takes another byte, or its upper bytes change; in order, each place once."""
    cuts = {_NARROW} if count > _NARROW else set()  # the offset delta
    if running is not None:
        first = running.first
        if first < 128 < first + count:
            cuts.add(128 - first)
        cuts.update(range(_BLOCK - first % _BLOCK, count, _BLOCK))
    return sorted(cuts)


def _run(columns: Columns, start: int, stop: int, delta: bytes) -> _Run:
    own = columns.headers is not None  # then the count stands in the column
    running = columns.running
    if running is None:
        return _Run(start, stop, delta, b"" if own else b"\0", (), b"")
    first = running.first + start
    sequences, upper = _sequences(first, stop - start)
    after = upper + running.suffix
    size = len(running.prefix) + len(sequences[0]) + len(after)
    before = b"".join((b"" if own else VARINT[1], running.key, VARINT[size], running.prefix))
    return _Run(start, stop, delta, before, sequences, after)


def _sequences(first: int, count: int) -> tuple[Sequence[bytes], bytes]:
    """The uvarints of ``first`` and on as (what differs, what follows it in all of them)."""
    low = first % _BLOCK
    if first < _BLOCK:
        return _SHORT[low : low + count], b""
    upper = first >> _LOW_BITS
    return _LOW[low : low + count], _SHORT[upper] if upper < _BLOCK else encode_uvarint(upper)


def _time_spans(times: Sequence[int], count: int) -> list[tuple[int, int, bytes]] | None:
    """(start, stop, encoded delta) of records of one timestamp; None: too many or too far."""
    base = times[0]
    if times.count(base) == count:
        return [(0, count, VARINT[0])]
    spans: list[tuple[int, int, bytes]] = []
    most = max(8, count // _WORTH_IT)
    start, at = 0, base
    for index, time in enumerate(times):
        if time != at:
            spans.append((start, index, VARINT[at - base]))
            start, at = index, time
            if not 0 <= at - base < TABLE_LIMIT or len(spans) > most:
                return None
    spans.append((start, count, VARINT[at - base]))
    return spans


# --- values of one length ---------------------------------------------------------------------


def _of_one_length(columns: Columns, runs: list[_Run], length: int) -> bytes | None:
    if length > _PLAIN_LIMIT:
        return None
    parts: list[Buffer] = []
    middle = _NULL + VARINT[length]
    ended = b""  # what remains to be written of the run before
    for run in runs:
        sequence = len(run.sequences[0]) if run.sequences else 0
        rest = len(run.before) + sequence + len(run.after)
        size = 1 + len(run.delta) + len(VARINT[run.start]) + len(middle) + length + rest
        lead = b"".join((VARINT[size], b"\0", run.delta))
        parts += _one_run(columns.values, run, ended, lead, middle)
        ended = run.after if run.sequences else run.before
    parts.append(ended)
    return b"".join(parts)


def _one_run(
    values: Sequence[Buffer | None], run: _Run, ended: bytes, lead: bytes, middle: bytes
) -> list[Buffer]:
    """A run's parts, without what stands behind its last sequence (or value)."""
    start, stop = run.start, run.stop
    # What ends one record and what begins the next are one part.
    between = run.after if run.sequences else run.before
    heads = _heads(between + lead, middle, start, stop)
    width = 4 if run.sequences else 2
    parts: list[Buffer] = [run.before] * (width * (stop - start))
    parts[0::width] = heads
    parts[0] = b"".join((ended, lead, VARINT[start], middle))
    parts[1::width] = values[start:stop]  # type: ignore[assignment] # none of them is None here
    if run.sequences:
        parts[3::width] = run.sequences
    return parts


def _heads(lead: bytes, middle: bytes, start: int, stop: int) -> Sequence[bytes]:
    if stop <= _NARROW:
        return _heads_from(lead, middle, 0, _NARROW)[start:stop]
    if start >= _NARROW and stop <= _USUAL:
        return _heads_from(lead, middle, _NARROW, _USUAL)[start - _NARROW : stop - _NARROW]
    return [lead + delta + middle for delta in VARINT[start:stop]]


@lru_cache(maxsize=32)
def _heads_from(lead: bytes, middle: bytes, start: int, stop: int) -> tuple[bytes, ...]:
    """Heads to choose from: few batches have more records, and the next batch is like the last."""
    return tuple(lead + delta + middle for delta in VARINT[start:stop])


# --- values of any length, keys, headers ------------------------------------------------------


def _of_any_length(columns: Columns, runs: list[_Run]) -> bytes | None:
    keys = columns.keys
    value_sizes = [_NULL if one is None else _length(one) for one in columns.values]
    key_sizes = None if keys is None else [_NULL if one is None else _length(one) for one in keys]
    if b"" in value_sizes or (key_sizes is not None and b"" in key_sizes):
        return None
    parts: list[Buffer] = []
    for run in runs:
        chosen = slice(run.start, run.stop)
        rows: list[Sequence[Buffer]] = [VARINT[chosen]]
        if keys is None or key_sizes is None:
            rows.append([_NULL] * (run.stop - run.start))
        else:
            rows += (key_sizes[chosen], [one or b"" for one in keys[chosen]])
        rows += (value_sizes[chosen], [one or b"" for one in columns.values[chosen]])
        if columns.headers is not None:
            rows.append(columns.headers[chosen])
        part = _interleaved(run, rows)
        if part is None:
            return None
        parts += part
    return b"".join(parts)


def _length(data: Buffer) -> bytes:
    size = len(data)
    return VARINT[size] if size <= _PLAIN_LIMIT else b""


def _interleaved(run: _Run, rows: list[Sequence[Buffer]]) -> list[Buffer] | None:
    """A run's records from the columns behind the time delta, the record's length before each;
    None for records that are too long."""
    fixed = 1 + len(run.delta) + len(run.before) + len(run.after)
    fixed += len(run.sequences[0]) if run.sequences else 0
    sizes = [fixed + sum(map(len, row)) for row in zip(*rows, strict=True)]
    if max(sizes) >= TABLE_LIMIT:
        return None
    start = b"\0" + run.delta
    width = len(rows) + 3 + 2 * bool(run.sequences)
    parts: list[Buffer] = [run.before] * (width * len(sizes))
    parts[0::width] = [VARINT[size] for size in sizes]
    parts[1::width] = [start] * len(sizes)
    for place, row in enumerate(rows, 2):
        parts[place::width] = row
    if run.sequences:
        parts[width - 2 :: width] = run.sequences
        parts[width - 1 :: width] = [run.after] * len(sizes)
    return parts
