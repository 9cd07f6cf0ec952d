"""Count stamps: from record batches to runs, from runs to cells. Pure.

A healthy batch is one run: consecutive sequences of one instance, in one window, at consecutive
offsets. :func:`runs_in` cuts batches into such runs, :class:`CellCounter` adds a run to a cell and
finds which of its records were there before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, decode_stamp, stamp_ends, uvarint
from tallymark.protocol.records import Batch, Record
from tallymark_audit.cells import CellKey, Copy, window_of
from tallymark_audit.ranges import EMPTY, RangeSet
from tallymark_audit.sides import Observation

MAX_COPIES = 1000
"""Copies named in one cell; all are counted."""
MIN_TIMESTAMP = -(2**63)
Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class SeenRun:
    """Records of one cell at consecutive offsets, with consecutive sequences if they are stamped.
    ``first`` is -1 without a stamp."""

    key: CellKey
    first: int
    offset: int
    count: int = 0
    bytes: int = 0
    min_timestamp: int = -1
    max_timestamp: int = -1
    malformed: int = 0
    skewed: int = 0

    @property
    def last(self) -> int:
        """The last sequence."""
        return self.first + self.count - 1

    @property
    def last_offset(self) -> int:
        return self.offset + self.count - 1


_NO_RUN = SeenRun(CellKey("", -1, 0, "", ""), -1, -1)


@dataclass(frozen=True, slots=True)
class Rules:
    """How records are put into cells; times in ms. A record stamped later than ``future`` counts as
    skewed, in the window it says: its producer claims it there too."""

    window_ms: int
    future: int


def runs_in(
    batches: Iterable[Batch], topic: str, partition: int, start: int, rules: Rules
) -> list[SeenRun]:
    """The runs of the records at ``start`` and after; a fetched batch may begin before that.
    Transaction markers are no records. CorruptRecordError: a batch that cannot be read."""
    runs: list[SeenRun] = []
    for batch in batches:
        if batch.header.is_control:
            continue
        records: Iterable[Record] = batch.records()
        if batch.header.base_offset < start:
            records = [record for record in records if record.offset >= start]
        _add_records(runs, records, topic, partition, rules)
    return runs


def _add_records(
    runs: list[SeenRun], records: Iterable[Record], topic: str, partition: int, rules: Rules
) -> None:
    run, prefix, suffix = _NO_RUN, b"", b""
    expected: bytes | None = None  # the very bytes of the stamp that would continue the run
    low = high = next_offset = -1
    window_ms, future = rules.window_ms, rules.future
    for offset, timestamp, key, value, headers in records:
        raw = (
            headers[0][1] if len(headers) == 1 and headers[0][0] == STAMP_HEADER else _raw(headers)
        )
        if raw != expected or offset != next_offset or not low <= timestamp < high:
            stamp = _stamp(raw)
            run = _begin(stamp, topic, partition, window_of(timestamp, window_ms), offset)
            runs.append(run)
            prefix, suffix = (
                stamp_ends(stamp.instance, stamp.partition, stamp.server) if stamp else (b"", b"")
            )
            low = run.key.window if timestamp >= 0 else MIN_TIMESTAMP
            high = run.key.window + window_ms
        run.count += 1
        run.bytes += (len(key) if key else 0) + (len(value) if value else 0)
        if timestamp > future:
            run.skewed += 1
        if run.min_timestamp < 0 or timestamp < run.min_timestamp:
            run.min_timestamp = timestamp if timestamp > -1 else -1
        if timestamp > run.max_timestamp:
            run.max_timestamp = timestamp
        next_offset = offset + 1
        expected = prefix + uvarint(run.first + run.count) + suffix if prefix else raw
        if raw is not None and not prefix:
            run.malformed += 1


def _raw(headers: Headers) -> bytes | None:
    """The stamp's bytes; of several the last counts, as Kafka's ``lastHeader`` has it."""
    raw: bytes | None = None
    for name, value in headers:
        if name == STAMP_HEADER:
            raw = value if value is not None else b""
    return raw


def _stamp(raw: bytes | None) -> Stamp | None:
    """The stamp, if the bytes are one. A NUL fits no column of text: a server with one is none."""
    stamp = decode_stamp(raw) if raw is not None else None
    return stamp if stamp is not None and "\0" not in stamp.server else None


def _begin(stamp: Stamp | None, topic: str, partition: int, window: int, offset: int) -> SeenRun:
    if stamp is None:
        return SeenRun(CellKey(topic, partition, window, "", ""), -1, offset)
    key = CellKey(topic, stamp.partition, window, stamp.server, stamp.instance.hex())
    return SeenRun(key, stamp.sequence, offset)


class CellCounter:
    """One cell under counting, on top of what was counted before."""

    __slots__ = ("bytes", "copies", "count", "first_offset", "key", "last_offset", "malformed",
                 "max_timestamp", "min_timestamp", "ranges", "skewed")  # fmt: skip

    def __init__(self, before: Observation) -> None:
        self.key = before.key
        self.count = before.count
        self.bytes = before.bytes
        self.ranges = before.ranges
        self.copies = list(before.copies)
        self.first_offset = before.first_offset
        self.last_offset = before.last_offset
        self.min_timestamp = before.min_timestamp
        self.max_timestamp = before.max_timestamp
        self.malformed = before.malformed
        self.skewed = before.skewed

    def add(self, run: SeenRun, partition: int) -> None:
        """Count a run that was read from ``partition``."""
        if self.key.stamped:
            again = self.ranges & RangeSet.single(run.first, run.last) if self.ranges else EMPTY
            for copy in _copies(again, run, partition):
                if len(self.copies) >= MAX_COPIES:
                    break
                self.copies.append(copy)
            self.ranges = self.ranges.add(run.first, run.last)
        self.count += run.count
        self.bytes += run.bytes
        self.malformed += run.malformed
        self.skewed += run.skewed
        if self.first_offset < 0 or run.offset < self.first_offset:
            self.first_offset = run.offset
        self.last_offset = max(self.last_offset, run.last_offset)
        if self.min_timestamp < 0 or 0 <= run.min_timestamp < self.min_timestamp:
            self.min_timestamp = run.min_timestamp
        self.max_timestamp = max(self.max_timestamp, run.max_timestamp)

    def observation(self) -> Observation:
        """The cell as counted now."""
        return Observation(
            key=self.key,
            count=self.count,
            bytes=self.bytes,
            ranges=self.ranges,
            copies=tuple(self.copies),
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            min_timestamp=self.min_timestamp,
            max_timestamp=self.max_timestamp,
            malformed=self.malformed,
            skewed=self.skewed,
        )


def _copies(again: RangeSet, run: SeenRun, partition: int) -> Iterator[Copy]:
    for first, last in again:
        for sequence in range(first, last + 1):
            yield Copy(partition, run.offset + sequence - run.first, sequence)


def count(
    runs: Iterable[SeenRun], partition: int, before: Mapping[CellKey, Observation]
) -> dict[CellKey, Observation]:
    """The cells after counting the runs, of those that changed."""
    counters: dict[CellKey, CellCounter] = {}
    for run in runs:
        counter = counters.get(run.key)
        if counter is None:
            counter = CellCounter(before.get(run.key) or Observation(run.key))
            counters[run.key] = counter
        counter.add(run, partition)
    return {key: counter.observation() for key, counter in counters.items()}
