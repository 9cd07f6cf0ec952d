"""From nothing at all to ten thousand of everything: each page answers, is small enough for a slow
line, and says how much of it is shown."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from large_store import BUSY, EDGE, Large, large_snapshots, prepare_large
from looking import broken_words, wider_than_the_page, wider_than_their_box
from page_text import text_of
from playwright.sync_api import Browser, ViewportSize
from prepared_store import deployment_in
from screenshots import serving

from tallymark_audit.store import open_store
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.frame.registry import PAGES
from tallymark_dashboards.pages import load_pages

load_pages()
pytestmark = pytest.mark.slow
FIRST_LOAD = 150_000
"""Bytes of a page with all that it needs, as they are sent."""
WIDTHS = (360, 1280, 3840)
NEED_A_NAME = ("topic", "window", "incident", "group", "schema", "run")


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Just installed: no collector has run, nothing is judged, no cluster was read."""
    deployment = deployment_in(tmp_path_factory.mktemp("new"))
    with (
        open_store(deployment.audit_store) as store,
        TestClient(create_app(deployment, store)) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def large_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FastAPI, Large]]:
    deployment = deployment_in(Path(tmp_path_factory.mktemp("large")))
    now = time.time_ns() // 1_000_000
    with open_store(deployment.audit_store) as store:
        found = prepare_large(store, now)
        yield create_app(deployment, store, large_snapshots(now)), found


@pytest.fixture(scope="module")
def large(large_app: tuple[FastAPI, Large]) -> Iterator[tuple[TestClient, Large]]:
    with TestClient(large_app[0]) as client:
        yield client, large_app[1]


def first_load(client: TestClient, page: str) -> int:
    """The bytes of a page and of all that it loads, compressed as they are sent."""
    assets = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    assert assets
    bodies = [page.encode(), *(client.get(one).content for one in assets)]
    return sum(len(gzip.compress(one, 5)) for one in bodies)


@pytest.mark.parametrize("name", PAGES)
def test_a_new_installation_says_what_to_do(new: TestClient, name: str) -> None:
    """The first page after the installation said that the audit is behind, and "0 missing"."""
    answer = new.get(PAGES[name].path)
    text = text_of(answer.text)
    assert answer.status_code == (404 if name in NEED_A_NAME else 200)
    assert "Nothing is counted yet" in text
    assert "tallymark up" in text
    assert "Every message arrived" not in text
    assert "is called ." not in text
    assert first_load(new, answer.text) <= FIRST_LOAD


def test_a_new_installation_shows_how_to_publish(new: TestClient) -> None:
    for path in ("/", "/heatmap"):
        assert "tallymark publish host_metrics --format metrics --duration 60" in new.get(path).text


def large_addresses(large: Large) -> dict[str, tuple[str, str]]:
    """A page with ten thousand of something, and what it says about how many there are."""
    whole = {"from": str(large.first), "to": str(large.newest + 600_000)}
    busy = urlencode({"topic": BUSY, "edge": EDGE, **whole})
    lost = urlencode({"edge": EDGE, "topic": "topic-00007", "window": large.newest})
    return {
        "overview": ("/", "10,000 of 10,001 have bad windows"),
        "last topics": ("/?page=201", "page 201 of 201"),
        "incidents": ("/incidents", "10,000 incidents"),
        "last incidents": ("/incidents?page=200", "page 200 of"),
        "heatmap": ("/heatmap", "10,001 topics"),
        "topic": (f"/topic?{busy}", "of 10,000 on all hops"),
        "topic of a day": (f"/topic?topic={BUSY}", BUSY),
        "window": (f"/window?{lost}", "1 missing"),
        "groups": ("/groups", "10,000 groups"),
        "messages": ("/messages?cluster=dc1", "more"),
        "clusters": ("/clusters", "10,000"),
        "wall": ("/wall", "10,000 of 10,001 topics"),
        "alerts": ("/alerts", "Alerts"),
        "runs": ("/runs", "Runs"),
    }


@pytest.mark.soak
def test_ten_thousand_of_everything_fit_and_are_counted(large: tuple[TestClient, Large]) -> None:
    client, found = large
    for name, (path, said) in large_addresses(found).items():
        answer = client.get(path)
        assert answer.status_code == 200, name
        assert said in text_of(answer.text), name
        assert first_load(client, answer.text) <= FIRST_LOAD, name


def test_a_name_is_found_among_ten_thousand(large: tuple[TestClient, Large]) -> None:
    client, _ = large
    for path in ("/?q=00777", "/heatmap?find=00777", "/incidents?q=00777"):
        text = text_of(client.get(path).text)
        assert "topic-00777" in text, path
        assert "topic-00778" not in text, path
    assert "group-00777" in text_of(client.get("/groups?q=00777").text)
    near = client.get("/topic?topic=topic-0077")
    assert near.status_code == 404
    assert text_of(near.text).count("topic-0077") > 3


def test_pages_of_ten_thousand_lead_to_the_next(large: tuple[TestClient, Large]) -> None:
    client, _ = large
    for path in ("/", "/incidents", "/heatmap", "/groups"):
        assert 'rel="next"' in client.get(path).text, path


@pytest.mark.process
@pytest.mark.browser
@pytest.mark.soak
@pytest.mark.timeout(300)
def test_ten_thousand_of_everything_fit_at_every_width(
    large_app: tuple[FastAPI, Large], browser: Browser
) -> None:
    """A page whose numbers have six digits more, and a list of 201 pages below it."""
    app, found = large_app
    tab = browser.new_page()
    with serving(app) as url:
        for name, (path, _) in large_addresses(found).items():
            tab.goto(url + path, wait_until="load")
            for width in WIDTHS:
                tab.set_viewport_size(ViewportSize(width=width, height=900))
                assert wider_than_the_page(tab) == [], (name, width)
                assert broken_words(tab) == [], (name, width)
                assert wider_than_their_box(tab) == [], (name, width)
    tab.close()
