"""What Prometheus is told: by the agreed names, readable, bounded, honest."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from project import ROOT
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Table

from tallymark.broker.monitoring.families import families
from tallymark.client.core.metrics_page import MetricsPage
from tallymark.deployment import AuditSettings, Deployment
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.alerts.alerter import Counts
from tallymark_audit.collector.counters import Counters
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.metrics.endpoint import serve_metrics
from tallymark_audit.metrics.metrics import histogram, own_families
from tallymark_audit.metrics.source import FRESH_MS, AuditMetrics
from tallymark_audit.model import sketches
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted.openings import Spent, save_spent
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.schema.tables import (
    alerts,
    collectors,
    damage,
    lateness,
    progress,
    reporters,
    runs,
    watermarks,
)

NOON = 1_767_268_800_000
MIDNIGHT = NOON - 43_200_000
W = 60_000
EDGE = "dc1-to-aggregate"
DEPLOY = ROOT / "deploy"


class Clock:
    """Says what it is told."""

    now = NOON

    def __call__(self) -> int:
        return self.now


def verdict(topic: str, at: int, state: State, edge: str = EDGE, **sums: Any) -> Verdict:
    return Verdict(edge, topic, at, state, **sums)


@pytest.fixture
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    other = getattr(request, "param", "sqlite") == "postgresql"
    here = Deployment(data_dir=tmp_path).audit_store
    with open_store(request.getfixturevalue("postgres") if other else here) as store:
        yield store


def put(store: Store, table: Table, **values: Any) -> None:
    with store.write() as connection:
        connection.execute(table.insert().values(**values))


def fill(store: Store) -> None:
    """A healthy topic, one with a loss and copies, and all who watch."""
    judged = [
        verdict("views", NOON - W, State.COMPLETE, claimed=10, observed=10),
        verdict("views", NOON, State.OPEN, claimed=5, observed=1, missing=4),
        verdict("views", MIDNIGHT - W, State.COMPLETE, claimed=7, observed=7),
        verdict("views", NOON - W, State.COMPLETE, "producer-to-dc1", claimed=12, observed=11),
        verdict("clicks", NOON - W, State.LOSS, claimed=3_000_000, observed=2_999_999, missing=1),
        verdict("clicks", NOON - 2 * W, State.DUPLICATION, claimed=8, observed=8, duplicates=2),
    ]
    with store.write() as connection:
        record_verdicts(connection, judged, COLLECTOR, NOON)
        save_spent(connection, "aggregate", "views", 0, Spent(records=3, refused_at=NOON))
    mark = {"edge": EDGE, "horizon": NOON, "at": NOON}
    put(store, watermarks, topic="views", through=NOON, holes=[], **mark)
    holes = [[NOON - W, "LOSS", False], [NOON - 3 * W, "LOSS", True]]
    put(store, watermarks, topic="clicks", through=NOON - W, holes=holes, **mark)
    sketch: sketches.Sketch = {}
    sketches.add(sketch, 40, 3)
    sketches.add(sketch, 7_000_000, 1)
    put(
        store,
        lateness,
        edge="aggregate",
        topic="views",
        day=MIDNIGHT,
        sketch=sketches.to_list(sketch),
    )
    labels = {"alertname": "TallymarkMissingMessages", "severity": "critical", "edge": EDGE}
    put(store, alerts, fingerprint="a", status="firing", labels=labels, annotations={})
    put(store, alerts, fingerprint="b", status="resolved", labels=labels, annotations={})
    put(store, progress, cluster="dc1", topic="views", partition=0)
    put(
        store,
        damage,
        cluster="dc1",
        topic="views",
        partition=0,
        from_offset=7,
        reason="CRC",
        at=NOON,
    )
    put(store, collectors, cluster="dc1", heartbeat=NOON)
    put(
        store,
        progress,
        cluster="dc1",
        topic="_tallymark_audit",
        partition=0,
        counted_through=NOON,
    )
    put(store, reporters, cluster="dc1", reporter="r", last_heard=1, closed=False)
    put(store, runs, job="reconcile", started_at=NOON - 1500, finished_at=NOON, outcome="x")


def metrics_of(
    store: Store, tmp_path: Path, clock: Clock | None = None, **more: Any
) -> AuditMetrics:
    return AuditMetrics(store, Deployment(data_dir=tmp_path), clock or Clock(), **more)


def parsed(text: str) -> list[Metric]:
    """As Prometheus' own parser reads it."""
    families: Any = text_string_to_metric_families  # it has no types
    return list(families(text))


def samples(metrics: AuditMetrics) -> dict[str, float]:
    """By name and labels, through Prometheus' own parser."""
    registry = CollectorRegistry()
    registry.register(metrics)
    found: dict[str, float] = {}
    for family in parsed(generate_latest(registry).decode()):
        for one in family.samples:
            labels = ",".join(f"{name}={text}" for name, text in sorted(one.labels.items()))
            key = f"{one.name}{{{labels}}}"
            assert key not in found, f"{key} is told twice"
            found[key] = one.value
    return found


@pytest.mark.parametrize("store", ["sqlite", "postgresql"], indirect=True)
def test_they_say_what_the_store_says(store: Store, tmp_path: Path) -> None:
    fill(store)
    found = samples(metrics_of(store, tmp_path))
    name = "tallymark_audit_"
    clicks, views = f"edge={EDGE},topic=clicks", f"edge={EDGE},topic=views"
    expected = {
        f"{name}up{{}}": 1,
        f"{name}missing_messages{{{clicks}}}": 1,
        f"{name}missing_messages{{{views}}}": 0,
        f"{name}excess_messages{{{clicks}}}": 2,
        f"{name}unclaimed_messages{{{clicks}}}": 0,
        f"{name}windows{{edge={EDGE},state=LOSS,topic=clicks}}": 1,
        f"{name}windows{{edge={EDGE},state=COMPLETE,topic=views}}": 2,
        f"{name}watermark_timestamp_seconds{{{clicks}}}": (NOON - W) / 1000,
        f"{name}watermark_holes{{{clicks}}}": 1,
        f"{name}settle_seconds{{{views}}}": 5,
        f"{name}messages_total{{cluster=aggregate,tier=cluster,topic=views}}": 11,
        f"{name}messages_total{{cluster=dc1,tier=producer,topic=views}}": 12,
        f"{name}messages_total{{cluster=dc1,tier=cluster,topic=views}}": 11,
        f"{name}delivery_latency_seconds_bucket{{le=0.025,tier=aggregate,topic=views}}": 0,
        f"{name}delivery_latency_seconds_bucket{{le=0.05,tier=aggregate,topic=views}}": 3,
        f"{name}delivery_latency_seconds_bucket{{le=+Inf,tier=aggregate,topic=views}}": 4,
        f"{name}delivery_latency_seconds_count{{tier=aggregate,topic=views}}": 4,
        f"{name}alerts{{alertname=TallymarkMissingMessages,severity=critical,status=firing}}": 1,
        f"{name}collector_heartbeat_timestamp_seconds{{cluster=dc1}}": NOON / 1000,
        f"{name}silent_reporters{{cluster=dc1}}": 1,
        "tallymark_job_last_success_timestamp_seconds{job=reconcile}": NOON / 1000,
        "tallymark_job_duration_seconds{job=reconcile}": 1.5,
    }
    assert {key: found.get(key) for key in expected} == expected


def test_completeness_is_floored_and_one_only_when_complete(store: Store, tmp_path: Path) -> None:
    """One message of three million missing rounded to 1.0."""
    fill(store)
    ratio = f"tallymark_audit_completeness_ratio{{edge={EDGE},topic="
    found = samples(metrics_of(store, tmp_path))
    assert found[ratio + "clicks}"] == 0.999999
    assert found[ratio + "views}"] == 1


@pytest.mark.parametrize("state", [one for one in State if one not in ("OPEN", "SETTLING")])
def test_a_ratio_of_one_is_a_promise(store: Store, tmp_path: Path, state: State) -> None:
    with store.write() as connection:
        window = verdict("t", NOON - W, state, claimed=5, observed=5)
        record_verdicts(connection, [window], COLLECTOR, NOON)
    found = samples(metrics_of(store, tmp_path))
    value = found[f"tallymark_audit_completeness_ratio{{edge={EDGE},topic=t}}"]
    assert (value == 1) is (state in ("COMPLETE", "EXPLAINED"))


def test_both_formats_can_be_read(store: Store, tmp_path: Path) -> None:
    fill(store)
    registry = CollectorRegistry()
    registry.register(metrics_of(store, tmp_path))
    strict: Any = openmetrics  # it has no types
    written: Any = generate_openmetrics
    assert list(strict(written(registry).decode()))
    assert parsed(generate_latest(registry).decode())


def test_labels_are_of_the_settings_topics_states_and_jobs(store: Store, tmp_path: Path) -> None:
    fill(store)
    allowed = {
        "edge", "topic", "state", "cluster", "tier", "le", "alertname", "severity", "status",
        "job", "version", "outcome",
    }  # fmt: skip
    for family in metrics_of(store, tmp_path, own=own).collect():
        for one in family.samples:
            assert set(one.labels) <= allowed, one


def test_a_store_that_is_away_is_a_zero_and_no_traceback(store: Store, tmp_path: Path) -> None:
    fill(store)
    clock = Clock()
    metrics = metrics_of(store, tmp_path, clock, own=own)
    assert samples(metrics)["tallymark_audit_up{}"] == 1
    with store.write() as connection:
        connection.exec_driver_sql("ALTER TABLE verdicts RENAME TO hidden")
    clock.now += FRESH_MS
    found = samples(metrics)
    assert found["tallymark_audit_up{}"] == 0
    assert not [name for name in found if name.startswith("tallymark_audit_missing")]
    assert found["tallymark_collector_records_total{cluster=dc1}"] == 7
    with store.write() as connection:
        connection.exec_driver_sql("ALTER TABLE hidden RENAME TO verdicts")
    clock.now += FRESH_MS
    assert samples(metrics)["tallymark_audit_up{}"] == 1


def test_the_store_is_read_once_in_a_while_however_many_ask(store: Store, tmp_path: Path) -> None:
    clock = Clock()
    metrics = metrics_of(store, tmp_path, clock)
    samples(metrics)
    fill(store)
    missing = f"tallymark_audit_missing_messages{{edge={EDGE},topic=clicks}}"
    clock.now += FRESH_MS - 1
    assert missing not in samples(metrics)
    clock.now += 1
    assert missing in samples(metrics)


def test_hours_that_have_passed_are_read_again_in_turn(store: Store, tmp_path: Path) -> None:
    """Whatever changes late is told in the end, and what is a day old is not told any more."""
    clock = Clock()
    metrics = metrics_of(store, tmp_path, clock)
    with store.write() as connection:
        old = verdict("t", NOON - 20 * 3_600_000, State.COMPLETE, claimed=5, observed=5)
        record_verdicts(connection, [old], COLLECTOR, NOON)
    name = f"tallymark_audit_windows{{edge={EDGE},state=%s,topic=t}}"
    assert samples(metrics)[name % "COMPLETE"] == 1
    with store.write() as connection:
        record_verdicts(
            connection,
            [verdict("t", old.window, State.LOSS, claimed=5, observed=4, missing=1)],
            COLLECTOR,
            NOON,
        )
    for _ in range(24):
        clock.now += FRESH_MS
        found = samples(metrics)
    assert name % "COMPLETE" not in found
    assert found[name % "LOSS"] == 1
    clock.now += 6 * 3_600_000
    assert name % "LOSS" not in samples(metrics)


def test_a_collector_tells_of_its_own_edges(store: Store, tmp_path: Path) -> None:
    fill(store)
    found = samples(metrics_of(store, tmp_path, clusters=["dc1"]))
    edges = set(re.findall(r"edge=([^,}]+)", " ".join(found)))
    assert edges == {"producer-to-dc1"}


def test_a_sketch_becomes_a_histogram() -> None:
    buckets, total = histogram({})
    assert {count for _, count in buckets} == {0}
    assert total == 0
    sketch: sketches.Sketch = {}
    for value in (3, 300, 3_000, 10**9):
        sketches.add(sketch, value)
    counts = [count for _, count in histogram(sketch)[0]]
    assert counts == sorted(counts)
    assert counts[-1] == 4


def own() -> Iterator[Metric]:
    return own_families("dc1", Counters(records=7), Counts(posts=2))


def test_a_process_serves_them(store: Store, tmp_path: Path) -> None:
    fill(store)
    page = MetricsPage(metrics_of(store, tmp_path, own=own), "127.0.0.1", 0, "test")
    try:
        with urllib.request.urlopen(f"http://{page.address}/metrics") as answer:
            text = answer.read().decode()
    finally:
        page.close()
    assert "tallymark_audit_up 1.0" in text
    assert 'tallymark_collector_alert_posts_total{cluster="dc1",outcome="taken"} 2.0' in text
    assert "process_cpu_seconds_total" in text


class Collecting:
    """A collector of a cluster, as far as its metrics go."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.counters = Counters(records=len(cluster))
        self.alert_counts = Counts()


def test_the_collectors_of_a_process_share_a_page(tmp_path: Path) -> None:
    audit = AuditSettings(metrics_port=0)
    deployment = Deployment(data_dir=tmp_path, audit=audit)
    metrics = serve_metrics(deployment, [Collecting("dc1"), Collecting("aggregate")])
    assert metrics is not None
    try:
        with urllib.request.urlopen(f"http://{metrics.address}/metrics") as answer:
            text = answer.read().decode()
        taken = deployment.model_copy(
            update={"audit": audit.model_copy(update={"metrics_port": metrics.address.port})}
        )
        assert serve_metrics(taken, [Collecting("dc2")]) is None
    finally:
        metrics.close()
    families = {one.name: one for one in parsed(text)}
    counted = {one.labels["cluster"]: one.value for one in families["tallymark_collector_records"].samples}  # fmt: skip  # noqa: E501
    assert counted == {"dc1": 3, "aggregate": 9}
    assert text.count("# TYPE tallymark_collector_records_total") == 1


def test_no_metrics_where_none_are_wanted(tmp_path: Path) -> None:
    assert serve_metrics(Deployment(data_dir=tmp_path), [Collecting("dc1")]) is None


def told(store: Store, tmp_path: Path) -> set[str]:
    """Every name a sample can have."""
    families = metrics_of(store, tmp_path, own=own).collect()
    return {one.name for family in families for one in family.samples}


def told_by_a_broker(folder: Path) -> set[str]:
    with BrokerThread(folder) as broker:
        assert broker.broker is not None
        assert broker.broker.state is not None
        found = broker.call(families(broker.broker.state))
    gauges = {metric.name for metric in found if metric.type == "gauge"}  # some have no sample yet
    return gauges | {sample.name for metric in found for sample in metric.samples}


def test_alerting_rules_name_metrics_that_exist(store: Store, tmp_path: Path) -> None:
    fill(store)
    names = told(store, tmp_path) | told_by_a_broker(tmp_path)
    groups = yaml.safe_load((DEPLOY / "prometheus-rules.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        promql_parser.parse(rule["expr"])
        used = set(re.findall(r"tallymark_\w+", rule["expr"]))
        assert used, rule["alert"]
        assert used <= names, rule["alert"]
        assert {"summary", "description"} <= set(rule["annotations"])
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_the_grafana_dashboard_names_metrics_that_exist(store: Store, tmp_path: Path) -> None:
    fill(store)
    names = told(store, tmp_path) | told_by_a_broker(tmp_path)
    board = json.loads((DEPLOY / "grafana" / "tallymark-audit.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries = [one["definition"] for one in board["templating"]["list"] if "definition" in one]
    for text in expressions:
        promql_parser.parse(text.replace("$edge", ".*").replace("$topic", ".*"))
    used = {
        name for text in [*expressions, *queries] for name in re.findall(r"tallymark_\w+", text)
    }
    assert used
    assert used <= names
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
