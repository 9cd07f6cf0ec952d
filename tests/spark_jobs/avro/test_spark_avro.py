"""Avro values in Spark, as a batch and as a stream, out of a real broker and a real registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tallymark import Admin, Producer
from tallymark.serialization import AvroEncoder, RegistryClient
from tallymark.testing.broker_thread import BrokerThread
from tallymark_schema_registry.testing import memory_registry
from tallymark_spark_jobs.engine.errors import line_of
from tallymark_spark_jobs.engine.session import spark_session

pytestmark = pytest.mark.spark
SCHEMA = {
    "type": "record",
    "name": "View",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "who", "type": ["null", "int", "string"]},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "order", "type": ["null", {"type": "enum", "name": "E", "symbols": ["A"]}]},
    ],
}
VALUES = [
    {
        "page": f"p{n}",
        "at": 1_700_000_000_000 + n,
        "price": Decimal(n) / 4,
        "who": n if n % 2 else "x",
        "tags": {"a": [n]},
        "local": n,
        "order": "A" if n % 3 else None,
    }
    for n in range(40)
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("avro tests", log, "local[2]") as session:
        yield session


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with (
        BrokerThread(tmp_path_factory.mktemp("avro")) as broker,
        memory_registry() as registry,
        RegistryClient(registry.url) as client,
    ):
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("views", 2)
        encode = AvroEncoder(client, json.dumps(SCHEMA))
        with Producer(bootstrap_servers=servers, audit=False) as producer:
            for n, value in enumerate(VALUES):
                producer.send("views", encode("views", value), partition=n % 2)
            producer.send("views", b"\0\0\0\0\x63poison", partition=1)
        yield {
            "kafka.bootstrap.servers": servers,
            "subscribe": "views",
            "valueFormat": "avro",
            "schema.registry.url": registry.url,
        }


def checked(rows: list[Any]) -> None:
    by_page = {row.value.page: row.value for row in rows if row.value is not None}
    assert len(by_page) == len(VALUES)
    for n, value in enumerate(VALUES):
        read = by_page[value["page"]]
        assert read.price == value["price"]
        assert read.at.microsecond == n * 1000
        assert read.local.microsecond == n
        assert read.tags == {"a": [n]}
        assert (read.who.member0, read.who.member1) == ((n, None) if n % 2 else (None, "x"))
        assert read.order == value["order"]


def test_a_batch(spark: Any, options: dict[str, str]) -> None:
    reader = spark.read.format("tallymark")
    frame = reader.options(**options, **{"avro.mode": "PERMISSIVE"}).load()
    rows = frame.collect()
    checked(rows)
    (wrong,) = [row for row in rows if row.value_error is not None]
    assert (wrong.partition, wrong.offset, wrong.value) == (1, 20, None)
    assert wrong.value_error == "the registry knows no schema 99"
    assert bytes(wrong.value_bytes) == b"\0\0\0\0\x63poison"
    assert frame.where("value.price >= 9 and value.who.member0 is null").count() == 2
    with pytest.raises(Exception, match="SourceError") as failure:
        spark.read.format("tallymark").options(**options).load().collect()
    line = line_of(failure.value)
    assert line is not None
    assert "views-1 offset 20: the value cannot be decoded: the registry knows no schema" in line


def test_a_stream(spark: Any, options: dict[str, str], tmp_path: Path) -> None:
    rows: list[Any] = []
    query = (
        spark.readStream.format("tallymark")
        .options(**options, **{"avro.mode": "PERMISSIVE"})
        .options(startingOffsets="earliest", startingOffsetsLocation=str(tmp_path))
        .load()
        .writeStream.foreachBatch(lambda frame, _: rows.extend(frame.collect()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    checked(rows)
    assert len(rows) == len(VALUES) + 1
