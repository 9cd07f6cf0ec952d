"""The fetches of one span, and what can go wrong between them: damage, expiry, another log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast

from tallymark.client.reading.behind import goes_on_at
from tallymark.errors import (
    BatchCutError,
    CorruptMessageError,
    KafkaError,
    LogTruncatedError,
    UserError,
)
from tallymark.protocol.records.batch import Batch
from tallymark.protocol.topic_partition import EARLIEST
from tallymark_spark_jobs.source.damage import Damage, Expired, Notes
from tallymark_spark_jobs.source.planning import Span

FETCH_BYTES: Final = 4 << 20
STALLED_SECONDS = 30.0
"""How long a partition may answer with nothing before a read fails."""
TRIES: Final = 3
"""How often a batch is fetched that cannot be read: it may have been damaged on the way."""


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


class Asker(Protocol):
    """What else is used of it: where a log was planned with its topic's id or leader epoch, or may
    expire while it is read."""

    def topics_named(self, names: Sequence[str]) -> Mapping[str, Any]: ...
    def epoch_end(self, topic: str, partition: int, leader_epoch: int) -> int | None: ...
    def get_offsets_before(self, topic: str, partition: int, time: int) -> list[int]: ...


class Taken(NamedTuple):
    """A fetch from ``offset`` on."""

    offset: int
    fetch: Fetch


def fetches(
    consumer: Fetcher, span: Span, notes: Notes, expires: bool = False
) -> Iterator[Taken | Damage | Expired]:
    """Fetches that together hold the span. ``notes`` says what is done about batches that the
    client cannot read. ``expires``: what retention deletes meanwhile is reported and passed over.

    Raises DamagedError; UserError when the log was cut, made anew, or its beginning deleted, or
    when it returns nothing for :data:`STALLED_SECONDS`; else errors of the client, after it has
    retried for its request timeout."""
    check_log(consumer, span)
    offset, epoch = span.start, -1
    deadline = time.monotonic() + STALLED_SECONDS
    while offset < span.end:
        try:
            fetched = _whole_fetch(consumer, span, offset, epoch)
        except CorruptMessageError as error:
            end = -1 if isinstance(error, BatchCutError) else _behind(consumer, span, error)
            yield from notes.unreadable(offset, min(end, span.end), error.reason)
            offset, epoch = end, -1
            continue
        except _OutOfRangeError as error:
            end = _new_beginning(consumer, span, offset) if expires else -1
            if end <= offset:
                raise _gone(span, offset) from error
            yield Expired(offset, min(end, span.end))
            offset, epoch = end, -1
            continue
        if fetched.next_offset > offset:
            yield Taken(offset, fetched)
            offset, epoch = fetched.next_offset, fetched.last_epoch
            deadline = time.monotonic() + STALLED_SECONDS
        elif time.monotonic() > deadline:
            raise UserError(
                f"{span.topic}-{span.partition} gives nothing at offset {offset} of {span.end}",
                "look at the broker's log",
            )
    check_log(consumer, span)


def check_log(consumer: Fetcher, span: Span) -> None:
    """UserError unless the topic is still the one that was planned, and its log was not cut below
    the end of the span since: offsets alone do not show it once other records stand there."""
    where = f"{span.topic}-{span.partition}"
    if span.topic_id:
        found = cast("Asker", consumer).topics_named([span.topic]).get(span.topic)
        if isinstance(found, KafkaError) and found.retriable:
            raise found
        now = str(getattr(found, "topic_id", "none"))
        if now != span.topic_id:
            raise UserError(
                f"{where}: the topic was deleted or made anew since offsets {span.start} to "
                f"{span.end} were planned: its id was {span.topic_id}, now it is {now}",
                "run the job again",
            )
    if span.leader_epoch >= 0:
        asker = cast("Asker", consumer)
        end = asker.epoch_end(span.topic, span.partition, span.leader_epoch)
        if end is not None and end < span.end:
            raise _cut(span, end)


class _OutOfRangeError(Exception):
    """The log has no such offset."""


def _whole_fetch(consumer: Fetcher, span: Span, offset: int, epoch: int) -> Fetch:
    """CorruptMessageError: each of :data:`TRIES` times."""
    for _ in range(TRIES - 1):
        try:
            return _fetch(consumer, span, offset, epoch)
        except CorruptMessageError:
            continue
    return _fetch(consumer, span, offset, epoch)


def _fetch(consumer: Fetcher, span: Span, offset: int, epoch: int) -> Fetch:
    try:
        fetched = consumer.fetch(
            span.topic,
            span.partition,
            offset,
            max_bytes=FETCH_BYTES,
            max_wait_ms=500,
            last_epoch=epoch,
        )
    except LogTruncatedError as error:
        raise _cut(span, offset) from error
    except KafkaError as error:
        if error.name != "OFFSET_OUT_OF_RANGE":
            raise
        raise _OutOfRangeError from error
    if fetched.high_watermark < span.end and fetched.next_offset <= offset:
        raise _cut(span, fetched.high_watermark)
    return fetched


def _behind(consumer: Fetcher, span: Span, error: CorruptMessageError) -> int:
    return goes_on_at(error, lambda at: _probe(consumer, span, at), span.end)


def _probe(consumer: Fetcher, span: Span, offset: int) -> Fetch:
    try:
        return _fetch(consumer, span, offset, -1)
    except _OutOfRangeError as error:
        raise _gone(span, offset) from error


def _new_beginning(consumer: Fetcher, span: Span, offset: int) -> int:
    """Where the log begins now; -1: not behind ``offset``, which it does not hold either."""
    begins = cast("Asker", consumer).get_offsets_before(span.topic, span.partition, EARLIEST)
    return begins[0] if begins and begins[0] > offset else -1


def _gone(span: Span, offset: int) -> UserError:
    return UserError(
        f"{span.topic}-{span.partition}: offset {offset} was deleted or cut off while it was being "
        "read",
        "run the job again; failOnDataLoss=false reads what is left",
    )


def _cut(span: Span, end: int) -> UserError:
    return UserError(
        f"{span.topic}-{span.partition} ends at {end}, but at {span.end} when the read was "
        "planned: the log was cut meanwhile",
        "run the job again",
    )
