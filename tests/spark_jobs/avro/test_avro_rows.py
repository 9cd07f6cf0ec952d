"""The options of Avro values, the reader's schema out of a registry, and batches with values
decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tallymark.errors import UserError
from tallymark.serialization import AvroEncoder, RegistryClient
from tallymark_schema_registry.testing import memory_registry
from tallymark_spark_jobs.source.avro.rows import avro_schema, decoded_batches
from tallymark_spark_jobs.source.avro.settings import AvroSettings, parse_avro
from tallymark_spark_jobs.source.options import parse_options
from tallymark_spark_jobs.source.rows import RECORDS

ONE = {"type": "record", "name": "View", "fields": [{"name": "page", "type": "string"}]}
TWO = {**ONE, "fields": [*ONE["fields"], {"name": "ms", "type": "long", "default": -1}]}
GIVEN = {"valueformat": "avro", "schema.registry.url": "http://r:8081"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with memory_registry() as registry:
        with RegistryClient(registry.url) as client:
            client.register("views-value", json.dumps(ONE))
            client.register("views-value", json.dumps(TWO))
        yield registry.url


def test_values_stay_bytes_unless_told_otherwise() -> None:
    assert parse_avro({}) is None
    assert parse_avro({"valueformat": "bytes"}) is None
    options = parse_options({
        "kafka.bootstrap.servers": "b:1", "subscribe": "t", "valueFormat": "avro",
        "schema.registry.url": "http://a:8081,http://b:8081", "schema.registry.username": "ann",
        "schema.registry.password": "secret", "avro.mode": "PERMISSIVE", "avro.version": "3",
        "avro.subject": "s",
    })  # fmt: skip
    login = {"username": "ann", "password": "secret"}
    assert options.avro == AvroSettings(
        "http://a:8081,http://b:8081", "", "s", 3, permissive=True, login=login
    )
    assert "secret" not in repr(options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"valueformat": "json"}, "valueFormat is 'json'"),
        ({"avro.subject": "s"}, "avro.subject needs valueFormat=avro"),
        ({"valueformat": "avro"}, "needs the option schema.registry.url"),
        ({**GIVEN, "mode": "stamps"}, "is for mode=records"),
        ({**GIVEN, "avro.schema": "x", "avro.version": "1"}, "exclude each other"),
        ({**GIVEN, "avro.version": "0"}, "avro.version is '0'"),
        ({**GIVEN, "avro.mode": "DROPMALFORMED"}, "avro.mode is 'dropmalformed'"),
    ],
)
def test_options_that_are_wrong(options: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        parse_avro(options)


def test_the_readers_schema_is_the_topics_latest_unless_named(url: str) -> None:
    def text(topics: tuple[str, ...] = ("views",), **given: Any) -> Any:
        return json.loads(AvroSettings(url, **given).reader(topics).text)

    assert text() == TWO
    assert text(version=1) == ONE
    assert text((), subject="views-value") == TWO
    assert text(text=json.dumps(ONE)) == ONE
    with pytest.raises(UserError, match="no version 7 of the subject views-value"):
        text(version=7)
    with pytest.raises(UserError, match=r"no version of the subject other-value.*avro\.schema"):
        text(("other",))
    with pytest.raises(UserError, match="one schema to read the values of several topics"):
        text(("a", "b"))
    with pytest.raises(UserError, match=r"schema of views-value cannot be had: .*127\.0\.0\.1:1"):
        AvroSettings("http://127.0.0.1:1").reader(("views",))


def batch(values: list[bytes | None], kinds: list[int] | None = None) -> Any:
    rows = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "key": [None] * rows,
            "value": values,
            "topic": ["views"] * rows,
            "partition": [3] * rows,
            "offset": list(range(70, 70 + rows)),
            "timestamp": [0] * rows,
            "timestampType": kinds or [0] * rows,
        },
        schema=RECORDS,
    )


PLACE = ("views", 3)


def encoded(url: str, page: str) -> bytes:
    with RegistryClient(url) as registry:
        return AvroEncoder(registry, json.dumps(ONE))("views", {"page": page})


def test_poison_fails_with_its_place_or_is_told_beside_the_row(url: str) -> None:
    good = encoded(url, "home")
    found = batch([good, None, b"\0\0\0\0\x63x", b"why it is broken", b"{}"], [0, 0, 0, -1, 0])
    settings = AvroSettings(url)
    with pytest.raises(UserError, match="views-3 offset 72: the value cannot be decoded: the regi"):
        list(decoded_batches([batch([good]), found], *PLACE, settings))
    permissive = AvroSettings(url, permissive=True)
    (read,) = decoded_batches([found], *PLACE, permissive)
    assert read.schema == avro_schema(RECORDS, permissive.reader(("views",)), True)
    read.validate(full=True)
    rows = read.to_pylist()
    assert [row["value"] for row in rows] == [{"page": "home", "ms": -1}, *[None] * 4]
    assert [row["value_bytes"] for row in rows] == [None, None, b"\0\0\0\0\x63x", None, b"{}"]
    errors = [row["value_error"] for row in rows]
    assert errors[:2] == [None, None]
    assert errors[2:4] == ["the registry knows no schema 99", "why it is broken"]
    assert "too few for an Avro message" in errors[4]


def test_batches_without_the_value_stay_as_they_are(url: str) -> None:
    narrow = batch([b"x"]).drop_columns(["value"])
    assert list(decoded_batches([narrow], *PLACE, AvroSettings(url))) == [narrow]
