"""Whether the dashboards are ready, and what they measure of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prepared_store import deployment_in, prepare
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.exc import OperationalError

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark_audit.store import Store, open_store
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.shapes import ClusterState, Part


@pytest.fixture
def current(tmp_path: Path) -> Iterator[TestClient]:
    """The dashboards of an audit that is up to date."""
    deployment = deployment_in(tmp_path)
    with open_store(deployment.audit_store) as store:
        prepare(store, deployment, now_ms(), hours=2)
        with TestClient(create_app(deployment, store)) as client:
            yield client


def test_it_is_ready_while_the_audit_is_up_to_date(current: TestClient) -> None:
    found = current.get("/readyz")
    assert (found.status_code, found.json()) == (200, {"status": "ready"})
    assert current.get("/healthz").json() == {"status": "ok"}


def test_it_is_not_ready_while_a_collector_is_silent(tmp_path: Path) -> None:
    """A load balancer kept sending people to dashboards that showed the state of the night before.
    The answer needs no log-in, so it names nothing."""
    deployment = deployment_in(tmp_path)
    with open_store(deployment.audit_store) as store:
        prepare(store, deployment, now_ms(), hours=2, stopped="dc2")
        with TestClient(create_app(deployment, store)) as client:
            found = client.get("/readyz")
            assert client.get("/healthz").status_code == 200
    assert found.status_code == 503
    assert "the audit is behind" in found.json()["why"]
    assert "dc2" not in found.text


def test_it_is_not_ready_while_the_store_is_away(
    client: TestClient, filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise OperationalError("SELECT 1", None, Exception("password of the store"))

    monkeypatch.setattr(filled, "read", away)
    found = client.get("/readyz")
    assert found.status_code == 503
    assert found.json()["why"] == "the audit store cannot be read"
    assert client.get("/healthz").status_code == 200


def samples(client: TestClient) -> dict[tuple[str, tuple[str, ...]], float]:
    text = client.get("/metrics").text
    return {
        (one.name, tuple(text for _, text in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_it_measures_itself(filled: Store, deployment: Deployment) -> None:
    snapshots = Snapshots.of(deployment)
    state = snapshots.cluster("dc1") or ClusterState("dc1")
    brokers = Part(state.brokers.value, at=now_ms() - 90_000)
    snapshots.put(replace(state, brokers=brokers))
    with TestClient(create_app(deployment, filled, snapshots)) as client:
        for path in ("/", "/", "/window?window=abc", "/nothing", "/nothing/" + "x" * 99):
            client.get(path)
        found = samples(client)
    assert found["tallymark_dashboards_requests_total", ("200", "/")] == 2
    assert found["tallymark_dashboards_requests_total", ("404", "/window")] == 1
    assert found["tallymark_dashboards_requests_total", ("404", "other")] == 2
    assert found["tallymark_dashboards_render_seconds_count", ("overview",)] == 2
    assert found["tallymark_dashboards_live_viewers", ()] == 0
    assert 89 < found["tallymark_dashboards_snapshot_age_seconds", ("dc1",)] < 150
    assert ("tallymark_dashboards_snapshot_age_seconds", ("dc2",)) not in found


def test_clients_cannot_add_names_to_the_metrics(client: TestClient) -> None:
    for number in range(50):
        client.get(f"/{number}")
        client.get(f"/static/{number}.css")
        client.get(f"/fragment/{number}")
        client.request("PUT" if number % 2 else "DELETE", f"/api/v1/audit/{number}")
    names = {key for key in samples(client) if key[0] == "tallymark_dashboards_requests_total"}
    assert len(names) < 12
