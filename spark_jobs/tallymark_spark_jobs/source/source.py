"""``spark.read.format("tallymark")``: a Python Data Source over any Kafka-compatible cluster.

Option and column names are those of Spark's Kafka source. The driver fixes the offsets once, in
:meth:`LogReader.partitions`; every task opens its own client inside :meth:`LogReader.read`, reads
exactly its span and gives Arrow batches.

Spark starts a Python process of its own for finding a source, for making it, for planning and for
reading: what only the later ones need (the client, Arrow) is imported there, not above.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from tallymark_spark_jobs.engine.errors import in_one_line
from tallymark_spark_jobs.source.options import SourceOptions, parse_options
from tallymark_spark_jobs.source.streaming.settings import as_batch, parse_stream_options

if TYPE_CHECKING:
    from tallymark_spark_jobs.source.planning import Span

RECORDS: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)
HEADERS: Final = ", headers array<struct<key: string, value: binary>>"
STAMPS: Final = (
    "topic string, partition int, offset bigint, timestamp bigint, size int, stamped tinyint, "
    "server string, instance string, origin_partition int, sequence bigint"
)
CONTENT: Final = ", content bigint"
"""The schemas as Spark has them; :mod:`tallymark_spark_jobs.source.rows` has the same for Arrow."""


class TallymarkSource(DataSource):
    """The source itself: options in, schema and reader out."""

    @classmethod
    def name(cls) -> str:
        """The name that ``format()`` takes."""
        return "tallymark"

    def schema(self) -> str:
        """The columns: of records, of records with headers, or of stamps (``mode=stamps``)."""
        with in_one_line():
            options = as_batch(self.options)
        if options.mode == "stamps":
            return STAMPS + (CONTENT if options.include_content_hash else "")
        return RECORDS + (HEADERS if options.include_headers else "")

    def reader(self, schema: Any) -> DataSourceReader:
        """A batch reader. The parameter's name is Spark's: it is passed by keyword."""
        with in_one_line():
            return LogReader(parse_options(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """A reader of micro-batches (:mod:`tallymark_spark_jobs.source.streaming`)."""
        from tallymark_spark_jobs.source.streaming.stream_reader import stream_reader

        with in_one_line():
            return stream_reader(parse_stream_options(self.options))


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
