"""Read one span of one partition, start included, end excluded, and not one record more."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from tallymark.errors import CorruptMessageError, CorruptRecordError, KafkaError, UserError
from tallymark.protocol.records import Batch, BatchHeader, Record
from tallymark_spark_jobs.planning import Span

FETCH_BYTES = 4 << 20
STALLED_SECONDS = 30.0
"""How long a partition may answer with nothing before a read fails."""


TRIES = 3
"""How often a batch is fetched that cannot be read: it may have been damaged on the way."""


class DamagedError(UserError):
    """The batch at ``offset`` of a partition cannot be read, its CRC does not hold for instance;
    ``why`` says what. ``since``: the newest time (ms) of what was read of the span before it, -1
    where it was the first."""

    def __init__(self, span: Span, offset: int, why: str, since: int) -> None:
        super().__init__(
            f"{span.topic}-{span.partition} cannot be read from offset {offset} on: {why}",
            "tallymark verify-log on its broker shows what the log has there; "
            "failOnCorruptBatch=false reads what stands before it",
        )
        self.offset = offset
        self.why = why
        self.since = since


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
    """A batch's header and those of its records that lie within the span. ``aborted``: their
    transaction was, so a reader of committed records has left them out."""

    header: BatchHeader
    records: list[Record]
    aborted: bool = False


def read_span(consumer: Fetcher, span: Span) -> Iterator[list[Piece]]:
    """The records of the span, a list of pieces a fetch, those that were left out at its end.
    Control batches are passed over.

    Raises DamagedError when a batch cannot be read, once all before it was given; UserError when
    the log was cut or its beginning deleted while it was read, or when it gives nothing for
    :data:`STALLED_SECONDS`; else the client's errors, which has by then tried again for its request
    timeout.
    """
    offset, epoch, newest = span.start, -1, -1
    deadline = time.monotonic() + STALLED_SECONDS
    while offset < span.end:
        try:
            fetched = _whole_fetch(consumer, span, offset, epoch)
        except CorruptMessageError as error:
            raise DamagedError(span, error.offset, error.reason, newest) from error
        if fetched.next_offset > offset:
            found: list[Piece] = []
            try:
                found.extend(_pieces(fetched.batches, offset, span.end))
                aborted = _pieces(fetched.left_out, offset, span.end)
                found.extend(piece._replace(aborted=True) for piece in aborted)
            except _UnreadableError as error:
                before = [one for one in found if one.header.base_offset < error.offset]
                yield before
                newest = max([newest, *_times(before)])
                raise DamagedError(span, error.offset, str(error.__cause__), newest) from error
            yield found
            newest = max([newest, *_times(found)])
            offset, epoch = fetched.next_offset, fetched.last_epoch
            deadline = time.monotonic() + STALLED_SECONDS
        elif time.monotonic() > deadline:
            raise UserError(
                f"{span.topic}-{span.partition} gives nothing at offset {offset} of {span.end}",
                "look at the broker's log",
            )


class _UnreadableError(Exception):
    """The batch at ``offset`` does not decode, says the cause."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def _times(pieces: Sequence[Piece]) -> Iterator[int]:
    return (record.timestamp for piece in pieces for record in piece.records)


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


def _pieces(batches: Sequence[Batch], first: int, end: int) -> Iterator[Piece]:
    for batch in batches:
        header = batch.header
        if header.is_control or header.next_offset <= first or header.base_offset >= end:
            continue
        try:
            records = batch.records()
        except CorruptRecordError as error:
            raise _UnreadableError(header.base_offset) from error
        if header.base_offset < first or header.next_offset > end:
            records = [record for record in records if first <= record.offset < end]
        if records:
            yield Piece(header, records)
