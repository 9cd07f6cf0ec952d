"""Count runs into cells, and find which records were there before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from tallymark_audit.model import sketches
from tallymark_audit.model.cells import CellKey, Copy, merge_blocks
from tallymark_audit.model.hashing import MASK, fingerprint
from tallymark_audit.model.ranges import GrowingRanges, RangeSet
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.model.sides import Observation

MAX_COPIES: Final = 1000
"""Copies named in one cell; all are counted."""
MAX_RANGES: Final = 10_000
"""Ranges of one cell, where the settings do not say."""


class CellCounter:
    """One cell under counting, on top of what was counted before.

    A cell that needs more than ``max_ranges`` ranges keeps the sum of the hashes of its sequences
    instead. The sum includes every copy, so it differs from the sum upstream where a record arrived
    twice; from then on copies cannot be distinguished from the other records."""

    __slots__ = (
        "aborted",
        "before",
        "blocks",
        "bytes",
        "copies",
        "count",
        "detached",
        "fingerprint",
        "first_offset",
        "last_offset",
        "latency",
        "malformed",
        "max_ranges",
        "max_timestamp",
        "min_timestamp",
        "ranges",
        "skewed",
        "stamped",
    )  # fmt: skip

    def __init__(self, before: Observation, max_ranges: int) -> None:
        self.before = before
        self.stamped = before.key.stamped
        self.detached = before.detached
        self.max_ranges = max_ranges
        self.count = before.count
        self.bytes = before.bytes
        self.ranges = GrowingRanges(before.ranges)
        self.aborted = before.aborted
        self.fingerprint = before.fingerprint
        self.blocks = before.blocks
        self.copies = list(before.copies)
        self.latency = sketches.from_list(before.latency)
        self.first_offset = before.first_offset
        self.last_offset = before.last_offset
        self.min_timestamp = before.min_timestamp
        self.max_timestamp = before.max_timestamp
        self.malformed = before.malformed
        self.skewed = before.skewed

    def add(self, run: SeenRun, partition: int) -> None:
        """Count a run that was read from ``partition``. What was aborted is kept apart."""
        if not self.detached and (self.first_offset < 0 or run.offset < self.first_offset):
            self.first_offset = run.offset
        last_offset = run.offset + run.count - 1
        if last_offset > self.last_offset:
            self.last_offset = last_offset
        if run.aborted:
            if self.stamped and len(self.aborted.ranges) < self.max_ranges:
                self.aborted = self.aborted.add(run.first, run.last)
            return
        if self.stamped:
            self._add_sequences(run, partition)
        self.count += run.count
        self.bytes += run.bytes
        self.malformed += run.malformed
        self.skewed += run.skewed
        if self.min_timestamp < 0 or 0 <= run.min_timestamp < self.min_timestamp:
            self.min_timestamp = run.min_timestamp
        if run.max_timestamp > self.max_timestamp:
            self.max_timestamp = run.max_timestamp
        if run.blocks:
            self.blocks = merge_blocks(self.blocks, run.blocks)
        if run.latency:
            sketches.merge_into(self.latency, run.latency)

    def _add_sequences(self, run: SeenRun, partition: int) -> None:
        if self.fingerprint is not None:
            self.fingerprint = self.fingerprint + _hash(run) & MASK
            return
        first, last, ranges = run.first, run.first + run.count - 1, self.ranges
        again = ranges.among(first, last)
        if again:
            room = MAX_COPIES - len(self.copies)
            self.copies += islice(_copies(again, run, partition), max(0, room))
        ranges.add(first, last)
        if len(ranges) > self.max_ranges:
            self.fingerprint, self.ranges = fingerprint(ranges.frozen()), GrowingRanges()

    def observation(self) -> Observation:
        """The cell as counted now."""
        return Observation(
            key=self.before.key,
            count=self.count,
            bytes=self.bytes,
            ranges=self.ranges.frozen(),
            copies=tuple(self.copies),
            aborted=self.aborted,
            fingerprint=self.fingerprint,
            blocks=self.blocks,
            rewritten=self.before.rewritten,
            latency=tuple(sketches.to_list(self.latency)),
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            min_timestamp=self.min_timestamp,
            max_timestamp=self.max_timestamp,
            malformed=self.malformed,
            skewed=self.skewed,
        )


def _hash(run: SeenRun) -> int:
    return fingerprint(RangeSet.single(run.first, run.last))


def _copies(again: RangeSet, run: SeenRun, partition: int) -> Iterator[Copy]:
    for first, last in again:
        for sequence in range(first, last + 1):
            yield Copy(partition, run.offset + sequence - run.first, sequence)


def count(
    runs: Iterable[SeenRun],
    partition: int,
    before: Mapping[CellKey, Observation],
    max_ranges: int = MAX_RANGES,
) -> dict[CellKey, Observation]:
    """The cells after counting the runs, of those that changed."""
    counters: dict[CellKey, CellCounter] = {}
    for run in runs:
        counter = counters.get(run.key)
        if counter is None:
            counter = CellCounter(before.get(run.key) or Observation(run.key), max_ranges)
            counters[run.key] = counter
        counter.add(run, partition)
    return {key: counter.observation() for key, counter in counters.items()}
