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
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tallymark_spark_jobs.engine.errors import in_one_line
from tallymark_spark_jobs.source.options import SourceOptions, declared_schema, parse_options

if TYPE_CHECKING:
    from tallymark_spark_jobs.source.planning import Span


class TallymarkSource(DataSource):
    """The source itself: options in, schema and reader out."""

    @classmethod
    def name(cls) -> str:
        """The name that ``format()`` takes."""
        return "tallymark"

    def schema(self) -> str:
        """The columns of the mode, or those of them that the option ``columns`` names."""
        return declared_schema(self._parsed())

    def reader(self, schema: Any) -> DataSourceReader:
        """A batch reader. The parameter's name is Spark's: it is passed by keyword."""
        return LogReader(self._parsed())

    def _parsed(self) -> SourceOptions:
        with in_one_line():
            return parse_options(self.options)


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
