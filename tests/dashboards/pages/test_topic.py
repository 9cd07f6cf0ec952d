"""The page of a topic: its way hop by hop, its charts, and all of its windows."""

import re
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest
from counting import statements
from fastapi.testclient import TestClient
from page_text import text_of
from prepared_store import HOSTILE, Prepared, W, deployment_in

from tallymark.deployment import Mirror
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.store import open_store
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.frame import age


def test_every_hop_says_what_is_missing_and_whether_both_sides_are_alike(
    pages: TestClient,
) -> None:
    page = pages.get("/topic?topic=payments").text
    rows = [text_of(row) for row in re.findall(r'<tr[^>]*id="hop-\d+".*?</tr>', page, re.DOTALL)]
    assert len(rows) == 2
    assert "−7" in rows[0]
    assert "1 window differs" in rows[0]
    assert "identities alike" in rows[1]
    assert "−" not in rows[1]


def test_a_message_counts_once_at_the_top(pages: TestClient) -> None:
    """Two hops of 1,000 messages were "2,000 claimed"."""
    text = text_of(pages.get("/topic?topic=payments").text)
    claimed = re.search(r"7 missing of ([\d,]+) claimed", text)
    assert claimed is not None
    windows = re.search(r"1 bad windows of ([\d,]+) on all hops", text)
    assert windows is not None
    hops = int(windows[1].replace(",", ""))
    assert int(claimed[1].replace(",", "")) <= 1000 * (hops // 2 + 1)


def test_windows_are_filtered_and_lead_to_their_evidence(
    prepared: Prepared, pages: TestClient
) -> None:
    page = pages.get("/topic?topic=payments&state=bad").text
    rows = re.findall(r'<tr[^>]*id="window-(\d+)-([^"]+)"', page)
    assert rows == [(str(prepared.gone), "producer-to-dc2")]
    assert f"window={prepared.gone}" in page
    page = pages.get("/topic?topic=payments&edge=dc2-to-aggregate").text
    assert {edge for _, edge in re.findall(r'id="window-(\d+)-([^"]+)"', page)} == {
        "dc2-to-aggregate"
    }
    end = prepared.gone + W
    asked = {"topic": "payments", "from": prepared.gone, "to": end, "state": "LOSS"}
    page = pages.get(f"/topic?{urlencode(asked)}").text
    assert len(re.findall(r'id="window-\d+-', page)) == 1


def test_ten_thousand_windows_are_pages(own: Prepared, own_client: TestClient) -> None:
    many = [
        Verdict("producer-to-dc1", "long", own.gone - n * W, State.COMPLETE, 1, 1)
        for n in range(10_000)
    ]
    with own.store.write() as connection:
        record_verdicts(connection, many, COLLECTOR, own.now)
    ends = {"from": own.gone - 10_000 * W, "to": own.gone + W}
    first = own_client.get(f"/topic?{urlencode({'topic': 'long', **ends})}")
    assert "10,000 windows" in text_of(first.text)
    assert "page 1 of 200" in text_of(first.text)
    assert len(first.content) < 150_000
    last = own_client.get(f"/topic?{urlencode({'topic': 'long', **ends, 'page': 200})}").text
    shown = [int(one) for one in re.findall(r'id="window-(\d+)-', last)]
    assert (len(shown), min(shown)) == (50, own.gone - 9_999 * W)
    beyond = own_client.get(f"/topic?{urlencode({'topic': 'long', **ends, 'page': 9_999})}")
    assert (beyond.status_code, "page 200 is shown" in beyond.text) == (200, True)


def test_the_number_of_questions_does_not_depend_on_the_rows(
    own: Prepared, own_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The age of the audit is read once a second for all pages; here it is read once, so that a
    busy machine does not count it in one of the two pages only."""
    monkeypatch.setattr(age, "FRESH_MS", 1 << 40)
    many = [
        Verdict("producer-to-dc1", "metrics", own.gone + n * 1000, State.COMPLETE, 1, 1)
        for n in range(1, 500)
    ]
    numbers: list[int] = []
    for at, more in enumerate(([], many)):
        with own.store.write() as connection:
            record_verdicts(connection, more, COLLECTOR, own.now)
        own_client.get("/topic?topic=orders")  # reads the age of the audit
        with statements(own.store.engine) as said:
            # A page that was just asked for is not read again.
            assert own_client.get(f"/topic?topic=metrics&another={at}").status_code == 200
        numbers.append(len(said))
    assert 5 < numbers[0] == numbers[1] < 40


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_and_long_names_are_text(pages: TestClient, name: str) -> None:
    page = pages.get(f"/topic?{urlencode({'topic': name})}")
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert "<img" not in page.text
    assert "\u202e" not in page.text


def test_an_unknown_topic_names_those_that_are_like_it(pages: TestClient) -> None:
    page = pages.get("/topic?topic=paymnts")
    assert page.status_code == 404
    assert re.search(r'<li><a href="/topic\?topic=payments', page.text)
    assert pages.get("/topic").status_code == 404


@pytest.mark.parametrize(
    "query",
    ["page=abc", "state=GREEN", "edge=nowhere", "page=-3", "from=5&to=1", "range=13y", "from=abc"],
)
def test_what_makes_no_sense_is_said_and_the_page_is_shown(pages: TestClient, query: str) -> None:
    page = pages.get(f"/topic?topic=payments&{query}")
    assert page.status_code == 200
    assert 'id="notes"' in page.text


def test_a_range_without_windows_says_so(pages: TestClient) -> None:
    page = pages.get("/topic?topic=payments&from=2001-01-01&to=2001-01-02")
    assert page.status_code == 200
    assert "No window of this topic begins in this range" in text_of(page.text)


def test_the_copies_of_a_topic_are_on_its_page(tmp_path: Path) -> None:
    """The load of dc1.clicks was on another page than the loss of clicks that it came from."""
    mirrors = (Mirror(source="dc1", target="aggregate", rename="dc1.{topic}"),)
    deployment = deployment_in(tmp_path, mirrors=mirrors)
    now = time.time_ns() // 1_000_000
    window = now - now % W - 2 * W
    with open_store(deployment.audit_store) as store:
        judged = [
            Verdict("producer-to-dc1", "clicks", window, State.COMPLETE, 5, 5),
            Verdict("dc1-to-aggregate", "clicks", window, State.COMPLETE, 5, 5),
            Verdict("aggregate-to-group:billing", "dc1.clicks", window, State.LOSS, 5, 4, 1),
        ]
        with store.write() as connection:
            record_verdicts(connection, judged, COLLECTOR, now)
        with TestClient(create_app(deployment, store)) as own_client:
            text = text_of(own_client.get("/topic?topic=clicks").text)
    assert "its copies are called" in text
    assert "aggregate-to-group:billing" in text.replace("- ", "-").replace(": ", ":")
    assert "−1" in text
