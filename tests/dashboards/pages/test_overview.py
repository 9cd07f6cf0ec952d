"""The overview, the incidents, the alerts and the wall: what they say, and what they never say."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from counting import statements
from fastapi.testclient import TestClient
from page_text import text_of
from prepared_store import HOSTILE, LONG, Prepared, W, deployment_in, prepare

from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.alert import Alert
from tallymark_audit.store import open_store
from tallymark_audit.store.judged.alerts import save
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.schema.tables import watermarks
from tallymark_dashboards.app.application import create_app

PAGES = ("/", "/incidents", "/alerts", "/wall")


@contextmanager
def world(
    folder: Path, stopped: str = "", more: int = 0, *, filled: bool = True
) -> Iterator[tuple[Prepared | None, TestClient]]:
    deployment = deployment_in(folder)
    with open_store(deployment.audit_store) as store:
        prepared = None
        if filled:
            now = time.time_ns() // 1_000_000
            prepared = prepare(store, deployment, now, hours=8, stopped=stopped, more=more)
        with TestClient(create_app(deployment, store)) as client:
            yield prepared, client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with world(tmp_path_factory.mktemp("all")) as (_, client):
        yield client


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The collector of dc2 stopped 15 windows ago."""
    with world(tmp_path_factory.mktemp("stopped"), "dc2") as (_, client):
        yield client


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with world(tmp_path_factory.mktemp("empty"), filled=False) as (_, client):
        yield client


def cells_of(page: str, topic: str) -> list[str]:
    """The symbols of a topic's strip."""
    table = page.partition('id="topics-h"')[2]
    row = re.search(rf'>{topic}</bdi></a>.*?<ol class="strip">(.*?)</ol>', table, re.S)
    assert row is not None
    return [text_of(one).strip()[:1] for one in re.findall(r"<li>(.*?)</li>", row[1], re.S)]


def test_absence_is_never_green(stopped: TestClient) -> None:
    """With a collector stopped for 15 windows the overview stayed as it was: ticks, and 100 %."""
    page = stopped.get("/").text
    text = text_of(page)
    assert "The audit is behind" in text
    assert "collector-dc2" in text
    assert "unknown since" in text
    assert "100.00 %" not in text
    assert "behind audit not counted: dc2" in text
    for topic in ("payments", "clicks"):
        assert cells_of(page, topic)[-2:] == ["∅", "∅"]
    assert "∅" not in cells_of(page, "metrics")  # dc1 and the aggregate are counted
    assert "not judged after" in text
    stopped_at = re.search(r"collector-dc2 last committed (\S+)", text)
    assert stopped_at is not None
    assert f"as of {stopped_at[1]}" in text  # the time of the data, not of the page


def test_the_wall_of_a_silent_audit_is_not_calm(stopped: TestClient) -> None:
    text = text_of(stopped.get("/wall").text)
    assert "Every message arrived" not in text
    assert "The audit is behind" in text


def test_each_message_is_counted_once_and_the_range_is_named(client: TestClient) -> None:
    """The pulse added up the hops: 50,380 messages were 100,765 claimed."""
    text = text_of(client.get("/").text)
    assert "Messages of the last 24 hours, by their own time, each counted once" in text
    claimed = int(re.search(r"7 missing of ([\d,]+) claimed", text)[1].replace(",", ""))  # type: ignore[index]
    rows = re.findall(r'data-label="claimed" class="n">([\d,]+)<', client.get("/").text)
    assert claimed == sum(int(one.replace(",", "")) for one in rows)
    assert "7 missing of" not in text_of(client.get("/?range=15m").text)


def test_all_strips_end_at_the_same_time_and_the_ends_are_labelled(client: TestClient) -> None:
    page = client.get("/?range=6h").text
    lengths = {
        len(one.split("<li>")) for one in re.findall(r'<ol class="strip">(.*?)</ol>', page, re.S)
    }
    assert len(lengths) == 1
    assert "a cell is 30 min" in text_of(page)
    assert page.count('class="ends"') == 1


def test_complete_through_has_bad_holes_once_and_none_that_settle(tmp_path: Path) -> None:
    """Windows that settle flickered as holes, and one that was bad on three hops stood
    three times."""
    with world(tmp_path) as (prepared, client):
        assert prepared is not None
        with prepared.store.write() as connection:
            holes = [[prepared.gone, "LOSS", False], [prepared.now - W, "SETTLING", False]]
            connection.execute(
                watermarks.update().where(watermarks.c.topic == "payments").values(holes=holes)
            )
        table = client.get("/").text.partition('id="topics-h"')[2]
        row = table.partition(">payments</bdi>")[2].partition("</tr>")[0]
    assert len(re.findall(r"</time>\s*LOSS", row)) == 1
    assert "SETTLING</a>" not in row


def test_what_was_wrong_and_is_mended_leads_back_to_its_incident(client: TestClient) -> None:
    page = client.get("/").text
    assert "↺" in cells_of(page, "orders")
    href = re.search(r'href="([^"]*)" title="[^"]*windows were wrong before', page)
    assert href is not None
    assert "12 missing" in text_of(client.get(html.unescape(href[1])).text)


def test_queries_do_not_grow_with_the_rows(tmp_path: Path) -> None:
    """The overview asked once a topic."""
    asked: dict[str, list[int]] = {}
    for more in (0, 300):
        with world(tmp_path / str(more), more=more) as (prepared, client):
            assert prepared is not None
            for path in PAGES:
                client.get(path)
                with statements(prepared.store.engine) as said:
                    # Another address: a page that was just made is not made again for a second.
                    assert client.get(f"{path}?again=1").status_code == 200
                asked.setdefault(path, []).append(len(said))
    for path, (few, many) in asked.items():
        assert many <= few + 2, path
        assert many < 45, path


@pytest.mark.soak
def test_ten_thousand_topics_are_paged_and_found(tmp_path: Path) -> None:
    with world(tmp_path, more=10_000) as (_, client):
        page = client.get("/")
        assert "of 10,010" in text_of(page.text) or "10,010" in text_of(page.text)
        assert page.text.count('<ol class="strip">') == 50
        assert "page 1 of 201" in text_of(page.text)
        assert "there is no page 9,999: page 201 is shown" in text_of(
            client.get("/?page=9999").text
        )
        found = client.get("/?q=BULK-00777")
        assert found.text.count('<ol class="strip">') == 1
        assert "No topic or hop has “zzz”" in text_of(client.get("/?q=zzz").text)


def test_hostile_names_stay_text(client: TestClient) -> None:
    page = client.get("/").text
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    for name in HOSTILE:
        found = client.get(f"/incidents?{urlencode({'topic': name, 'q': name})}")
        assert found.status_code == 200
        assert "<script>alert" not in found.text
    assert LONG not in re.sub(r'(?:title|href|value)="[^"]*"', "", page)


@pytest.mark.parametrize("path", PAGES)
def test_an_empty_store_has_pages_that_say_so(empty: TestClient, path: str) -> None:
    page = empty.get(path)
    assert page.status_code == 200
    text = text_of(page.text)
    assert "Every message arrived" not in text
    assert "100.00 %" not in text
    assert "Nothing is counted yet: no collector has ever run for dc1, dc2, aggregate" in text


@pytest.mark.parametrize(
    "query",
    ["page=abc", "page=-1", "page=99999999999999999999", "state=x", "kind=<b>", "status=%00",
     "range=9y", "from=x&to=y", "rule=%E2%80%AE", "topic=" + "x" * 400, "id=x", "after=-9"],
)  # fmt: skip
@pytest.mark.parametrize("path", PAGES)
def test_whatever_the_address_says_there_is_a_page(
    client: TestClient, path: str, query: str
) -> None:
    page = client.get(f"{path}?{query}")
    assert page.status_code == 200
    assert '<nav aria-label="Pages">' in page.text


def test_incidents_are_filtered_by_the_address(client: TestClient) -> None:
    def whats(query: str) -> set[str]:
        page = client.get(f"/incidents?{query}").text
        return {
            text_of(one).strip()
            for one in re.findall(r'<th scope="row" data-label="what"[^>]*>(.*?)</th>', page, re.S)
        }

    assert whats("state=closed") == {"− 12 missing"}
    assert whats("kind=DUPLICATION") == {"+ 40 duplicated"}
    assert whats("topic=payments") == {"− 7 missing"}
    assert whats("state=open&kind=LOSS&q=PAY") == {"− 7 missing"}
    assert whats("kind=CORRUPT") == set()


def test_an_incident_says_when_and_to_whom_it_was_notified(client: TestClient) -> None:
    rows = client.get("/incidents?topic=orders").text
    assert re.search(
        r"data-label=\"notified\"><time[^>]*>20[^<]*</time>\s*<span class=\"soft\">as resolved",
        rows,
    )
    page = client.get(html.unescape(re.search(r'href="(/incident\?id=\d+)"', rows)[1])).text  # type: ignore[index]
    text = text_of(page)
    for said in ("alert fires TallymarkMissingMessages", "repair 1", "run reconcile", "notified"):
        assert said in text
    line = text.partition(" events ")[2]
    assert line.index("− LOSS") < line.index("✓ repair 1") < line.index("✓ COMPLETE")
    assert page.count('<svg class="chart timeline"') == 1


@pytest.mark.parametrize("said", ["", "x", "0", "999999999", "-1", "9" * 40, "1 or 1=1", "²"])
def test_an_unknown_incident_is_a_page_with_the_last_ones(client: TestClient, said: str) -> None:
    page = client.get(f"/incident?{urlencode({'id': said})}")
    assert page.status_code == 404
    assert "7 missing: payments on producer-to-dc2" in text_of(page.text)
    assert '<nav aria-label="Pages">' in page.text


def test_a_thousand_windows_of_an_incident_are_paged(tmp_path: Path) -> None:
    with world(tmp_path, filled=False) as (_, client):
        store = client.app.state.context.store  # type: ignore[attr-defined]
        first = 1_767_268_800_000
        judged = [
            Verdict("a-to-b", "clicks", first + n * W, State.LOSS, claimed=9, observed=8, missing=1)
            for n in range(250)
        ]
        with store.write() as connection:
            record_verdicts(connection, judged, COLLECTOR, first + 251 * W, window_ms=W)
        page = client.get("/incident?id=1")
        assert "250 missing: clicks" in text_of(page.text)
        assert page.text.count('id="window-') == 100
        later = html.unescape(re.search(r'rel="next" href="([^"]*)"', page.text)[1])  # type: ignore[index]
        assert client.get(later).text.count('id="window-') == 100
        assert len(page.content) < 250_000  # before it is compressed


def test_alerts_that_hold_stand_above_the_log_with_who_paused(tmp_path: Path) -> None:
    with world(tmp_path) as (prepared, client):
        assert prepared is not None
        labels = {"alertname": "TallymarkReporterSilent", "severity": "warning", "cluster": "dc1"}
        said = {"summary": "1 producer reporters of dc1 are silent"}
        with prepared.store.write() as connection:
            save(connection, [Alert(labels, said, "pending", prepared.now - 5_000)])
        page = text_of(client.get("/alerts").text)
        now, log = page.split(" Log ", 1)
        assert now.index("7 messages of payments") < now.index("1 producer reporters of dc1")
        assert "resolved" not in now.partition(" Now ")[2]
        assert "resolved critical 12 messages of orders" in log
        only = text_of(client.get("/alerts?status=resolved").text).split(" Log ", 1)[1]
        assert "payments" not in only


def test_the_wall_is_without_navigation_and_says_the_worst_in_one_sentence(
    client: TestClient,
) -> None:
    page = client.get("/wall").text
    assert 'class="page-wall"' in page
    assert "− 7 messages are missing" in text_of(page)
