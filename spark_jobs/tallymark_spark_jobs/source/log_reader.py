"""What the source does at the brokers: plan spans of offsets, and read one into Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tallymark.client import FetchSpec, SimpleConsumer
from tallymark.errors import KafkaError
from tallymark_spark_jobs.engine.files import located
from tallymark_spark_jobs.source import kinds, rows
from tallymark_spark_jobs.source.asking import CLIENT, bounds_of, isolation_of
from tallymark_spark_jobs.source.counted.rows import counted_rows
from tallymark_spark_jobs.source.damage import Damage, Expired
from tallymark_spark_jobs.source.options import COUNTED, SourceOptions
from tallymark_spark_jobs.source.planning import Span, plan
from tallymark_spark_jobs.source.portions import PiecePortion, Portion, TablePortion
from tallymark_spark_jobs.source.reading import ANY_TIME, Piece, read_tables
from tallymark_spark_jobs.source.record_rows import record_rows
from tallymark_spark_jobs.source.stamp_rows import stamp_rows
from tallymark_spark_jobs.source.tables import Table, TableReader, worth_compiling

ROWS_PER_BATCH: Final = 10_000
_BYTES: Final = 8 << 20
"""Records of so many bytes are a batch, however few they are."""
_NO_END: Final = 1 << 63


def plan_spans(options: SourceOptions) -> list[Span]:
    """Ask the brokers where the logs begin and end, once, and plan what to read.

    Raises UserError for topics and offsets that are not there, and the client's errors. One batch
    of each topic is asked for, so that what no task may read is refused here, once."""
    spans = plan(options, bounds_of(options))
    if spans:
        with open_consumer(options) as consumer:
            _refuse_unreadable(consumer, spans)
    return spans


def _refuse_unreadable(consumer: SimpleConsumer, spans: list[Span]) -> None:
    first = {span.topic: span for span in reversed(spans)}
    specs = [FetchSpec(span.topic, span.partition, span.start) for span in first.values()]
    for answer in consumer.multifetch(specs, max_bytes=1, max_wait_ms=0):
        # An offset that is gone, or a batch that is damaged: the options say what is done then.
        if isinstance(answer, KafkaError) and answer.name.endswith("AUTHORIZATION_FAILED"):
            raise answer


def open_consumer(options: SourceOptions) -> SimpleConsumer:
    """A client for one span."""
    return SimpleConsumer(
        bootstrap_servers=options.bootstrap_servers,
        client_id=CLIENT,
        isolation=isolation_of(options),
        **located(options.security),
    )


def read_batches(options: SourceOptions, span: Span) -> Iterator[Any]:
    """The span's records as Arrow batches, in the schema of the options' mode. With
    ``failOnCorruptBatch=false`` a batch that cannot be read is passed over, and a row says so; else
    DamagedError. But among records, rows also say what expired (``failOnDataLoss=false``), and what
    lies behind the span and was left out for its time. Avro values are decoded."""
    plain = _plain_batches(options, span)
    if options.avro is None:
        return plain
    from tallymark_spark_jobs.source.avro.rows import decoded_batches

    return decoded_batches(plain, span.topic, span.partition, options.avro)


def _plain_batches(options: SourceOptions, span: Span) -> Iterator[Any]:
    worth_compiling(span.offsets)
    with open_consumer(options) as consumer:
        if options.mode in COUNTED:
            yield from counted_rows(options, span, _read(consumer, options, span))
        else:
            yield from _Reader(options, span).batches(consumer)


def _read(
    consumer: SimpleConsumer, options: SourceOptions, span: Span
) -> Iterator[Table | list[Piece] | Damage | Expired]:
    since = options.starting_timestamp
    return read_tables(
        consumer,
        span,
        TableReader(),
        not options.fail_on_corrupt_batch,
        expires=not options.fail_on_data_loss,
        since=ANY_TIME if since is None else since,
        aborted=options.mode != "records",
    )


class _Reader:
    """Reads one span."""

    def __init__(self, options: SourceOptions, span: Span) -> None:
        self._options = options
        self._span = span
        self._schema = rows.schema_of(options)
        self._stamps = options.mode == "stamps"
        self._times = _Times(
            ANY_TIME if options.starting_timestamp is None else options.starting_timestamp,
            _NO_END if options.ending_timestamp is None else options.ending_timestamp,
        )

    def batches(self, consumer: SimpleConsumer) -> Iterator[Any]:
        """All of it."""
        waiting: list[Piece] = []
        for found in _read(consumer, self._options, self._span):
            if isinstance(found, list):
                waiting += self._wanted(found)
                if _are_few(waiting):
                    continue
            yield from self._flushed(waiting)
            waiting = []
            if not isinstance(found, list):
                yield from self._other(found)
        yield from self._flushed(waiting)
        if self._span.left_out and self._stamps:
            bounds = (self._span.end, self._span.left_out)
            yield rows.missing_stamp(self._schema, self._span, kinds.LEFT_OUT, *bounds)

    def _flushed(self, pieces: list[Piece]) -> Iterator[Any]:
        if pieces:
            yield self._rows(PiecePortion(pieces))

    def _other(self, found: Table | Damage | Expired) -> Iterator[Any]:
        schema, span = self._schema, self._span
        if isinstance(found, Table):
            table = self._times.of_table(found)
            if table is not None:
                yield self._rows(TablePortion(table))
        elif isinstance(found, Expired):
            if self._stamps:
                yield rows.missing_stamp(schema, span, kinds.EXPIRED, *found)
        elif self._stamps:
            yield rows.damaged_stamp(schema, span, found)
        else:
            yield rows.damaged_record(schema, span, found)

    def _wanted(self, pieces: list[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            some = self._times.of_piece(piece)
            if some is not None:
                yield some

    def _rows(self, portion: Portion) -> Any:
        make = stamp_rows if self._stamps else record_rows
        return make(self._schema, self._span, portion)


def _are_few(pieces: list[Piece]) -> bool:
    rows = sum([len(piece.columns) for piece in pieces])
    return rows < ROWS_PER_BATCH and sum([piece.columns.size for piece in pieces]) < _BYTES


@dataclass(frozen=True, slots=True)
class _Times:
    """Times (ms) from ``first`` on and before ``end``."""

    first: int
    end: int

    def of_piece(self, piece: Piece) -> Piece | None:
        """Those of its records that have such a time."""
        if self.first == ANY_TIME and self.end == _NO_END:
            return piece
        least, greatest = piece.columns.timestamp_bounds()
        if self.first <= least and greatest < self.end:
            return piece
        if greatest < self.first or least >= self.end:
            return None
        keep = [self.first <= time < self.end for time in piece.columns.timestamps]
        columns = piece.columns.only(keep)
        return piece._replace(columns=columns) if len(columns) else None

    def of_table(self, table: Table) -> Table | None:
        """The same."""
        if self.first == ANY_TIME and self.end == _NO_END:
            return table
        return table.within_times(self.first, self.end)
