"""Whatever stands in an address, and whatever fails, a person gets a page; never JSON, never a
traceback, never markup that a stranger wrote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prepared_store import HOSTILE, LONG, Prepared, deployment_in, prepare
from sqlalchemy.exc import OperationalError

from tallymark_audit.store import open_store
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.frame import rendering
from tallymark_dashboards.frame.registry import PAGES
from tallymark_dashboards.live import renderings
from tallymark_dashboards.pages import load_pages

load_pages()
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
NAMES = (
    "topic", "edge", "window", "page", "q", "cluster", "group", "partition", "offset", "time",
    "subject", "version", "id", "range", "from", "to", "after", "state", "kind", "limit", "sort",
)  # fmt: skip
VALUES = [
    *HOSTILE,
    "abc",
    "-1",
    "9" * 26,
    "0",
    "1",
    "²",
    "%00",
    "\u202e\u0000\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
    "../../etc/passwd",
    "' OR 1=1 --",
    "{{ 7 * 7 }}",
    "x" * 2_500,
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    folder: Path = tmp_path_factory.mktemp("prepared")
    deployment = deployment_in(folder)
    with open_store(deployment.audit_store) as store:
        yield prepare(store, deployment, time.time_ns() // 1_000_000, hours=8)


@pytest.fixture(scope="module")
def pages(prepared: Prepared) -> Iterator[TestClient]:
    app = create_app(prepared.deployment, prepared.store)
    with TestClient(app, headers=BROWSER) as client:
        yield client


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
@pytest.mark.parametrize("name", sorted(PAGES))
def test_any_value_gives_a_page(pages: TestClient, name: str, value: str) -> None:
    """A number of 26 digits was an error of the database, ``page=abc`` an answer in JSON."""
    answer = pages.get(PAGES[name].path, params=dict.fromkeys(NAMES, value))
    assert answer.status_code in (200, 404), answer.text[:300]
    _is_a_harmless_page(answer.text)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_says_what_it_took_instead(pages: TestClient, name: str) -> None:
    if not PAGES[name].ranged:
        pytest.skip("it has no range")
    answer = pages.get(PAGES[name].path, params={"range": "yesterday"})
    assert "range=yesterday is none of 15m, 6h, 24h, 7d" in answer.text


@pytest.mark.parametrize("topic", HOSTILE)
def test_hostile_names_of_the_store_are_shown_as_text(pages: TestClient, topic: str) -> None:
    for path in ("/", "/heatmap", "/topic"):
        if any(entry.path == path for entry in PAGES.values()):
            _is_a_harmless_page(pages.get(path, params={"topic": topic, "q": topic}).text)


def test_a_long_name_is_no_reason_to_refuse(pages: TestClient) -> None:
    """249 characters are what Kafka allows."""
    assert LONG[:20] in pages.get("/", params={"q": LONG}).text


def test_an_unknown_path_has_the_navigation_and_what_is_near(pages: TestClient) -> None:
    answer = pages.get("/windows/<b>")
    assert answer.status_code == 404
    assert 'aria-label="Pages"' in answer.text
    assert "/window" in answer.text
    assert "<b>" not in answer.text.replace('<b class="name">', "")


def _is_a_harmless_page(html: str) -> None:
    assert html.startswith("<!doctype html>")
    assert '<nav aria-label="Pages">' in html
    for bad in ("<script>alert", "<img", "\u202e", "Traceback", "jinja2"):
        assert bad not in html, bad
    assert len(html) < 600_000


def away(*_: Any, **__: Any) -> None:
    raise OperationalError("select", None, Exception("disk I/O error"))


def test_when_the_store_is_away_the_last_page_is_shown_and_says_so(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody is paged because the store's disk is full: the page that would show what was wrong
    before was an error in JSON."""
    monkeypatch.setattr(renderings, "SAME_S", 0)
    app = create_app(prepared.deployment, prepared.store)
    with TestClient(app, headers=BROWSER) as client:
        before = client.get("/?q=pay&range=6h")
        monkeypatch.setattr(prepared.store, "read", away)
        after = client.get("/?q=pay&range=6h")
        assert after.status_code == 200
        assert "payments" in after.text
        assert "The audit store cannot be read now (disk I/O error). This page is of" in after.text
        assert "cannot be read" not in before.text
        never_seen = client.get("/?q=other")
        assert (never_seen.status_code, never_seen.headers["retry-after"]) == (503, "2")
        assert "The audit store cannot be read now: disk I/O error." in never_seen.text
        assert 'aria-label="Pages"' in never_seen.text


def test_a_fault_of_ours_is_a_page_without_its_traceback(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret of the inside")

    app = create_app(prepared.deployment, prepared.store)
    monkeypatch.setattr(rendering, "page_at", broken)
    with TestClient(app, headers=BROWSER, raise_server_exceptions=False) as client:
        answer = client.get("/")
        assert answer.status_code == 500
        assert answer.headers["content-type"].startswith("text/html")
        assert "This page could not be made" in answer.text
        assert "secret" not in answer.text
        assert "Traceback" not in answer.text
        assert "'self'" in answer.headers["content-security-policy"]
        assert client.get("/", headers={"Accept": "*/*"}).json() == {"detail": "internal error"}


def test_an_audit_that_is_behind_is_told_on_every_page(tmp_path: Path) -> None:
    """With every collector stopped for 15 windows the pages stayed green."""
    deployment = deployment_in(tmp_path)
    with open_store(deployment.audit_store) as store:
        prepare(store, deployment, time.time_ns() // 1_000_000, hours=4, stopped="dc2")
        with TestClient(create_app(deployment, store), headers=BROWSER) as client:
            for entry in PAGES.values():
                page = client.get(entry.path).text
                assert "The audit is behind" in page, entry.path
                assert "collector-dc2" in page


def test_an_audit_that_is_current_is_not_called_behind(pages: TestClient) -> None:
    assert "The audit is behind" not in pages.get("/").text
