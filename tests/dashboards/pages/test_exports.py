"""The links to CSV and JSON below a page's tables lead to the same rows."""

import csv
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prepared_clusters import HOSTILE, snapshots, topic
from prepared_store import deployment_in, prepare

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark_audit.store import Store, open_store
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.registry_shapes import RegistryState
from tallymark_dashboards.snapshots.shapes import ClusterState, GroupState, Part


@pytest.mark.parametrize("range_", ["range=6h", "range=24h", "from=2h"])
def test_the_windows_of_a_topic(tmp_path: Path, range_: str) -> None:
    deployment = deployment_in(tmp_path)
    with open_store(deployment.audit_store) as store:
        prepare(store, deployment, time.time_ns() // 1_000_000, hours=1, hostile=False)
        with TestClient(create_app(deployment, store)) as client:
            page = client.get(f"/topic?topic=metrics&{range_}").text
            hrefs = re.findall(r'href="(/api/v1/audit/verdicts[^"]*)"', page)
            assert len(hrefs) == 2
            answer, json = (client.get(href.replace("&amp;", "&")) for href in hrefs)
    assert (answer.status_code, json.status_code) == (200, 200)
    assert answer.headers["content-type"].startswith("text/csv")
    shown = re.findall(r'id="window-(\d+)-', page)
    assert sorted(str(row["window"]) for row in json.json()["verdicts"]) == sorted(shown)
    assert len(answer.text.splitlines()) == 1 + len(shown)


def hrefs_of(page: str) -> list[str]:
    """The addresses of the links to CSV and JSON."""
    exports = re.findall(r'<p class="exports">.*?</p>', page, re.DOTALL)
    return [
        href.replace("&amp;", "&") for one in exports for href in re.findall(r'href="([^"]*)"', one)
    ]


@pytest.fixture
def shown(deployment: Deployment, store: Store) -> Iterator[TestClient]:
    with TestClient(create_app(deployment, store, snapshots(now_ms()))) as client:
        yield client


@pytest.mark.parametrize("path", ["/clusters", "/groups", "/group?cluster=dc1&group=billing"])
def test_every_link_of_the_snapshots_has_rows(shown: TestClient, path: str) -> None:
    hrefs = hrefs_of(shown.get(path).text)
    assert len(hrefs) >= 2
    for csv_href, json_href in zip(hrefs[::2], hrefs[1::2], strict=True):
        answer, told = shown.get(csv_href), shown.get(json_href)
        assert (answer.status_code, told.status_code) == (200, 200), csv_href
        assert answer.headers["content-type"].startswith("text/csv")
        (rows,) = (rows for name, rows in told.json().items() if name != "next")
        lines = list(csv.DictReader(io.StringIO(answer.text, newline="")))
        assert lines
        assert len(lines) == len(rows)
        assert set(lines[0]) == set(rows[0])


def test_clusters_and_partitions_as_the_page_shows_them(shown: TestClient) -> None:
    rows = {one["cluster"]: one for one in shown.get("/api/v1/clusters").json()["clusters"]}
    assert rows["dc1"]["leaderless"] == 2
    assert rows["dc2"]["brokers"] == 3
    assert "connection refused" in rows["dc2"]["error"]
    bad = shown.get("/api/v1/partitions-in-danger?cluster=dc1").json()["partitions_in_danger"]
    assert {"payments"} <= {one["topic"] for one in bad}
    assert {one["cluster"] for one in bad} == {"dc1"}
    brokers = shown.get("/api/v1/brokers?cluster=dc1").json()["brokers"]
    assert [one["broker"] for one in brokers if one["controller"]] == [2]


def test_names_that_are_meant_to_harm_are_one_cell(deployment: Deployment, store: Store) -> None:
    """A spreadsheet computes a cell that begins with "="."""
    names = [HOSTILE, "=cmd()", "a\r\nb"]
    topics = {name: topic(name, 1, leaderless=(0,)) for name in names}
    state = ClusterState("dc1", topics=Part(topics, now_ms()))
    with TestClient(create_app(deployment, store, Snapshots([state], RegistryState()))) as client:
        text = client.get("/api/v1/partitions-in-danger.csv").text
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    assert sorted(one["topic"][:6] for one in lines) == sorted(["<scrip", "'=cmd(", "a\\r\\nb"[:6]])
    assert "\u202e" not in text


def test_ten_thousand_groups_come_in_pages(deployment: Deployment, store: Store) -> None:
    groups = {f"g{n:05}": GroupState(f"g{n:05}", "brokers", "Stable") for n in range(10_000)}
    state = ClusterState("dc1", groups=Part(groups, now_ms()))
    with TestClient(create_app(deployment, store, Snapshots([state], RegistryState()))) as client:
        first = client.get("/api/v1/groups").json()
        assert len(first["groups"]) == 100
        second = client.get(f"/api/v1/groups?cursor={first['next']}").json()
        assert second["groups"][0]["group"] == "g00100"
        assert len(client.get("/api/v1/groups.csv").text.splitlines()) == 10_001
        assert client.get("/api/v1/groups?status=STOPPED").json()["groups"] == []
        wrong = client.get("/api/v1/groups?status=sleepy")
        assert wrong.status_code == 422
        assert client.get("/api/v1/groups?cursor=abc").status_code == 422


def test_the_tables_of_the_snapshots_need_no_store(
    deployment: Deployment, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(deployment, store, snapshots(now_ms()))

    def away(*_: object) -> None:
        raise AssertionError("the store was read")

    with TestClient(app) as client:
        monkeypatch.setattr(store, "read", away)
        assert client.get("/api/v1/clusters.csv").status_code == 200
        assert client.get("/api/v1/groups").status_code == 200


def test_the_cells_of_the_heatmap(tmp_path: Path) -> None:
    deployment = deployment_in(tmp_path)
    with open_store(deployment.audit_store) as store:
        prepared = prepare(store, deployment, now_ms(), hours=2, hostile=False)
        with TestClient(create_app(deployment, store)) as client:
            page = client.get("/heatmap?find=payments&edge=producer-to-dc2").text
            csv_href, json_href, *_ = hrefs_of(page)
            answer, told = client.get(csv_href), client.get(json_href)
    rows = told.json()["heat"]
    assert {row["topic"] for row in rows} == {"payments"}
    (bad,) = (row for row in rows if row["missing"])
    assert (bad["missing"], bad["edge"], bad["window"]) == (7, "producer-to-dc2", prepared.gone)
    assert len(answer.text.splitlines()) == 1 + len(told.json()["heat"])
