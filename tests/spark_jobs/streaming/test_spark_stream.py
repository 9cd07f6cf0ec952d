"""The streaming source in Spark, against a real broker. A query's runs are processes of Spark's own
making, so each trap is set as Spark sets it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tallymark import Admin, Producer
from tallymark.testing.broker_thread import BrokerThread
from tallymark_spark_jobs.engine.errors import line_of
from tallymark_spark_jobs.engine.session import spark_session

pytestmark = pytest.mark.spark
pyspark = pytest.importorskip("pyspark")
LIMITS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("stream tests", log, "local[2]") as session:
        yield session


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerThread(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.bootstrap_servers


Row = tuple[int, int, bytes]


class Query:
    """A stream of one topic and its checkpoint; ``run`` is one run of it, to all there is."""

    def __init__(self, spark: Any, servers: str, topic: str, folder: Path) -> None:
        self.spark = spark
        self.servers = servers
        self.topic = topic
        self.checkpoint = folder / topic
        self.batches: list[tuple[int, list[Row]]] = []
        self.admin = Admin(bootstrap_servers=servers)
        self.admin.create_topic(topic, 2)

    def send(self, partition: int, values: range) -> None:
        with Producer(bootstrap_servers=self.servers, audit=False) as producer:
            for n in values:
                producer.send(self.topic, b"%d" % n, partition=partition)

    def run(
        self,
        after: Callable[[int], None] | None = None,
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Any]:
        """Its progresses. ``after`` is called behind each batch, before Spark commits it. Spark
        gives a new Python process 10 s, which a busy machine may need: the query is started again
        then.
        """
        for _ in range(3):
            try:
                return self._run(after, options)
            except Exception as error:
                if "failed to connect back" not in str(error):
                    raise
        return self._run(after, options)

    def _run(self, after: Callable[[int], None] | None, options: Mapping[str, str]) -> list[Any]:

        def body(frame: Any, batch: int) -> None:
            rows = [(row.partition, row.offset, bytes(row.value)) for row in frame.collect()]
            self.batches.append((batch, sorted(rows)))
            if after is not None:
                after(batch)

        given = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "startingOffsetsLocation": str(self.checkpoint),
        }
        query = (
            self.spark.readStream.format("tallymark")
            .options(**{**given, **options})
            .load()
            .writeStream.foreachBatch(body)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        return list(query.recentProgress)

    def rows(self) -> list[Row]:
        return sorted(row for _, rows in self.batches for row in rows)


@pytest.fixture
def query(
    spark: Any, servers: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Query]:
    made = Query(spark, servers, request.node.originalname.replace("_", "-"), tmp_path)
    with made.admin:
        yield made


def die(_: int) -> None:
    raise RuntimeError("the driver died here")


def test_available_now_reads_all_once_and_then_what_is_new(query: Query) -> None:
    """In batches of limited size, which needs the mixin: without it Spark takes all in one. A new
    partition is read from its first record."""
    query.send(0, range(20))
    query.send(1, range(100, 105))
    limit = {"maxOffsetsPerTrigger": "10"} if LIMITS else {}
    progress = query.run(options=limit)
    expected = [(0, n, b"%d" % n) for n in range(20)]
    expected += [(1, n, b"%d" % (100 + n)) for n in range(5)]
    assert query.rows() == expected
    if LIMITS:
        assert [len(rows) for _, rows in query.batches] == [9, 9, 7]
        offsets = progress[-1].sources[0].endOffset
        assert json.loads(offsets) == {query.topic: {"0": 20, "1": 5}}
    query.batches.clear()
    query.run(options=limit)
    assert query.batches == [], "nothing is new"
    query.admin.create_partitions({query.topic: 3})
    query.send(2, range(3))
    query.send(0, range(20, 21))
    query.run(options=limit)
    assert query.rows() == [(0, 20, b"20"), *((2, n, b"%d" % n) for n in range(3))]


def test_a_batch_that_was_not_committed_comes_again_with_the_same_offsets(query: Query) -> None:
    """The body was done and the driver died before Spark's commit: the same batch id comes again,
    with the same offsets although more is there now. So commits are keyed by offsets."""
    query.send(0, range(5))
    with pytest.raises(Exception, match="the driver died here"):
        query.run(die)
    query.send(0, range(5, 9))
    query.run()
    if not LIMITS:  # AvailableNow is one batch there, and that was the old one
        query.run()
    (first, rows), (second, again), *later = query.batches
    assert (first, rows) == (second, again)
    assert [row[1] for _, rows in later for row in rows] == [5, 6, 7, 8]


@pytest.mark.soak
def test_batch_0_comes_again_after_retention_moved(query: Query) -> None:
    """Spark's offset log has no start of batch 0, and its replay asks for the initial offsets
    again: "earliest" was 4 by then, and 4 messages were lost without an error. It fails now, and
    where retention has not moved, it reads the same batch."""
    query.send(0, range(10))
    with pytest.raises(Exception, match="the driver died here"):
        query.run(die)
    query.admin.delete_records({(query.topic, 0): 4})
    with pytest.raises(Exception, match="SourceError") as failure:
        query.run()
    line = line_of(failure.value)
    assert line is not None
    assert "holds the offsets 4 to 10, and the stream needs 0 to 10" in line
    query.batches.clear()
    query.run(options={"failOnDataLoss": "false"})
    assert [row[1] for row in query.rows()] == [4, 5, 6, 7, 8, 9]


@pytest.mark.soak
def test_latest_at_the_first_start_is_the_beginning_for_ever(query: Query) -> None:
    """The replay of batch 0 would begin at a later "latest": what came meanwhile was lost."""
    query.send(0, range(3))
    options = {"startingOffsets": "latest"}
    query.run(options=options)
    assert query.rows() == []
    query.send(0, range(3, 6))
    with pytest.raises(Exception, match="the driver died here"):
        query.run(die, options)
    query.send(0, range(6, 8))
    query.batches.clear()
    query.run(options=options)
    if not LIMITS:
        query.run(options=options)
    assert [row[1] for row in query.rows()] == [3, 4, 5, 6, 7]


def test_a_deleted_checkpoint_begins_where_the_first_one_did(query: Query) -> None:
    """The file is beside Spark's own: whoever deletes the folder begins anew."""
    query.send(0, range(3))
    query.run()
    shutil.rmtree(query.checkpoint)
    query.run()
    assert [row[1] for row in query.rows()] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"startingOffsetsLocation": ""}, "a stream needs the option startingOffsetsLocation"),
        ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
def test_errors_are_one_clear_line(query: Query, options: dict[str, str], says: str) -> None:
    with pytest.raises(Exception, match="SourceError") as failure:
        query.run(options=options)
    line = line_of(failure.value)
    assert line is not None
    assert says in line


@pytest.mark.skipif(LIMITS, reason="this PySpark has limits")
def test_limits_need_a_newer_pyspark(query: Query) -> None:
    with pytest.raises(Exception, match=r"maxOffsetsPerTrigger .* need PySpark 4\.2 or newer"):
        query.run(options={"maxOffsetsPerTrigger": "10"})
