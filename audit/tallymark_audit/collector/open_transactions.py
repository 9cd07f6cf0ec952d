"""Which transaction a partition waits for: readers of committed records stop where it begins.

Transactions that end soon are no matter. One at which counting still stands after :data:`SOON_MS`
is looked at once, by a fetch of what is not committed yet: its first batch names the producer, of
which a coordinator then says the timeout (:mod:`.transaction_timeouts`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tallymark.client import FetchSpec
from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.log_reader import FetchedLike, LogReader
from tallymark_audit.store.counted.positions import Position

SOON_MS: Final = 5_000
_BYTES: Final = 64 * 1024
TimeoutOf = Callable[[int, int], int]
"""(producer id, now in ms) -> the timeout of its transactions, ms; 0: not known, or not yet."""


class OpenTransactions:
    """Where counting stands at open transactions, and since when. Times in ms."""

    def __init__(self, reader: LogReader, timeout_of: TimeoutOf) -> None:
        self._reader = reader
        self._timeout_of = timeout_of
        self._found: dict[TopicPartition, tuple[int, int]] = {}
        """Offset of a transaction's beginning, and when counting first stood there."""

    def noted(self, position: Position, fetched: FetchedLike, now: int) -> Position:
        """The position that was reached with a fetch, with the transaction that it waits for."""
        at, place = fetched.last_stable_offset, position.place
        if not 0 <= at < fetched.high_watermark or position.next_offset < at:
            self._found.pop(place, None)
            return _without(position)
        if position.open_offset == at and position.open_producer >= 0:
            return self._with_timeout(position, now)
        known = position.open_since if position.open_offset == at else now
        offset, since = self._found.setdefault(place, (at, known))
        if offset != at:
            since = known
            self._found[place] = at, since
        if now - since < SOON_MS:
            return _without(position)
        producer = self._producer_at(place, at)
        named = replace(
            position, open_offset=at, open_producer=producer, open_since=since, open_timeout=0
        )
        return self._with_timeout(named, now)

    def _with_timeout(self, position: Position, now: int) -> Position:
        """As soon as it is known."""
        if position.open_timeout or position.open_producer < 0:
            return position
        timeout = self._timeout_of(position.open_producer, now)
        return replace(position, open_timeout=timeout) if timeout else position

    def _producer_at(self, place: TopicPartition, offset: int) -> int:
        """The producer of the batch there; -1: it could not be read, which the next look may."""
        (answer,) = self._reader.multifetch(
            [FetchSpec(*place, offset)],
            max_bytes=_BYTES,
            max_wait_ms=0,
            isolation="read_uncommitted",
        )
        if isinstance(answer, KafkaError):
            return -1
        return next((batch.header.producer_id for batch in answer.batches), -1)


def unknown(_producer: int, _now: int) -> int:
    """Where no coordinator is asked."""
    return 0


def _without(position: Position) -> Position:
    """It waits for no transaction."""
    return replace(position, open_offset=-1, open_producer=-1, open_since=0, open_timeout=0)
