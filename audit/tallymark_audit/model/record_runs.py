"""Cut record batches into runs. Pure.

A healthy batch is one run: consecutive sequences of one instance, in one window, at consecutive
offsets. So it is not looked at record by record: the stamps that would continue the run are made,
and compared with those that are there as lists; where they differ, the first that does is looked
for one by one::

    stamps    │ A 41 │ A 42 │ A 43 │ A 44 │ B 7 │ B 8 │
    expected  │ A 41 │ A 42 │ A 43 │ A 44 │ A 45│ ...        run: A 41-44, then B 7 ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import eq
from typing import Final, NamedTuple

from tallymark.client.producing.stamps import (
    MAX_SEQUENCE,
    STAMP_HEADER,
    Stamp,
    decode_stamp,
    stamp_ends,
    uvarint,
)
from tallymark.protocol.records.batch import Batch
from tallymark.protocol.records.columns import RecordColumns
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import Block, CellKey, window_of
from tallymark_audit.model.contents import blocks_of

MIN_TIMESTAMP: Final = -(2**63)
MAX_TIMESTAMP: Final = 2**63 - 1
_SHORT: Final = 16
"""So many records are compared at first, then four times as many each time."""


@dataclass(slots=True)
class SeenRun:
    """Records of one cell at consecutive offsets, with consecutive sequences if they are stamped.
    ``first`` is -1 without a stamp. Timestamps and ``latency``, stamp to seen, in ms. ``aborted``:
    their transaction was, so they are no messages. ``raw``: the bytes that are no stamp."""

    key: CellKey
    first: int
    offset: int
    raw: bytes | None = None
    count: int = 0
    bytes: int = 0
    min_timestamp: int = -1
    max_timestamp: int = -1
    malformed: int = 0
    skewed: int = 0
    aborted: bool = False
    latency: sketches.Sketch = field(default_factory=sketches.empty)
    blocks: tuple[Block, ...] = ()

    @property
    def last(self) -> int:
        """The last sequence."""
        return self.first + self.count - 1

    @property
    def last_offset(self) -> int:
        return self.offset + self.count - 1


@dataclass(frozen=True, slots=True)
class Rules:
    """How records are put into cells; times in ms. A record stamped before ``past`` or after
    ``future`` counts as skewed, in the window of its stamp, where its producer claims it too.
    Records of instances that report a back-fill (``exempt``) do not. ``seen_at``: when the records
    were read, -1 where that says nothing about how late they came."""

    window_ms: int
    future: int
    past: int = MIN_TIMESTAMP
    seen_at: int = -1
    content_check: bool = False
    exempt: frozenset[str] = frozenset()


def runs_in(
    batches: Iterable[Batch],
    topic: str,
    partition: int,
    start: int,
    rules: Rules,
    aborted: bool = False,
) -> list[SeenRun]:
    """The runs of the records at ``start`` and after; a fetched batch may begin before that.
    Transaction markers are no records. CorruptRecordError: a batch that cannot be read."""
    runs: list[SeenRun] = []
    for batch in batches:
        if not batch.header.is_control:
            columns = batch.columns(batch.usual_max_size)
            if batch.header.base_offset < start:
                columns = columns.since(start)
            runs += runs_of_columns(columns, topic, partition, rules)
    for run in runs:
        run.aborted = aborted
    return runs


class _Columns:
    """``earliest`` and ``latest`` are the least and the greatest of the timestamps, which are made
    only where these two are not enough."""

    __slots__ = ("_columns", "_timestamps", "earliest", "latest", "offsets", "stamps")

    def __init__(self, columns: RecordColumns) -> None:
        self._columns = columns
        self._timestamps: list[int] | None = None
        self.offsets: Sequence[int] = columns.offsets
        self.stamps = columns.last_headers(STAMP_HEADER)
        self.earliest, self.latest = columns.timestamp_bounds()
        if self.earliest < MIN_TIMESTAMP or self.latest > MAX_TIMESTAMP:
            self.earliest, self.latest = min(self.timestamps), max(self.timestamps)

    @property
    def timestamps(self) -> list[int]:
        """Of each record, ms. A batch's base and a record's delta may add up to more than 64 bits:
        then what Java makes of that."""
        if self._timestamps is None:
            found = self._columns.timestamps
            if any(not MIN_TIMESTAMP <= at <= MAX_TIMESTAMP for at in (min(found), max(found))):
                found = [(at - MIN_TIMESTAMP & 2**64 - 1) + MIN_TIMESTAMP for at in found]
            self._timestamps = found
        return self._timestamps

    def window(self, at: int, window_ms: int) -> int:
        """The window of a record."""
        window = window_of(self.earliest, window_ms)
        if self.latest < window + window_ms:
            return window
        return window_of(self.timestamps[at], window_ms)


class _Next(NamedTuple):
    """What continues a run: stamps between ``prefix`` and ``suffix`` from ``first`` on, or without
    a ``prefix`` always the same ``raw``; timestamps from ``low`` up to ``high``, excluded."""

    raw: bytes | None
    prefix: bytes
    first: int
    suffix: bytes
    low: int
    high: int


def runs_of_columns(
    columns: RecordColumns, topic: str, partition: int, rules: Rules
) -> Iterator[SeenRun]:
    """The runs of the records of one batch."""
    look = _Columns(columns)
    stamps = look.stamps
    checked = rules.content_check
    keys, values = (columns.keys(), columns.values()) if checked else ([], [])
    sizes: list[int] = []
    at, count = 0, len(stamps)
    while at < count:
        stamp = _stamp(stamps[at])
        window = look.window(at, rules.window_ms)
        run = _begin(stamp, topic, partition, window, look.offsets[at])
        end = _end_of_run(look, at, _next(stamps[at], stamp, window, rules.window_ms))
        run.count = end - at
        if run.count == count:
            run.bytes = columns.total_size()
        else:
            sizes = sizes or columns.sizes()
            run.bytes = sum(sizes[at:end])
        _add_times(run, look, at, end, rules)
        if stamp is None and stamps[at] is not None:
            run.malformed, run.raw = run.count, stamps[at]
        if checked and stamp is not None:
            run.blocks = blocks_of(run.first, keys[at:end], values[at:end])
        yield run
        at = end


def _add_times(run: SeenRun, look: _Columns, at: int, end: int, rules: Rules) -> None:
    earliest, latest = look.earliest, look.latest
    if run.count < len(look.stamps) and earliest != latest:
        timestamps = look.timestamps[at:end]
        earliest, latest = min(timestamps), max(timestamps)
    run.min_timestamp, run.max_timestamp = max(-1, earliest), max(-1, latest)
    outside = latest > rules.future or 0 <= earliest < rules.past
    if outside and run.key.instance not in rules.exempt:
        timestamps = look.timestamps[at:end]
        run.skewed = sum(when > rules.future or 0 <= when < rules.past for when in timestamps)
    if rules.seen_at >= 0 <= earliest:
        slowest = sketches.bucket_of(rules.seen_at - earliest)
        if slowest == sketches.bucket_of(rules.seen_at - latest):
            run.latency[slowest] = run.count
        else:
            for when, times in Counter(look.timestamps[at:end]).items():
                sketches.add(run.latency, rules.seen_at - when, times)


def _stamp(raw: bytes | None) -> Stamp | None:
    """The stamp, if the bytes are one. A NUL fits no column of text: a server with one is none."""
    stamp = decode_stamp(raw) if raw is not None else None
    return stamp if stamp is not None and "\0" not in stamp.server else None


def _begin(stamp: Stamp | None, topic: str, partition: int, window: int, offset: int) -> SeenRun:
    if stamp is None:
        return SeenRun(CellKey(topic, partition, window, "", ""), -1, offset)
    key = CellKey(topic, stamp.partition, window, stamp.server, stamp.instance.hex())
    return SeenRun(key, stamp.sequence, offset)


def _next(raw: bytes | None, stamp: Stamp | None, window: int, window_ms: int) -> _Next:
    low = window if window >= 0 else MIN_TIMESTAMP
    if stamp is None:
        return _Next(raw, b"", -1, b"", low, window + window_ms)
    prefix, suffix = _ends(stamp.instance, stamp.partition, stamp.server)
    return _Next(raw, prefix, stamp.sequence, suffix, low, window + window_ms)


def _end_of_run(look: _Columns, start: int, run: _Next) -> int:
    """Where the run that begins at ``start`` ends: the index behind its last record."""
    count = len(look.stamps)
    if run.prefix:  # which ends where sequences do
        count = min(count, start + MAX_SEQUENCE - run.first + 1)
    if not isinstance(look.offsets, range):  # a compacted log: there may be holes
        return _end_one_by_one(look, start, count, run)
    at, size, after = start, _SHORT, start + 1
    if run.prefix and (after >= count or not (look.stamps[after] or b"").startswith(run.prefix)):
        return after  # what would continue it is not made for records of one run each
    if look.stamps[count - 1] == _stamps(run, count - 1 - start, 1)[0]:
        size = count  # the last one fits, so all will
    while at < count:
        end = min(at + size, count)
        same = _alike(look.stamps[at:end], _stamps(run, at - start, end - at))
        if not (run.low <= look.earliest and look.latest < run.high):
            same = _within(look.timestamps[at : at + same], run.low, run.high)
        at, size = at + same, size * 4
        if at < end:
            break
    return at


def _alike(stamps: list[bytes | None], expected: list[bytes | None]) -> int:
    """How many are the same, from the first on."""
    if stamps == expected:
        return len(stamps)
    return list(map(eq, stamps, expected)).index(False)


def _within(timestamps: list[int], low: int, high: int) -> int:
    """How many are from ``low`` up to ``high``, excluded, from the first on."""
    if timestamps and low <= min(timestamps) and max(timestamps) < high:
        return len(timestamps)
    return [*(low <= at < high for at in timestamps), False].index(False)


def _end_one_by_one(look: _Columns, start: int, count: int, run: _Next) -> int:
    """The same record by record, for offsets with holes; at ``count`` at the latest."""
    offsets, timestamps, stamps = look.offsets, look.timestamps, look.stamps
    for at in range(start + 1, count):
        if (
            stamps[at] != _stamps(run, at - start, 1)[0]
            or offsets[at] != offsets[start] + at - start
            or not run.low <= timestamps[at] < run.high
        ):
            return at
    return count


def _stamps(run: _Next, skip: int, count: int) -> list[bytes | None]:
    """The stamps of ``count`` records of the run, after its first ``skip``."""
    if not run.prefix:
        return [run.raw] * count
    found: list[bytes | None] = []
    sequence, end = run.first + skip, run.first + skip + count
    while sequence < end:
        high, low = sequence >> 7, sequence & 0x7F
        tail = uvarint(high) + run.suffix if high else run.suffix
        heads = _heads(run.prefix, bool(high))[low : low + end - sequence]
        found += [head + tail for head in heads]
        sequence += len(heads)
    return found


_ends = lru_cache(maxsize=4096)(stamp_ends)


@lru_cache(maxsize=512)
def _heads(prefix: bytes, more: bool) -> list[bytes]:
    """The prefix and the first byte of a sequence, by its low seven bits; ``more`` follow."""
    return [prefix + bytes((low | 0x80 if more else low,)) for low in range(0x80)]
