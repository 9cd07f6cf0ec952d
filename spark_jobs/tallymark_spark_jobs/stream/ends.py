"""The source of the query: of each micro-batch the offsets that it ends at, a row a partition.

Records never pass through it. Spark has the trigger, the limit of a batch and the checkpoint; what
a batch loads is read by the load itself, from where the table ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from tallymark.client.core.security.deployment import connection_settings
from tallymark.deployment import load as load_settings
from tallymark_spark_jobs.engine.errors import in_one_line
from tallymark_spark_jobs.load.logs import chooser
from tallymark_spark_jobs.source.options import SourceOptions
from tallymark_spark_jobs.source.streaming.settings import StreamOptions
from tallymark_spark_jobs.source.streaming.stream_reader import Driver, stream_reader

if TYPE_CHECKING:
    from tallymark_spark_jobs.source.planning import Span

NAME: Final = "tallymark-ends"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the query reads. ``settings``: the deployment's file (None: where the commands find it);
    ``topics``: a regular expression; ``most`` offsets a batch, 0 for no limit."""

    settings: str | None
    cluster: str
    topics: str | None
    checkpoint: str
    most: int = 0

    def options(self) -> dict[str, str]:
        """As Spark passes them on."""
        given = {
            "settings": self.settings or "",
            "cluster": self.cluster,
            "topics": self.topics or "",
            "checkpoint": self.checkpoint,
            "most": str(self.most),
        }
        return {name: value for name, value in given.items() if value}

    @classmethod
    def of_options(cls, given: Mapping[str, str]) -> Asked:
        """The inverse."""
        return cls(
            given.get("settings"),
            given["cluster"],
            given.get("topics"),
            given["checkpoint"],
            int(given.get("most", "0")),
        )


class EndsSource(DataSource):
    """Registered by :mod:`.query` only."""

    @classmethod
    def name(cls) -> str:
        """The name that ``format()`` takes."""
        return NAME

    def schema(self) -> str:
        """A row a partition. ``begin``: where the stream began to read it, -1: not known."""
        return "topic string, topic_id string, partition int, begin bigint, end bigint"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """A reader whose offsets are those of the topics that are loaded."""
        asked = Asked.of_options(self.options)
        with in_one_line():
            return stream_reader(_stream_options(asked), _Ends(partial(_driver, asked), _rows))


@dataclass(frozen=True, slots=True)
class _Ends:
    """What this source does in its own way; pickled by name."""

    driver: Any
    read: Any

    def partitions(
        self, driver: Driver, start: dict[str, Any], end: dict[str, Any]
    ) -> list[InputPartition]:
        """One task returns all ends, those of partitions without anything new among them."""
        return [EndsPartition(tuple(driver.known(end)))]


@dataclass(frozen=True)
class EndsPartition(InputPartition):
    """What the one task of a micro-batch returns."""

    ends: tuple[tuple[Span, int], ...]


def _rows(partition: InputPartition) -> Iterator[Any]:
    import pyarrow as pa

    if not isinstance(partition, EndsPartition):
        return
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("begin", pa.int64()),
            ("end", pa.int64()),
        ]
    )
    rows = [
        {
            "topic": span.topic,
            "topic_id": span.topic_id,
            "partition": span.partition,
            "begin": begin,
            "end": span.end,
        }
        for span, begin in partition.ends
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _stream_options(asked: Asked) -> StreamOptions:
    """What is gone or was cut fails no batch here: the table knows up to where it was loaded, and
    the load says what is lost."""
    deployment = load_settings(asked.settings)
    connection = dict(connection_settings(deployment.cluster(asked.cluster)))
    servers = str(connection.pop("bootstrap_servers"))
    source = SourceOptions(
        servers,
        pattern=asked.topics or ".*",
        fail_on_data_loss=False,
        isolation="read_committed",
        security=connection,  # type: ignore[arg-type]
    )
    return StreamOptions(source, asked.checkpoint, most=asked.most)


def _driver(asked: Asked) -> Driver:
    deployment = load_settings(asked.settings)
    return Driver(_stream_options(asked), chooser(deployment, asked.topics))
