"""Read one span of one partition, start included, end excluded, and not one record more."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from tallymark.client.reading.behind import goes_on_at
from tallymark.errors import (
    BatchCutError,
    CorruptMessageError,
    CorruptRecordError,
    KafkaError,
    UserError,
)
from tallymark.protocol.records.batch import Batch, BatchHeader, Record
from tallymark.protocol.records.columns import RecordColumns
from tallymark_spark_jobs.source.planning import Span

FETCH_BYTES = 4 << 20
STALLED_SECONDS = 30.0
"""How long a partition may answer with nothing before a read fails."""


TRIES = 3
"""How often a batch is fetched that cannot be read: it may have been damaged on the way."""
AT_ONCE = 32 << 20
"""Bytes that are unpacked before they are handed on; one batch at least."""
MOST = 100
"""So many unreadable ranges of a span are kept apart; beyond that the last one grows."""


class DamagedError(UserError):
    """The batch at ``offset`` of a partition cannot be read, its CRC does not hold for instance;
    ``why`` says what. ``since``: the newest time (ms) of what was read of the span before it, -1
    where it was the first."""

    def __init__(self, span: Span, offset: int, why: str, since: int) -> None:
        super().__init__(
            f"{span.topic}-{span.partition} cannot be read from offset {offset} on: {why}",
            "tallymark verify-log on its broker shows what the log has there; "
            "failOnCorruptBatch=false reads what stands before and behind it",
        )
        self.offset = offset
        self.why = why
        self.since = since


class Damage(NamedTuple):
    """Offsets ``offset`` up to ``end``, excluded, that cannot be read, and ``why``; in the span the
    newest time (ms) before is ``since``, the next one behind ``until``; -1 where there is none."""

    offset: int
    end: int
    why: str
    since: int
    until: int = -1


class Fetch(Protocol):
    """What is used of the client's ``Fetched``."""

    @property
    def high_watermark(self) -> int: ...
    @property
    def batches(self) -> Sequence[Batch]: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def last_epoch(self) -> int: ...
    @property
    def left_out(self) -> Sequence[Batch]: ...


class Fetcher(Protocol):
    """What is used of :class:`tallymark.client.SimpleConsumer`; tests bring their own."""

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int,
        max_wait_ms: int,
        last_epoch: int,
    ) -> Fetch: ...


class Piece(NamedTuple):
    """A batch's header and those of its records that lie within the span, one at least.
    ``aborted``: their transaction was, so a reader of committed records has left them out."""

    header: BatchHeader
    columns: RecordColumns
    aborted: bool = False

    def records(self) -> list[Record]:
        """The records one by one: several times dearer than the columns."""
        return self.columns.records()


def read_span(
    consumer: Fetcher, span: Span, passes: bool = False
) -> Iterator[list[Piece] | Damage]:
    """The records of the span, in lists of pieces that hold about :data:`AT_ONCE` bytes at most,
    those that were left out behind the others of their fetch. Control batches are passed over; and
    so are batches that cannot be read, if ``passes``: then a Damage reports them.

    Raises DamagedError when it may not pass a batch that cannot be read, once all before it was
    given; UserError when the log was cut or its beginning deleted while it was read, or when it
    returns nothing for :data:`STALLED_SECONDS`; else errors of the client, after it has retried for
    its request timeout.
    """
    offset, epoch = span.start, -1
    notes = _Notes(span, passes)
    deadline = time.monotonic() + STALLED_SECONDS
    while offset < span.end:
        try:
            fetched = _whole_fetch(consumer, span, offset, epoch)
        except CorruptMessageError as error:
            end = -1 if isinstance(error, BatchCutError) else _behind(consumer, span, error)
            yield from notes.unreadable(offset, min(end, span.end), error.reason)
            offset, epoch = end, -1
            continue
        if fetched.next_offset > offset:
            yield from _readable(fetched, offset, span, notes)
            offset, epoch = fetched.next_offset, fetched.last_epoch
            deadline = time.monotonic() + STALLED_SECONDS
        elif time.monotonic() > deadline:
            raise UserError(
                f"{span.topic}-{span.partition} gives nothing at offset {offset} of {span.end}",
                "look at the broker's log",
            )
    yield from notes.ended()


class _Notes:
    """What of a span could not be read. One damage is held back until it is known what follows."""

    def __init__(self, span: Span, passes: bool) -> None:
        self._span = span
        self._passes = passes
        self._newest = -1
        self._open: Damage | None = None
        self._told = 0

    def unreadable(self, offset: int, end: int, why: str) -> Iterator[Damage]:
        """Offsets up to ``end`` (-1: not known), excluded. DamagedError: they may not be passed
        over. Batches that follow one another are one, and so is all behind the first many."""
        if not self._passes or end < 0:
            raise DamagedError(self._span, offset, why, self._newest)
        last = self._open
        if last is not None and (last.end == offset or self._told >= MOST):
            self._open = last._replace(end=end, until=-1)
            return
        yield from self.ended()
        self._told += 1
        self._open = Damage(offset, end, why, self._newest)

    def read(self, timestamp: int) -> Iterator[Damage]:
        """A batch of that time (ms) could be read."""
        self._newest = max(self._newest, timestamp)
        if self._open is not None and self._open.until < 0:
            self._open = self._open._replace(until=timestamp)
        if self._told < MOST:
            yield from self.ended()

    def ended(self) -> Iterator[Damage]:
        """Nothing more will be learned about the offsets held back."""
        if self._open is not None:
            yield self._open
        self._open = None


def _behind(consumer: Fetcher, span: Span, error: CorruptMessageError) -> int:
    return goes_on_at(error, lambda at: _fetch(consumer, span, at, -1), span.end)


def _readable(
    fetched: Fetch, offset: int, span: Span, notes: _Notes
) -> Iterator[list[Piece] | Damage]:
    """The batches of a fetch that lie in the span and can be read, unpacked one by one."""
    found: list[Piece] = []
    size = 0
    both = [(batch, False) for batch in fetched.batches]
    for batch, aborted in [*both, *((batch, True) for batch in fetched.left_out)]:
        header = batch.header
        if header.is_control or header.next_offset <= offset or header.base_offset >= span.end:
            continue
        try:
            columns = batch.columns(batch.usual_max_size)
        except CorruptRecordError as error:
            if found:
                yield found
                found, size = [], 0
            end = min(header.next_offset, span.end)
            yield from notes.unreadable(max(offset, header.base_offset), end, str(error))
            continue
        yield from notes.read(header.max_timestamp)
        size += columns.size
        if header.base_offset < offset or header.next_offset > span.end:
            columns = columns.within(offset, span.end)
        if columns:
            found.append(Piece(header, columns, aborted))
        if size >= AT_ONCE:
            yield found
            found, size = [], 0
    if found:
        yield found


def _whole_fetch(consumer: Fetcher, span: Span, offset: int, epoch: int) -> Fetch:
    """CorruptMessageError: each of :data:`TRIES` times."""
    for _ in range(TRIES - 1):
        try:
            return _fetch(consumer, span, offset, epoch)
        except CorruptMessageError:
            continue
    return _fetch(consumer, span, offset, epoch)


def _fetch(consumer: Fetcher, span: Span, offset: int, epoch: int) -> Fetch:
    where = f"{span.topic}-{span.partition}"
    try:
        fetched = consumer.fetch(
            span.topic,
            span.partition,
            offset,
            max_bytes=FETCH_BYTES,
            max_wait_ms=500,
            last_epoch=epoch,
        )
    except KafkaError as error:
        if error.name != "OFFSET_OUT_OF_RANGE":
            raise
        raise UserError(
            f"{where}: offset {offset} was deleted or cut off while it was being read",
            "run the job again",
        ) from error
    if fetched.high_watermark < span.end and fetched.next_offset <= offset:
        raise UserError(
            f"{where} ends at {fetched.high_watermark}, but at {span.end} when the read was "
            "planned: the log was cut meanwhile",
            "run the job again",
        )
    return fetched
