"""The page itself: families of metrics, as Prometheus reads them.

Two groups of names. ``kafka_schema_registry_...`` are those that dashboards of the ecosystem look
for, made there by an exporter from Java's beans; ``tallymark_registry_...`` are ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.web.metrics.counts import BUCKETS_S, RequestCounts, Times

THEIRS: Final = "kafka_schema_registry_"
OURS: Final = "tallymark_registry_"
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a page shows beside the requests. ``connections`` are open; ``from_memory``: answers
    that were given from memory; ``memory_bytes`` of them are held."""

    catalog: Catalog
    connections: int
    refused_connections: int
    from_memory: int
    memory_bytes: int
    writes_waiting: int
    store_is_down: bool


def page(snapshot: Snapshot, counts: RequestCounts) -> bytes:
    """The text of the page. Takes milliseconds with 10,000 schemas."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Families([*of_catalog(snapshot.catalog), *of_state(snapshot)]))
    registry.register(_Families(list(of_requests(counts))))
    return generate_latest(registry)


def of_catalog(catalog: Catalog) -> Iterator[Metric]:
    """How much there is."""
    live, deleted = Counter[str](), Counter[str]()
    subjects = 0
    for context in catalog.contexts.values():
        for subject in context.subjects.values():
            subjects += any(not entry.deleted for entry in subject.versions.values())
            for entry in subject.versions.values():
                kind = context.schemas[entry.schema_id].kind
                (deleted if entry.deleted else live)[kind] += 1
    yield GaugeMetricFamily(
        f"{THEIRS}registered_count", "Versions that are not deleted.", live.total()
    )
    yield GaugeMetricFamily(f"{THEIRS}deleted_count", "Versions softly deleted.", deleted.total())
    for name, text, counted in (
        ("schemas_created", "Versions that are not deleted, by type.", live),
        ("schemas_deleted", "Versions softly deleted, by type.", deleted),
    ):
        family = GaugeMetricFamily(THEIRS + name, text, labels=["schema_type"])
        for kind in sorted({"AVRO", *counted}):
            family.add_metric([kind.lower()], counted[kind])
        yield family
    yield GaugeMetricFamily(f"{OURS}subjects", "Subjects that have a version.", subjects)
    schemas = sum(len(context.schemas) for context in catalog.contexts.values())
    yield GaugeMetricFamily(f"{OURS}schemas", "Ids that can be read.", schemas)
    yield GaugeMetricFamily(
        f"{OURS}last_change", "Number of the last change that this process knows.", catalog.number
    )


def of_state(snapshot: Snapshot) -> Iterator[Metric]:
    """What this process is doing."""
    yield GaugeMetricFamily(
        f"{THEIRS}master_slave_role", "1: this process takes registrations, as all do.", 1
    )
    yield GaugeMetricFamily(
        f"{THEIRS}jetty_metrics_connections_active", "Open connections.", snapshot.connections
    )
    yield CounterMetricFamily(
        f"{OURS}refused_connections", "Too many at once.", snapshot.refused_connections
    )
    yield CounterMetricFamily(
        f"{OURS}answers_from_memory", "Requests that no route saw.", snapshot.from_memory
    )
    yield GaugeMetricFamily(
        f"{OURS}answer_memory_bytes", "Bytes of remembered answers.", snapshot.memory_bytes
    )
    yield GaugeMetricFamily(
        f"{OURS}writes_waiting", "Changes that wait to be stored.", snapshot.writes_waiting
    )
    yield GaugeMetricFamily(
        f"{OURS}store_down",
        "1: the store could not be asked; reads are answered from memory, writes are refused.",
        snapshot.store_is_down,
    )


def of_requests(counts: RequestCounts) -> Iterator[Metric]:
    """Requests by operation, and how long those took that were not answered from memory."""
    requests = CounterMetricFamily(
        f"{OURS}requests", "Requests.", labels=["method", "operation", "status"]
    )
    succeeded = failed = 0
    for kind, count in counts.by_kind():
        requests.add_metric([kind.method, kind.operation, str(kind.status)], count)
        if kind.status < 400:
            succeeded += count
        else:
            failed += count
    yield requests
    yield GaugeMetricFamily(f"{THEIRS}api_success_count", "Requests that succeeded.", succeeded)
    yield GaugeMetricFamily(f"{THEIRS}api_failure_count", "Requests that did not.", failed)
    seconds = HistogramMetricFamily(
        f"{OURS}request_seconds",
        "Time of requests that were not answered from memory.",
        labels=["operation"],
    )
    for operation, times in sorted(counts.times.items()):
        seconds.add_metric([operation], _buckets(times), times.total_s)
    yield seconds
    last = sorted(counts.last_s)
    for name, part in (("50", 0.5), ("95", 0.95), ("99", 0.99)):
        yield GaugeMetricFamily(
            f"{THEIRS}jersey_metrics_request_latency_{name}",
            f"Milliseconds; {name} % of the last 1,000 requests that were not answered from "
            "memory took no longer.",
            last[int((len(last) - 1) * part)] * 1_000 if last else 0.0,
        )


def _buckets(times: Times) -> Sequence[tuple[str, float]]:
    total, found = 0, list[tuple[str, float]]()
    for end, count in zip((*map(str, BUCKETS_S), "+Inf"), times.counts, strict=True):
        total += count
        found.append((end, total))
    return found


class _Families(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)
