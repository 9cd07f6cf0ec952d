"""Batches whose CRC does not hold: passed over when reading them again does not help, and read
again from time to time, since an operator may repair the log.

The store records that a batch was passed over, together with the position behind it, so nothing
waits for it. When it can be read, its records are counted and its row is deleted, in one
transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from tallymark.client import FetchSpec
from tallymark.client.reading.behind import goes_on_at
from tallymark.errors import CODES, CorruptMessageError, KafkaError
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition
from tallymark_audit.collector import corrections
from tallymark_audit.collector.counting.readable import ReadablePart
from tallymark_audit.collector.ledger import CountedFetch, Ledger
from tallymark_audit.model.log_reader import FetchedLike, LogReader
from tallymark_audit.store.counted.damage import UnreadableSpan
from tallymark_audit.store.counted.positions import Position

FETCH_BYTES: Final = 1 << 20
FIRST_LOOK_MS: Final = 10_000
LONGEST_MS: Final = 3_600_000
"""The time between two looks doubles up to this."""
AT_ONCE: Final = 10
"""So many are looked at in one step."""
Count = Callable[[Position, FetchedLike, int], CountedFetch]


def fetch_from(reader: LogReader, place: TopicPartition) -> Callable[[int], FetchedLike]:
    """Reads the partition from an offset on; raises the error of the batch there."""

    def fetch(offset: int) -> FetchedLike:
        spec = FetchSpec(*place, offset, -1)
        (answer,) = reader.multifetch([spec], max_bytes=FETCH_BYTES, max_wait_ms=0, min_bytes=1)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    return fetch


def pass_over(reader: LogReader, position: Position, error: CorruptMessageError) -> CountedFetch:
    """The position behind the batch that cannot be read, and the offsets left out. Any other error:
    the log cannot be read now."""
    place, start = position.place, position.next_offset
    (end,) = reader.get_offsets_before(*place, LATEST)
    fetch = fetch_from(reader, place)
    behind = goes_on_at(error, fetch, end)
    hole = UnreadableSpan(
        start, behind, error.reason, position.counted_through, _time_at(fetch, behind, end)
    )
    return CountedFetch(start, replace(position, next_offset=behind, leader_epoch=-1), holes=[hole])


def _time_at(fetch: Callable[[int], FetchedLike], offset: int, end: int) -> int:
    """The time (ms) of the record there; -1: there is none, or it cannot be read."""
    if offset >= end:
        return -1
    try:
        found = fetch(offset)
    except CorruptMessageError:
        return -1
    return found.batches[0].header.max_timestamp if found.batches else -1


@dataclass(slots=True)
class _Look:
    wait: int
    at: int


@dataclass(slots=True)
class Mending:
    """Reads again what could not be read; a chore of every collector, for partitions of its own.
    ``count`` counts the records of a fetch."""

    reader: LogReader
    ledger: Ledger
    count: Count
    name: str = "looking at damaged batches"
    every_ms: int = FIRST_LOOK_MS
    _looks: dict[tuple[TopicPartition, int], _Look] = field(
        default_factory=dict[tuple[TopicPartition, int], _Look]
    )

    def step(self, now: int) -> None:
        """Look at those that are due. KafkaError, ConnectError: not now."""
        found = {(place, hole.start): hole for place, hole in self.ledger.may_be_mended()}
        self._looks = {
            key: self._looks.get(key) or _Look(FIRST_LOOK_MS, now + FIRST_LOOK_MS) for key in found
        }
        due = sorted(key for key in found if self._looks[key].at <= now)[:AT_ONCE]
        for key in due:
            look = self._looks[key]
            look.wait = min(LONGEST_MS, 2 * look.wait)
            look.at = now + look.wait
            self._look(key[0], found[key], now)

    def _look(self, place: TopicPartition, hole: UnreadableSpan, now: int) -> None:
        at, position = hole.start, self.ledger.positions[place]
        fetch, batches, left_out = fetch_from(self.reader, place), [], []
        try:
            while at < hole.end:
                fetched = fetch(at)
                batches += [b for b in fetched.batches if b.header.base_offset < hole.end]
                left_out += [b for b in fetched.left_out if b.header.base_offset < hole.end]
                if fetched.next_offset <= at:
                    return
                at = fetched.next_offset
        except CorruptMessageError:
            return
        except KafkaError as error:
            if error.code != CODES["OFFSET_OUT_OF_RANGE"]:
                raise
            (start,) = self.reader.get_offsets_before(*place, EARLIEST)
            if start > hole.start:
                corrections.give_up(self.ledger, place, hole)
            return
        part = ReadablePart(batches, left_out, hole.end, position.high_watermark)
        found = self.count(replace(position, next_offset=hole.start), part, now)
        if not found.holes:
            corrections.fill(self.ledger, hole, replace(found, to=position), now)
