"""Every table of every page has its rows as CSV and as JSON, and both are the same rows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prepared_clusters import HOSTILE, snapshots
from prepared_store import EDGES, Prepared, deployment_in, prepare

from tallymark.clock import now_ms
from tallymark_audit.store import open_store
from tallymark_audit.store.reading.runs import COUNTS
from tallymark_audit.store.schema.tables import decisions, runs
from tallymark_dashboards.app.application import create_app

FORMULA = "=HYPERLINK(1)"
WITHOUT = {"/", "/heatmap"}
"""Pages on which a table shares the links of the one below it."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    deployment = deployment_in(Path(tmp_path_factory.mktemp("tables")))
    with open_store(deployment.audit_store) as store:
        one = prepare(store, deployment, now_ms(), hours=8)
        hops = [
            {"edge": "dc1-to-aggregate", "topic": f"{FORMULA}{n}", "state": "LOSS", "missing": n}
            for n in range(250)
        ]
        detail = {"edges": [*hops, "no hop"], "seconds": {"read": 1.5}}
        with store.write() as connection:
            connection.execute(
                runs.insert().values(
                    job="reconcile", started_at=one.now - 9_000, finished_at=one.now - 1_000,
                    from_ms=one.repaired - 3_600_000, to_ms=one.now, outcome="discrepancies",
                    detail=detail,
                )
            )  # fmt: skip
            connection.execute(
                decisions.insert().values(
                    at=one.repaired, finished_at=one.now, action="repair", who="User:alice",
                    edge="dc1-to-aggregate", topic="orders", window=one.repaired,
                    window_end=one.repaired + 600_000, outcome="repaired",
                )
            )  # fmt: skip
        yield one


@pytest.fixture(scope="module")
def client(prepared: Prepared) -> Iterator[TestClient]:
    app = create_app(prepared.deployment, prepared.store, snapshots(now_ms()))
    with TestClient(app) as client:
        yield client


def addresses(client: TestClient) -> list[str]:
    """The pages of the navigation bar, and one of each kind to which they lead."""
    found = {one: one for one in ("/", "/incidents", "/alerts", "/runs", "/groups", "/clusters")}
    found |= {one: one for one in ("/heatmap", "/schemas", "/messages")}
    for address in list(found):
        for href in re.findall(r'href="(/[^"#]*)"', client.get(address).text):
            found.setdefault(href.partition("?")[0], unescape(href))
    kinds = ("/topic", "/window", "/incident", "/run", "/schema", "/group")
    assert set(kinds) <= set(found)
    known = ["/group?cluster=dc1&group=fraud-detection", "/topic?topic=orders&range=7d"]
    known += ["/schema?subject=clicks-value", "/messages?cluster=dc1"]
    return [*(found[one] for one in (*list(found)[:9], *kinds)), *known]


def links_behind(page: str) -> list[tuple[str, list[str]]]:
    """Of each table of a page: how it is called, and the links between it and the next one."""
    parts = page.partition("<main")[2].split('role="region" aria-label="')[1:]
    return [
        (part.partition('"')[0], re.findall(r'href="(/api/v1/[^"]*)"', part))
        for part in parts
        if "<table" in part
    ]


def same_rows(client: TestClient, csv_href: str, json_href: str) -> list[dict[str, str]]:
    """Follows both links, page by page, and returns the lines of the CSV."""
    answer = client.get(unescape(csv_href))
    assert answer.status_code == 200, (csv_href, answer.text)
    assert answer.headers["content-type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    rows: list[dict[str, Any]] = []
    address = unescape(json_href)
    while True:
        told = client.get(address).json()
        (name,) = (one for one, value in told.items() if isinstance(value, list))
        rows += told[name]
        if not told["next"]:
            break
        address = f"{unescape(json_href)}{'&' if '?' in json_href else '?'}cursor={told['next']}"
    assert len(lines) == len(rows), csv_href
    assert not rows or set(lines[0]) == set(rows[0]), csv_href
    return lines


def test_every_table_has_links_and_every_link_has_the_rows(client: TestClient) -> None:
    """Schemas, messages, runs and most tables of a topic and of a window had none, and the CSV of
    the overview had other rows than its JSON."""
    followed: set[str] = set()
    for address in addresses(client):
        answer = client.get(address)
        assert answer.status_code == 200, address
        for name, links in links_behind(answer.text):
            if address.partition("?")[0] not in WITHOUT:
                assert links, f"{address}: {name} has no links"
            for csv_href, json_href in zip(links[::2], links[1::2], strict=False):
                kind = csv_href.partition("?")[0]
                if kind.endswith(".csv") and kind not in followed:
                    same_rows(client, csv_href, json_href)
                    followed.add(kind)
    for path in ("subjects", "subject-versions", "cluster-topics", "group-members", "group-course"):
        assert f"/api/v1/{path}.csv" in followed
    for path in ("hops", "buckets", "evidence/upstream", "evidence/history", "lake-tables"):
        assert path == "lake-tables" or f"/api/v1/audit/{path}.csv" in followed


def test_no_cell_is_a_formula(client: TestClient, prepared: Prepared) -> None:
    number = client.get("/api/v1/audit/runs?limit=1").json()["runs"][0]["id"]
    hops = f"/api/v1/audit/runs/{number}/hops"
    lines = same_rows(client, f"{hops}.csv", hops)
    assert len(lines) == 250
    assert all(line["topic"].startswith(f"'{FORMULA}") for line in lines)
    assert {line["missing"] for line in lines} == {str(n) for n in range(250)}
    assert {lines[0][name] for name in COUNTS if name != "missing"} == {""}
    page = client.get(f"/run?id=j{number}").text
    assert "and 50 more" in page
    subjects = client.get("/api/v1/subjects.csv").text
    assert "<script>" in subjects
    assert HOSTILE not in subjects
    assert "\\u202e" in subjects


def test_the_filters_of_a_page_are_those_of_its_links(client: TestClient) -> None:
    """The links below the incidents had all of the period, whatever was chosen above them."""
    whole = links_behind(client.get("/incidents").text)[0][1]
    chosen = links_behind(client.get("/incidents?state=open&kind=LOSS&q=pay").text)[0][1]
    lines = same_rows(client, chosen[0], chosen[1])
    assert {line["topic"] for line in lines} == {"payments"}
    assert len(same_rows(client, whole[0], whole[1])) > len(lines)
    closed = links_behind(client.get("/incidents?state=closed").text)[0][1]
    assert {line["state"] for line in same_rows(client, closed[0], closed[1])} == {"REPAIRED"}
    bad = client.get("/topic?topic=payments&state=bad").text
    windows = [links for name, links in links_behind(bad) if name == "Windows of the topic"]
    assert {line["state"] for line in same_rows(client, *windows[0][:2])} == {"LOSS"}


def test_the_parts_of_a_repair(client: TestClient, prepared: Prepared) -> None:
    address = client.get("/api/v1/audit/decisions?action=repair").json()["decisions"][0]["id"]
    href = f"/api/v1/audit/decisions/{address}/repairs"
    (line,) = same_rows(client, f"{href}.csv", href)
    assert (line["topic"], line["copied"]) == ("orders", "12")
    assert client.get(f"{href.replace(str(address), '99')}").status_code == 404


def test_the_cells_of_a_window_are_those_of_the_page(
    client: TestClient, prepared: Prepared
) -> None:
    place = f"edge={EDGES[0].replace('dc1', 'dc2')}&topic=payments&window={prepared.gone}"
    (cell,) = client.get(f"/api/v1/audit/evidence/cells?{place}").json()["window_cells"]
    assert (cell["source"], cell["missing"], cell["missing_count"]) == ("collector", [900, 906], 7)
    none = client.get(f"/api/v1/audit/evidence/cells?{place}0")
    assert none.status_code == 404
    assert none.json()["do"]


def test_what_is_not_there_is_a_problem_with_a_way_on(client: TestClient) -> None:
    for path in (
        "subject-versions?subject=nothing",
        "schema-differences?subject=clicks-value&version=1&against=9",
        "group-members?cluster=dc1&group=nothing",
        "group-course?cluster=nowhere&group=billing",
        "messages?cluster=nowhere&topic=clicks",
    ):
        answer = client.get(f"/api/v1/{path}")
        assert answer.status_code == 404, path
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["do"]


VALUES = ("", "1", "-1", "9" * 26, "abc", "a/b?c&d=%", "\u202e\u2028", "é" * 250, "x" * 400, "\x00")
DAILY = ("9" * 26, "a/b?c&d=%")
NAMES = ("topic", "cluster", "find", "group", "subject", "edge", "rule", "counter")
KINDS = ("application/json", "application/problem+json", "text/csv")


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(value, id=str(n), marks=() if value in DAILY else pytest.mark.soak)
        for n, value in enumerate(VALUES)
    ],
)
def test_whatever_is_asked_for_is_answered(client: TestClient, tmp_path: Path, value: str) -> None:
    """On a store with something of everything, and on one of a new installation: once with every
    parameter, which most refuse, and once with names only."""
    document = client.get("/openapi.json").json()["paths"]
    paths = [one for one in document if one.startswith("/api/v1/") and "watermarks" not in one]
    deployment = deployment_in(tmp_path)
    with (
        open_store(deployment.audit_store) as store,
        TestClient(create_app(deployment, store)) as new,
    ):
        for path in paths:
            known = [
                (one["name"], one["required"])
                for one in document[path]["get"].get("parameters", ())
                if one["in"] == "query"
            ]
            every = {name: value for name, _ in known}
            names = {
                name: value if name in NAMES else "1"
                for name, needed in known
                if needed or name in NAMES
            }
            for asked in (every, names):
                for address in (path.format(number=1), f"{path.format(number=1)}.csv"):
                    for each in (client, new):
                        answer = each.get(address, params=asked)
                        assert answer.status_code in (200, 403, 404, 422, 503), address
                        kind = answer.headers["content-type"].partition(";")[0]
                        assert kind in KINDS, (address, kind)
