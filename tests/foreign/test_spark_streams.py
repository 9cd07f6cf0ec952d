"""Spark's own Kafka connector and our source read the same rows: from our broker and from Apache
Kafka, as a batch and as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_kinds import KINDS, either_broker, new_topic
from own_jvm import own_jvm
from support.spark.connector_jars import connector_jars

from tallymark import Admin, Producer
from tallymark_spark_jobs.engine.session import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.soak_cases("apache_kafka")]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EACH = 40


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    jars = connector_jars(fetch=False)
    if not jars:
        pytest.skip("Spark's connector is not here: deploy/ensure-spark-connector")
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    conf = {"spark.jars": ",".join(map(str, jars))}
    with own_jvm(), spark_session("connector tests", log, "local[2]", conf) as session:
        yield session


@pytest.fixture(params=KINDS)
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    for broker in either_broker(request, tmp_path):
        yield broker.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    """Records of all codecs in two partitions: keys, values and headers that are null, empty, not
    text, and large."""
    name = new_topic("connector")
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(name, 2)
    for codec in CODECS:
        with Producer(
            bootstrap_servers=servers, audit=False, compression_type=codec, linger_ms=20
        ) as producer:
            for n in range(EACH):
                producer.send(
                    name,
                    (None, b"", b"v%d" % n, bytes(range(256)) * (n * 10))[n % 4],
                    key=(b"k%d" % n, None, b"")[n % 3],
                    partition=n % 2,
                    timestamp=1_700_000_000_000 + n,
                    headers=[("a", b"\x00\xff"), ("b", b""), ("c", None)][: n % 4],
                )
    return name


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """All columns, as plain values."""
    found = [
        (
            row.topic,
            row.partition,
            row.offset,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            row.timestamp,
            row.timestampType,
            None
            if row.headers is None
            else [(one.key, one.value and bytes(one.value)) for one in row.headers],
        )
        for row in frame.collect()
    ]
    return sorted(found, key=lambda row: row[:3])


def options(servers: str, topic: str) -> dict[str, str]:
    """Both know these."""
    return {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }


def test_a_batch(spark: Any, servers: str, topic: str) -> None:
    theirs, ours = (
        spark.read.format(name).options(**options(servers, topic)).load()
        for name in ("kafka", "tallymark")
    )
    assert ours.dtypes == theirs.dtypes
    found = rows(theirs)
    assert len(found) == len(CODECS) * EACH
    assert rows(ours) == found


def test_a_stream(spark: Any, servers: str, topic: str, tmp_path: Path) -> None:
    """Their offsets in the checkpoint have the same form, too."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    ends: dict[str, str] = {}
    for name in ("kafka", "tallymark"):
        own = {"startingOffsetsLocation": str(tmp_path / name)} if name == "tallymark" else {}
        read: list[tuple[Any, ...]] = []
        query = (
            spark.readStream.format(name)
            .options(**options(servers, topic), **own, maxOffsetsPerTrigger="60")
            .load()
            .writeStream.foreachBatch(lambda frame, _, read=read: read.extend(rows(frame)))
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        found[name] = sorted(read, key=lambda row: row[:3])
        ends[name] = query.recentProgress[-1].sources[0].endOffset
    assert len(found["kafka"]) == len(CODECS) * EACH
    assert found["tallymark"] == found["kafka"]
    assert ends["tallymark"].replace(" ", "") == ends["kafka"].replace(" ", "")
