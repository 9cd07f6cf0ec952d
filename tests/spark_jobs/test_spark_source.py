"""The data source against a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from outcomes import ALL, COMMITTED, write_outcomes

from tallymark import Admin, Producer
from tallymark.testing.broker_thread import BrokerThread
from tallymark_spark_jobs.engine.errors import line_of
from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.source import rows

pytestmark = pytest.mark.spark
START = 1_700_000_000_000
EACH = 300


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("tests", log, "local[2]") as session:
        yield session


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two partitions of ``t`` with 300 stamped records each, one record a second, and ``idle``."""
    with BrokerThread(tmp_path_factory.mktemp("source")) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t", 2)
            admin.create_topic("idle", 1)
            admin.create_topic("_internal", 1)
        with Producer(
            bootstrap_servers=broker.bootstrap_servers,
            audit=False,
            stamp=True,
            server="web-1",
            linger_ms=50,
            compression_type="zstd",
        ) as producer:
            for n in range(EACH):
                for partition in (0, 1):
                    producer.send(
                        "t",
                        f"value {n}".encode(),
                        key=b"k" if n % 2 else None,
                        partition=partition,
                        timestamp=START + 1_000 * n,
                        headers=[("n", b"%d" % n)],
                    )
        yield broker.bootstrap_servers


def load(spark: Any, servers: str, **options: str) -> Any:
    return (
        spark.read.format("tallymark")
        .options(**{"kafka.bootstrap.servers": servers, **options})
        .load()
    )


def test_the_declared_schemas_are_the_arrow_schemas(spark: Any, servers: str) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    utc: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    )

    for options, schema in (
        ({}, rows.RECORDS),
        ({"includeHeaders": "true"}, rows.RECORDS_WITH_HEADERS),
        ({"mode": "stamps"}, rows.STAMPS),
    ):
        declared = load(spark, servers, subscribe="t", **options).schema
        assert to_arrow_schema(declared, **utc).equals(schema)


def test_records_come_whole_with_headers(spark: Any, servers: str) -> None:
    frame = load(spark, servers, subscribe="t", includeHeaders="true")
    found = frame.where("partition = 1").orderBy("offset").collect()
    assert [row.offset for row in found] == list(range(EACH))
    one = found[7]
    assert (bytes(one.key), bytes(one.value), one.topic) == (b"k", b"value 7", "t")
    assert (one.timestampType, one.timestamp.second) == (0, 27)
    assert [(h.key, bytes(h.value)) for h in one.headers if h.key == "n"] == [("n", b"7")]
    assert found[8].key is None


def test_stamps_by_ranges_of_offsets_split_into_many_tasks(spark: Any, servers: str) -> None:
    frame = load(
        spark,
        servers,
        mode="stamps",
        assign='{"t": [0, 1]}',
        startingOffsets=json.dumps({"t": {"0": 10, "1": -2}}),
        endingOffsets=json.dumps({"t": {"0": 110, "1": 7}}),
        rowsPerPartition="33",
    )
    assert frame.rdd.getNumPartitions() == 5
    found = {(row.partition, row.offset): row for row in frame.collect()}
    assert sorted(found) == [*((0, n) for n in range(10, 110)), *((1, n) for n in range(7))]
    row = found[0, 42]
    assert (row.server, row.origin_partition, row.sequence, row.stamped) == ("web-1", 0, 42, 1)
    assert (len(row.instance), row.timestamp, row.size) == (16, START + 42_000, len("value 42"))


def test_only_the_columns_that_are_wanted(spark: Any, servers: str) -> None:
    """A Python data source made all columns of every row, whatever was selected of them."""
    frame = load(spark, servers, subscribe="t", columns="offset, value, partition")
    assert frame.columns == ["value", "partition", "offset"]
    found = {(row.partition, row.offset): bytes(row.value) for row in frame.collect()}
    assert found == {(p, n): b"value %d" % n for p in (0, 1) for n in range(EACH)}
    stamps = load(spark, servers, subscribe="t", mode="stamps", columns="sequence,stamped")
    assert stamps.groupBy("stamped").count().collect() == [(1, 2 * EACH)]


def test_what_is_left_out_for_its_time_is_told(spark: Any, servers: str) -> None:
    frame = load(
        spark,
        servers,
        subscribe="t",
        mode="stamps",
        endingTimestamp=str(START + 3_000),
        endingLateness="0",
    )
    found = sorted((r.partition, r.offset, r.stamped, r.instance) for r in frame.collect())
    told = [(p, o, i) for p, o, kind, i in found if kind == 5]
    assert [p for p, _, _ in told] == [0, 1]
    assert all(3 <= offset < EACH and end == f"{EACH}:-1" for _, offset, end in told)
    assert [(p, o) for p, o, kind, _ in found if kind == 1] == [
        (partition, offset) for partition in (0, 1) for offset in range(3)
    ]


def test_timestamps_bound_the_records(spark: Any, servers: str) -> None:
    frame = load(
        spark,
        servers,
        subscribe="t",
        mode="stamps",
        startingTimestamp=str(START + 5_000),
        endingTimestamp=str(START + 9_000),
    )
    assert sorted((r.partition, r.offset) for r in frame.collect()) == [
        (partition, n) for partition in (0, 1) for n in range(5, 9)
    ]
    later = load(spark, servers, subscribe="t", startingTimestamp=str(START + 10**9))
    assert later.collect() == []


def test_an_idle_topic_and_a_pattern(spark: Any, servers: str) -> None:
    """For a plan without partitions Spark makes up one, ``InputPartition(None)``, and has it read:
    an idle topic then failed, or was read from wherever."""
    assert load(spark, servers, subscribe="idle").collect() == []
    frame = load(spark, servers, subscribePattern=".*t.*|idle", mode="stamps")
    assert {row.topic for row in frame.select("topic").distinct().collect()} == {"t"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscribe": "nowhere"}, "there is no topic nowhere"),
        ({"assign": '{"t": [9]}'}, "there is no t-9"),
        ({"subscribe": "t", "endingOfset": "1"}, "did you mean endingOffsets"),
        (
            {"subscribe": "t", "endingOffsets": '{"t": {"0": 1000, "1": 3}}'},
            "t-0 holds the offsets 0 to 300",
        ),
        ({"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
def test_errors_are_one_clear_line(
    spark: Any, servers: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception, match="SourceError") as failure:
        load(spark, servers, **options).collect()
    line = line_of(failure.value)
    assert line is not None
    assert says in line
    assert "\n" not in line


@pytest.mark.soak  # its short twin: test_source_committed.py
def test_aborted_messages_are_in_the_table_where_that_is_asked_for_only(
    spark: Any, tmp_path: Path
) -> None:
    """By default they were, as with Spark's own source."""
    with BrokerThread(tmp_path, transaction_state_log_num_partitions=1) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t")
        write_outcomes(broker.bootstrap_servers, "t")

        def values(**given: str) -> list[bytes]:
            found = load(spark, broker.bootstrap_servers, subscribe="t", **given)
            rows_of = found.select("value", "offset").orderBy("offset").collect()
            return [bytes(row["value"]) for row in rows_of]

        assert values() == COMMITTED
        assert values(**{"kafka.isolation.level": "read_uncommitted"}) == ALL
