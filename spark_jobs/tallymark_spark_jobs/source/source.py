"""``spark.read.format("tallymark")``: a Python Data Source over any Kafka-compatible cluster.

Option and column names are those of Spark's Kafka source. The driver fixes the offsets once, in
:meth:`LogReader.partitions`; every task opens its own client inside :meth:`LogReader.read`, reads
exactly its span and gives Arrow batches.

Spark starts a Python process of its own for finding a source, for making it, for planning and for
reading: what only the later ones need (the client, Arrow) is imported there, not above.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from tallymark_spark_jobs.engine.errors import in_one_line
from tallymark_spark_jobs.source.options import SourceOptions, declared_schema, parse_options
from tallymark_spark_jobs.source.streaming.settings import as_batch, parse_stream_options

if TYPE_CHECKING:
    from tallymark_spark_jobs.source.avro.reader_schema import ReaderSchema
    from tallymark_spark_jobs.source.planning import Span


class TallymarkSource(DataSource):
    """The source itself: options in, schema and reader out."""

    @classmethod
    def name(cls) -> str:
        """The name that ``format()`` takes."""
        return "tallymark"

    _reader: ReaderSchema | None = None
    """Of Avro values: asked for once, in the first of the processes that this is pickled for."""

    def schema(self) -> Any:
        """The columns of the mode, or those of them that the option ``columns`` names; the value as
        the Avro schema has it, where it is decoded."""
        with in_one_line():
            # Spark does not say here whether a stream is meant.
            options = self._fixed(as_batch(self.options))
            return declared_schema(options) if options.avro is None else _avro_schema(options)

    def reader(self, schema: Any) -> DataSourceReader:
        """A batch reader. The parameter's name is Spark's: it is passed by keyword."""
        with in_one_line():
            return LogReader(self._fixed(parse_options(self.options)))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """A reader of micro-batches (:mod:`tallymark_spark_jobs.source.streaming`)."""
        from tallymark_spark_jobs.source.streaming.stream_reader import stream_reader

        with in_one_line():
            options = parse_stream_options(self.options)
            return stream_reader(replace(options, source=self._fixed(options.source)))

    def _fixed(self, options: SourceOptions) -> SourceOptions:
        """With the one schema that all tasks decode values by."""
        if options.avro is None:
            return options
        if self._reader is None:
            topics = dict.fromkeys([*options.topics, *(topic for topic, _ in options.assigned)])
            self._reader = options.avro.reader(tuple(topics))
        return replace(options, avro=replace(options.avro, fixed=self._reader))


def _avro_schema(options: SourceOptions) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    from tallymark_spark_jobs.source import rows
    from tallymark_spark_jobs.source.avro.rows import avro_schema

    assert options.avro is not None
    assert options.avro.fixed is not None
    made = avro_schema(rows.schema_of(options), options.avro.fixed, options.avro.permissive)
    return from_arrow_schema(made, prefer_timestamp_ntz=True)


@dataclass(frozen=True)
class SpanPartition(InputPartition):
    """One task's work. (A dataclass of its own, because Spark wants an InputPartition.)"""

    span: Span


class LogReader(DataSourceReader):
    """Plans on the driver, reads in the tasks; pickled on the way, so it holds options only."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """One partition a span. Called once a ``load()``; the offsets stay as they were then."""
        from tallymark_spark_jobs.source.log_reader import plan_spans

        with in_one_line():
            return [SpanPartition(span) for span in plan_spans(self.options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches of the span."""
        if not isinstance(partition, SpanPartition):
            return  # for an empty plan Spark makes up InputPartition(None), and has it read
        from tallymark_spark_jobs.source.log_reader import read_batches

        with in_one_line():
            yield from read_batches(self.options, partition.span)
