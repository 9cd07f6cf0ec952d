"""Spark's own Kafka connector reads our broker, and its rows are those of our source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from own_jvm import own_jvm
from pyspark.testing import assertDataFrameEqual
from support.spark.connector_jars import connector_jars

from tallymark import Admin, Producer
from tallymark.errors import UserError
from tallymark.testing.broker_thread import BrokerThread
from tallymark_spark_jobs.engine.session import spark_session

pytestmark = pytest.mark.spark
START = 1_700_000_000_000
EACH = 200


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        jars = ",".join(map(str, connector_jars()))
    except UserError as error:
        pytest.skip(str(error))
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    with own_jvm(), spark_session("connector", log, "local[2]", {"spark.jars": jars}) as session:
        yield session


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three partitions of ``t``: keys, nulls and headers; one batch in two is compressed; times
    that go back."""
    with BrokerThread(tmp_path_factory.mktemp("source")) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t", 3)
        for codec in ("none", "zstd"):
            with Producer(
                bootstrap_servers=broker.bootstrap_servers, audit=False, compression_type=codec
            ) as producer:
                for n in range(EACH):
                    producer.send(
                        "t",
                        None if n % 7 == 0 else b"value %d" % n * (n % 5),
                        key=b"k%d" % n if n % 2 else None,
                        partition=n % 3,
                        timestamp=START + 1_000 * (n if n % 10 else n // 2),
                        headers=[("a", b"%d" % n), ("a", None)] if n % 3 else [],
                    )
        yield broker.bootstrap_servers


def both(spark: Any, servers: str, **options: str) -> tuple[Any, Any]:
    given = {"kafka.bootstrap.servers": servers, "subscribe": "t", **options}
    ours, theirs = (
        spark.read.format(name).options(**given).load().orderBy("partition", "offset")
        for name in ("tallymark", "kafka")
    )
    return ours, theirs


@pytest.mark.soak
def test_the_rows_are_the_same(spark: Any, servers: str) -> None:
    ours, theirs = both(spark, servers, includeHeaders="true")
    assert ours.columns == theirs.columns
    assert ours.count() == 2 * EACH
    assertDataFrameEqual(ours, theirs, checkRowOrder=True)


@pytest.mark.soak
@pytest.mark.parametrize(
    "options",
    [
        {
            "startingOffsets": json.dumps({"t": {"0": 5, "1": -2, "2": 70}}),
            "endingOffsets": json.dumps({"t": {"0": 50, "1": 9, "2": -1}}),
        },
        {
            "startingOffsetsByTimestamp": json.dumps(
                {"t": {"0": START + 60_000, "1": START, "2": START + 150_000}}
            ),
            "endingOffsetsByTimestamp": json.dumps(
                {"t": {"0": START + 90_000, "1": START + 10**9, "2": START + 160_000}}
            ),
        },
        {"minPartitions": "7", "maxRecordsPerPartition": "11"},
        {
            "startingOffsetsByTimestamp": json.dumps(
                {"t": {str(number): START + 10**9 for number in range(3)}}
            ),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {"kafka.isolation.level": "read_committed"},
    ],
    ids=["offsets", "times", "split", "latest", "committed"],
)
def test_options_mean_the_same(spark: Any, servers: str, options: dict[str, str]) -> None:
    ours, theirs = both(spark, servers, **options)
    assertDataFrameEqual(ours, theirs, checkRowOrder=True)
