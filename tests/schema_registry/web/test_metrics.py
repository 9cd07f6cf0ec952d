"""``GET /metrics``: what dashboards look for, and that each request is counted once."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.records import (
    Record,
    SchemaAdded,
    VersionAdded,
    VersionDeleted,
)
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.web.metrics.counts import (
    NO_OPERATION,
    CountRequests,
    Kind,
    RequestCounts,
    kind_of,
)
from tallymark_schema_registry.web.metrics.page import Snapshot, of_catalog, of_requests, page

IDS = "/schemas/ids/{schema_id}"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(families: Iterable[Metric]) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_how_much_there_is() -> None:
    catalog = Catalog()
    records: list[Record] = [
        SchemaAdded(".", 1, "a" * 32),
        SchemaAdded(".", 2, "b" * 32, "JSON"),
        VersionAdded(".", "s", 1, 1, 0),
        VersionAdded(".", "s", 2, 2, 0),
        VersionAdded(".", "gone", 1, 1, 0),
        VersionDeleted(".", "gone", 1),
    ]
    for number, record in enumerate(records, 1):
        catalog.apply(number, record)
    found = samples(of_catalog(catalog))
    assert found["kafka_schema_registry_registered_count", ()] == 2
    assert found["kafka_schema_registry_deleted_count", ()] == 1
    created = "kafka_schema_registry_schemas_created"
    assert found[created, (("schema_type", "avro"),)] == 1
    assert found[created, (("schema_type", "json"),)] == 1
    assert found["kafka_schema_registry_schemas_deleted", (("schema_type", "avro"),)] == 1
    assert found["tallymark_registry_subjects", ()] == 1
    assert found["tallymark_registry_schemas", ()] == 2
    assert found["tallymark_registry_last_change", ()] == 6


def test_requests_and_their_times() -> None:
    counts = RequestCounts()
    for milliseconds in range(1, 101):
        counts.took(Kind("GET", IDS, 200), milliseconds / 1_000)
    counts.took(Kind("GET", IDS, 404), 9.0)
    counts.tally(Kind("GET", IDS, 200)).count += 5
    found = samples(of_requests(counts))
    labels = (("method", "GET"), ("operation", IDS), ("status", "200"))
    assert found["tallymark_registry_requests_total", labels] == 105
    assert found["kafka_schema_registry_api_success_count", ()] == 105
    assert found["kafka_schema_registry_api_failure_count", ()] == 1
    ours, theirs = "tallymark_registry_request_seconds", "kafka_schema_registry_jersey_metrics"
    ends = {
        float(dict(labels)["le"]): value
        for (name, labels), value in found.items()
        if name == f"{ours}_bucket"
    }
    assert [ends[at] for at in (0.001, 0.01, 0.1, 5.0, inf)] == [1, 10, 100, 100, 101]
    of_ids = (("operation", IDS),)
    assert found[f"{ours}_count", of_ids] == 101
    assert found[f"{ours}_sum", of_ids] == pytest.approx(14.05)
    assert found[f"{theirs}_request_latency_50", ()] == pytest.approx(51)
    assert found[f"{theirs}_request_latency_99", ()] == pytest.approx(100)


def test_a_client_makes_no_metrics() -> None:
    """Methods and paths that clients invent would each be a line of every page, for ever."""
    scope: Any = {"type": "http", "method": "XYZ", "path": "/anything", "state": {}}
    assert kind_of(scope, 404) == Kind(NO_OPERATION, NO_OPERATION, 404)


def test_a_request_that_fails_is_counted() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("bug")

    counts = RequestCounts()
    with pytest.raises(RuntimeError, match="bug"):
        asyncio.run(CountRequests(app, counts)({"type": "http", "method": "GET"}, None, None))  # type: ignore[arg-type]
    assert list(counts.by_kind()) == [(Kind(NO_OPERATION, NO_OPERATION, 500), 1)]


def test_an_empty_registry_has_a_page() -> None:
    text = page(Snapshot(Catalog(), 0, 0, 0, 0, 0, False), RequestCounts()).decode()
    found = samples(text_string_to_metric_families(text))
    assert found["kafka_schema_registry_registered_count", ()] == 0
    assert found["kafka_schema_registry_master_slave_role", ()] == 1
    assert found["process_cpu_seconds_total", ()] > 0


def test_each_request_is_counted_once(tmp_path: Path) -> None:
    """Answers from memory were not counted: a registry under load looked idle."""
    with (
        RegistryServer(f"sqlite:///{tmp_path}/registry.db") as server,
        httpx.Client(base_url=server.url) as http,
    ):
        registered = http.post("/subjects/s/versions", json={"schema": '"int"'}).json()
        for _ in range(5):
            http.get(f"/schemas/ids/{registered['id']}").raise_for_status()
        http.get("/schemas/ids/77")
        http.get("/nowhere")
        http.get("/", headers={"Host": "evil.example"})
        answer = http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = samples(text_string_to_metric_families(answer.text))

    def requests(method: str, operation: str, status: int) -> float:
        labels = (("method", method), ("operation", operation), ("status", str(status)))
        return found["tallymark_registry_requests_total", labels]

    assert requests("POST", "/subjects/{subject}/versions", 200) == 1
    assert requests("GET", IDS, 200) == 5
    assert requests("GET", IDS, 404) == 1
    assert requests(NO_OPERATION, NO_OPERATION, 404) == 1
    assert requests(NO_OPERATION, NO_OPERATION, 421) == 1
    remembered = 4 if importlib.util.find_spec("httptools") else 0
    assert found["tallymark_registry_answers_from_memory_total", ()] == remembered
    assert found["kafka_schema_registry_jetty_metrics_connections_active", ()] == 1
    assert found["kafka_schema_registry_api_failure_count", ()] == 3
