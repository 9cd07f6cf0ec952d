"""Nonsense in any parameter of any page is said on the page, with what was taken instead.

No list of parameters is kept here: pages are asked, and what they read of their address is tried.
"""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import pytest
from fastapi.testclient import TestClient
from prepared_clusters import snapshots
from prepared_store import Prepared, deployment_in, prepare
from screenshots import addresses

from tallymark.untrusted import escaped
from tallymark_audit.store import open_store
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.frame import ask
from tallymark_dashboards.frame.registry import PAGES
from tallymark_dashboards.pages import load_pages
from tallymark_dashboards.snapshots.peeks import Found, Peeks, Wanted

load_pages()
BROWSER: Final = {"Accept": "text/html"}
NONSENSE: Final = (
    "abc", "-1", "9" * 26, "²", "1e5", "<b>", "3000-13-45", "-5m",
)  # fmt: skip
FREE: Final = {"q", "find"}
"""Any text is right in them: it is looked for."""
RANGE: Final = ("range", "from", "to")
MORE: Final = {
    "messages": ("/messages?cluster=dc1&topic=orders",),
    "incident": ("/incident?id=1&after=1970-01-01",),
    "run": ("/run?id=j1",),
}
"""Further addresses, of pages that read more when they are asked for more."""
TOLD: Final = re.compile(
    r"(.+=.* (is no number|is below -?[\d,]+|is more than [\d,]+|is no time|is none of .+|"
    r"is outside the calendar)|there is no page [\d,…]+|from is not before to|no hop is called .+|"
    r".+ was never judged on .+|more than 366 days|an offset and a time are asked for): "
    r"((.+ )?(is|are) (taken|shown)|it is left out|the last 366 days before the end are shown)"
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    folder: Path = tmp_path_factory.mktemp("prepared")
    deployment = deployment_in(folder)
    with open_store(deployment.audit_store) as store:
        yield prepare(store, deployment, time.time_ns() // 1_000_000, hours=8)


@pytest.fixture(scope="module")
def pages(prepared: Prepared) -> Iterator[TestClient]:
    """Brokers answer that they have one topic, which is empty: no test here is about them."""

    def look(_: Peeks, wanted: Wanted) -> Found:
        there = wanted.topic == "orders" and wanted.partition in (0, 1)
        return Found(start=0, end=0, partitions=(0, 1) if there else (), error="it is empty")

    app = create_app(prepared.deployment, prepared.store, snapshots(prepared.now))
    with pytest.MonkeyPatch.context() as patched, TestClient(app, headers=BROWSER) as client:
        patched.setattr(Peeks, "look", look)
        yield client


def places(prepared: Prepared, name: str) -> list[tuple[str, dict[str, str]]]:
    """Addresses that are right: path, and values."""
    known = addresses(prepared)
    found = [urlsplit(one) for one in (known.get(name), *MORE.get(name, ())) if one]
    return [(one.path, dict(parse_qsl(one.query))) for one in found]


def read_by(
    pages: TestClient, path: str, values: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> set[str]:
    """The parameters that a page reads."""
    found: set[str] = set()
    text = ask.Ask.text

    def reading(self: ask.Ask, name: str, default: str = "") -> str:
        found.add(name)
        return text(self, name, default)

    with monkeypatch.context() as patched:
        patched.setattr(ask.Ask, "text", reading)
        # A value that nothing else can have, so that no rendering is used again.
        pages.get(path, params={**values, "unread": str(time.monotonic_ns())})
    return found


def notes_of(page: str) -> list[str]:
    part = page.partition('id="notes"')[2].partition("</ul>")[0]
    return [html.unescape(one) for one in re.findall(r"<li>(.*?)</li>", part)]


@pytest.mark.parametrize("name", sorted(PAGES))
def test_nonsense_in_each_parameter_is_said_with_what_was_taken_instead(
    prepared: Prepared, pages: TestClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """“offset=abc is no number: -1 is taken” was said of an offset that no message has; a rule of
    which there was never an alert showed an empty table, and nothing said why."""
    known = places(prepared, name)
    assert known
    for path, values in known:
        right = pages.get(path, params=values)
        assert (right.status_code, notes_of(right.text)) == (200, []), path
        parameters = read_by(pages, path, values, monkeypatch)
        parameters |= set(RANGE) if PAGES[name].ranged else set()
        for parameter in sorted(parameters):
            for value in NONSENSE:
                asked = {**values, parameter: value}
                if parameter == "from":
                    asked.setdefault("to", "2026-01-01")
                answer = pages.get(path, params=asked)
                assert wrong_with(answer.status_code, answer.text, parameter, value) == "", asked


def wrong_with(status: int, page: str, parameter: str, value: str) -> str:
    """Why a user would not know what became of the value; empty: the page says it."""
    notes = notes_of(page)
    for note in notes:
        if TOLD.fullmatch(note) is None:
            return f"{note!r} does not say what was taken"
    main = html.unescape(page.partition('<div class="tools">')[2] or page.partition("<main")[2])
    if status == 404:
        shown = escaped(value)
        return "" if shown in main or "no such" in main else "which is not there is not said"
    if status != 200:
        return f"status {status}"
    if parameter in FREE:
        return "" if value in main else "what is looked for is not shown"
    if notes:
        return ""
    only = re.sub("<[^>]+>", "", page.partition('id="only"')[2].partition("</p>")[0])
    return "" if value in html.unescape(only) else "nothing is said about it"


def test_a_page_beyond_the_last_is_said_once(prepared: Prepared, pages: TestClient) -> None:
    """For ``page=999999`` two notes said that two different pages were taken."""
    lists = [name for name in PAGES if name in ("overview", "incidents", "topic", "heatmap")]
    lists += ["groups", "group", "schemas", "runs", "alerts"]
    for name in lists:
        (path, values), *_ = places(prepared, name)
        for page, said in (("999", "999"), ("9" * 9, "999,999,999")):
            answer = pages.get(path, params={**values, "page": page})
            (note,) = notes_of(answer.text)
            assert re.fullmatch(rf"there is no page {said}: page \d+ is shown", note), (name, note)


def test_an_offset_and_a_time_are_not_both_taken(pages: TestClient) -> None:
    answer = pages.get("/messages?cluster=dc1&topic=orders&offset=5&time=10m")
    said = "an offset and a time are asked for: the offset is taken"
    assert notes_of(answer.text) == [said]


def test_a_value_that_is_there_twice_is_said(pages: TestClient) -> None:
    answer = pages.get("/?q=orders&q=payments")
    assert notes_of(answer.text) == ["q is in the address more than once: the first is taken"]


@pytest.mark.parametrize("action", ["accept", "withdraw", "retire", "repair"])
@pytest.mark.parametrize("value", NONSENSE)
def test_nonsense_for_an_action_is_a_page_that_says_so(
    pages: TestClient, action: str, value: str
) -> None:
    for parameter in ("edge", "topic", "window", "reporter", "from", "to", "again"):
        answer = pages.get(f"/act/{action}", params={parameter: value})
        assert answer.status_code in (403, 404), (parameter, answer.status_code)
        assert 'aria-label="Pages"' in answer.text
        assert "Traceback" not in answer.text


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_time_range_stays_from_page_to_page(
    prepared: Prepared, pages: TestClient, name: str
) -> None:
    """It was lost on pages that have none: back from an incident, the overview was of 24 hours."""
    for path, values in places(prepared, name):
        page = pages.get(path, params={**values, "range": "6h"}).text
        assert notes_of(page) == []
        to_pages = re.findall(r'<nav aria-label="Pages">(.*?)</nav>', page, re.DOTALL)[0]
        assert to_pages.count("href=") == to_pages.count("range=6h") > 5
        for form in re.findall(r'<form [^>]*method="get".*?</form>', page, re.DOTALL):
            assert 'name="range" value="6h"' in form or 'name="from"' in form
