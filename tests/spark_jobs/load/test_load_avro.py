"""Decoded values: fields as columns, schemas that grow, and what cannot be decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tallymark import Admin, Producer
from tallymark.deployment import load as settings_in
from tallymark.errors import UserError
from tallymark.serialization import AvroEncoder, RegistryClient, frame
from tallymark.testing.broker_thread import BrokerThread
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.testing import memory_registry
from tallymark_spark_jobs.cli.load import load
from tallymark_spark_jobs.lake.opening import Format, Lake
from tallymark_spark_jobs.load.reporting import lake_commit
from tallymark_spark_jobs.load.writing.avro_format import avro_format

DAY = 1_769_817_600_000  # 2026-01-31
FIRST = {
    "type": "record",
    "name": "View",
    "fields": [{"name": "page", "type": "string"}, {"name": "topic", "type": ["null", "int"]}],
}
SECOND = {
    **FIRST,
    "fields": [*FIRST["fields"], {"name": "ms", "type": ["null", "long"], "default": None}],
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, RegistryServer]]:
    with BrokerThread(tmp_path_factory.mktemp("broker")) as broker, memory_registry() as registry:
        yield broker.bootstrap_servers, registry


class Place:
    """A topic of Avro values, and its table."""

    def __init__(self, folder: Path, servers: str, registry: str, kind: str) -> None:
        host, _, port = servers.rpartition(":")
        self.servers = servers
        self.registry = RegistryClient(registry)
        self.settings = folder / "tallymark.toml"
        of, _, at = registry.removeprefix("http://").rpartition(":")
        self.settings.write_text(
            f'data_dir = "{folder}"\n[lake]\nformat = "{kind}"\navro_topics = "views"\n'
            f'[registry]\nhost = "{of}"\nport = {at}\n'
            f'[[clusters]]\nname = "dc1"\nbrokers = [{{ host = "{host}", port = {port} }}]\n'
        )
        self.table: Any = Lake(str(folder / "lake"), cast("Format", kind)).table("dc1", "views")

    def send(self, schema: Any, *values: Any) -> None:
        """Values of a schema; bytes as they are."""
        encode = AvroEncoder(self.registry, json.dumps(schema))
        with Producer(
            bootstrap_servers=self.servers, audit=False, stamp=True, server="web-1"
        ) as producer:
            for value in values:
                raw = value if isinstance(value, bytes) else encode("views", value)
                producer.send("views", raw, timestamp=DAY)

    def run(self, exits: int = 0) -> Any:
        found = CliRunner().invoke(load, ["--settings", str(self.settings), "--here", "--json"])
        if isinstance(found.exception, Exception):
            raise found.exception
        assert found.exit_code == exits, found.output
        return json.loads(found.stdout)["tables"][0]

    def rows(self, *names: str) -> list[tuple[Any, ...]]:
        """The columns of every row; null where a file is older than the column."""
        found: list[tuple[Any, ...]] = []
        for file in self.table.open().files():
            table = pq.ParquetFile(Path(self.table.location) / file.path).read()
            found += [tuple(row.get(name) for name in names) for row in table.to_pylist()]
        return sorted(found, key=lambda row: row[-1])

    def quarantine(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for commit in self.table.history():
            for path in commit.detail().side_files:
                found += pq.read_table(Path(self.table.location) / path).to_pylist()
        return found


@pytest.fixture(params=["delta", "iceberg"])
def place(
    request: pytest.FixtureRequest, servers: tuple[str, RegistryServer], tmp_path: Path
) -> Iterator[Place]:
    brokers, registry = servers
    with Admin(bootstrap_servers=brokers) as admin:
        admin.create_topic("views", 1)
        found = Place(tmp_path, brokers, registry.url, request.param)
        yield found
        found.registry.close()
        admin.delete_topic("views")


def test_a_field_that_is_added_is_a_column_that_is_added(place: Place) -> None:
    place.send(FIRST, {"page": "/a", "topic": 7}, {"page": "/b", "topic": None})
    place.run()
    assert place.rows("page", "value_topic", "offset") == [("/a", 7, 0), ("/b", None, 1)]
    place.send(SECOND, {"page": "/c", "topic": 1, "ms": 5})
    place.send(FIRST, {"page": "/d", "topic": 2})
    place.run()
    assert place.rows("page", "ms", "offset") == [
        ("/a", None, 0),
        ("/b", None, 1),
        ("/c", 5, 2),
        ("/d", None, 3),
    ]
    assert "ms" in place.table.open().schema().names


def test_poison_is_in_the_quarantine_with_its_bytes_and_the_audit_takes_it_for_explained(
    place: Place,
) -> None:
    """One record that somebody sent as text stopped the load of its topic for ever."""
    strange = frame(4_711, b"\x02a\x00")
    place.send(FIRST, {"page": "/a", "topic": 7}, b"no Avro", strange, {"page": "/b", "topic": 7})
    told = place.run()
    assert (told["rows"], told["quarantined"]) == (2, 2)
    assert place.rows("page", "offset") == [("/a", 0), ("/b", 3)]
    poison = place.quarantine()
    assert [(row["offset"], row["value"]) for row in poison] == [(1, b"no Avro"), (2, strange)]
    assert "knows no schema 4711" in poison[1]["reason"]
    assert all(row["headers"] for row in poison)
    (commit,) = place.table.history()
    (tally,) = lake_commit(commit, place.table.storage, 60_000).tallies
    assert (tally.count, tally.ranges) == (2, ((0, 0), (3, 3)))
    assert (tally.quarantined, tally.quarantined_count) == (((1, 2),), 2)
    assert place.run()["versions"] == []


def test_only_poison_and_null_values(place: Place) -> None:
    place.send(FIRST, b"no Avro")
    with Producer(bootstrap_servers=place.servers, audit=False) as producer:
        producer.send("views", None, key=b"k", timestamp=DAY)
    told = place.run()
    assert (told["rows"], told["quarantined"]) == (1, 1)
    assert place.rows("key", "page", "offset") == [(b"k", None, 1)]


def test_a_topic_without_a_schema_is_named(place: Place) -> None:
    with pytest.raises(UserError, match="no subject other-value, by which other is to be decoded"):
        avro_format(settings_in(place.settings), "other")


def test_two_fields_that_are_one_column_are_refused(place: Place) -> None:
    twice = {**FIRST, "fields": [{"name": name, "type": "int"} for name in ("page", "Page")]}
    place.registry.register("twice-value", json.dumps(twice))
    with pytest.raises(UserError, match="two fields that are the column page"):
        avro_format(settings_in(place.settings), "twice")
