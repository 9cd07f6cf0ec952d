"""Reads spans of partitions from their leaders, until they end or the reader is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from tallymark.cli.messages.reading.spans import Span
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.message_batch import read_columns
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import CODES, CorruptMessageError, KafkaError, LogTruncatedError, UserError
from tallymark.protocol.records.batch import Record

PATIENCE_S: Final = 60.0
"""So long every partition may fail before the reading is given up."""

ROUND_BYTES: Final = 32 * 1024 * 1024
"""So much is unpacked of a partition's answer at once, one batch at least."""

OnGap = Callable[[Span, int], None]
"""``on_gap(span, to_offset)``: its records from ``span.position`` up to ``to_offset`` are gone."""


class Stopped(Protocol):
    """A threading.Event, or what looks like one."""

    def is_set(self) -> bool: ...


class Piece(NamedTuple):
    """Records of one partition, in order."""

    span: Span
    records: Sequence[Record]


def refuse_gap(span: Span, to_offset: int) -> None:
    """For commands that must have every record: a gap is an error."""
    raise UserError(
        f"{span.topic}-{span.partition}: offsets {span.position} to {to_offset - 1} were deleted "
        "before they were read",
        "begin later, or keep them longer (retention.ms)",
    )


class SpanReader:
    """Reads spans round by round, one fetch each. ``max_bytes`` a partition and round."""

    def __init__(
        self,
        consumer: SimpleConsumer,
        *,
        on_gap: OnGap = refuse_gap,
        max_bytes: int = 1024 * 1024,
        max_wait_ms: int = 500,
    ) -> None:
        self._consumer = consumer
        self._on_gap = on_gap
        self._max_bytes = max_bytes
        self._max_wait_ms = max_wait_ms
        self._failing_since: float | None = None

    def round(self, spans: Sequence[Span]) -> list[Piece]:
        """What came within ``max_wait_ms``; the spans' positions are behind it.

        Raises KafkaError and ConnectError when a partition cannot be read at all, or none of them
        for 60 s; UserError when a log was cut below what was read already.
        """
        answers = self._consumer.multifetch(
            [FetchSpec(s.topic, s.partition, s.position, s.epoch) for s in spans],
            max_bytes=self._max_bytes,
            max_wait_ms=self._max_wait_ms,
        )
        pieces: list[Piece] = []
        problems: list[KafkaError] = []
        for span, answer in zip(spans, answers, strict=True):
            if not isinstance(answer, Fetched):
                problems.append(_mend(self._consumer, span, answer, self._on_gap))
            elif records := _take(span, answer):
                pieces.append(Piece(span, records))
        self._note(problems, len(answers))
        return pieces

    def _note(self, problems: Sequence[KafkaError], asked: int) -> None:
        now = time.monotonic()
        if len(problems) < asked:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since > PATIENCE_S:
            raise problems[0]


def read_pieces(
    consumer: SimpleConsumer,
    spans: Sequence[Span],
    stop: Stopped,
    *,
    on_gap: OnGap = refuse_gap,
) -> Iterator[Piece | None]:
    """The records of all spans as they come; None when a round brought nothing, so that the caller
    can look at the clock. Ends with the spans, or at ``stop``. Errors as of :class:`SpanReader`."""
    reader = SpanReader(consumer, on_gap=on_gap)
    while not stop.is_set() and (open_spans := [span for span in spans if not span.done]):
        pieces = reader.round(open_spans)
        yield from pieces or (None,)


def _take(span: Span, answer: Fetched) -> Sequence[Record]:
    """The span's own part of an answer; the position moves behind it. Batches may reach beyond
    the span's end, and offsets without a record (compacted, markers) are passed over."""
    records: list[Record] = []
    size, last = 0, len(answer.batches) - 1
    for number, batch in enumerate(answer.batches):
        header = batch.header
        if not header.is_control:
            try:
                columns = read_columns(
                    answer.topic, answer.partition, batch, answer.offset, answer.source
                )
            except CorruptMessageError:
                if not records:
                    raise
                return _within(span, records)  # it is met again, as the first one
            records += columns.records()
            size += columns.size
        span.epoch, span.position = header.partition_leader_epoch, header.next_offset
        if size >= ROUND_BYTES and number < last:
            return _within(span, records)  # the rest is fetched once more
    span.epoch, span.position = answer.last_epoch, answer.next_offset
    return _within(span, records)


def _within(span: Span, records: list[Record]) -> list[Record]:
    if span.end is None or span.position <= span.end:
        return records
    return [record for record in records if record.offset < span.end]


def _mend(consumer: SimpleConsumer, span: Span, error: KafkaError, on_gap: OnGap) -> KafkaError:
    """Go on behind what was deleted; raise what waiting will not mend."""
    if isinstance(error, LogTruncatedError):
        raise UserError(
            f"{error}: what was read of it is no longer in the log", "read it again"
        ) from error
    if error.code == CODES["OFFSET_OUT_OF_RANGE"]:
        start = consumer.start_offsets(span.topic)[span.partition]
        if start <= span.position:
            raise UserError(
                f"{span.topic}-{span.partition} ends before offset {span.position}",
                "read it from an offset that it has",
            ) from error
        on_gap(span, start)
        span.position, span.epoch = start, -1
    elif not error.retriable or error.code == CODES["CORRUPT_MESSAGE"]:
        raise error
    return error
