"""What somebody who is paged wants to know, each in at most three clicks from the overview. The
paths stand in docs/dashboards.md."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prepared_store import DAY, Prepared, deployment_in, prepare

from tallymark_audit.store import open_store
from tallymark_audit.store.schema.tables import collectors, progress
from tallymark_dashboards.app.application import create_app

MOST_CLICKS = 3


class Walk:
    """Somebody who only clicks."""

    def __init__(self, client: TestClient) -> None:
        self._client, self.clicks = client, 0
        self._open("/")

    def _open(self, path: str) -> None:
        page = self._client.get(path)
        assert page.status_code == 200, path
        self.html = page.text
        self.text = re.sub(
            r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page.text.replace("<wbr>", "")))
        )

    def click(self, text: str, within: str = "") -> Walk:
        """The first link whose text has that; ``within`` the element of that id and behind."""
        part = self.html.partition(f'id="{within}"')[2] if within else self.html
        for href, inner in re.findall(r'<a\b[^>]*?href="([^"]*)"[^>]*>(.*?)</a>', part, re.S):
            said = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", inner))).strip()
            if re.search(text, said):
                self.clicks += 1
                assert self.clicks <= MOST_CLICKS
                self._open(html.unescape(href))
                return self
        raise AssertionError(f"there is no link {text!r}")


def walked(folder: Path, hours_ago: int) -> Iterator[tuple[Prepared, Callable[[], Walk]]]:
    """A prepared store of so long ago, all clusters of which are counted up to now."""
    deployment = deployment_in(folder)
    now = time.time_ns() // 1_000_000
    with open_store(deployment.audit_store) as store:
        prepared = prepare(store, deployment, now - hours_ago * DAY // 24, hours=8)
        with store.write() as connection:
            connection.execute(collectors.update().values(heartbeat=now))
            connection.execute(progress.update().values(counted_through=now))
        with TestClient(create_app(deployment, store)) as client:
            yield prepared, lambda: Walk(client)


@pytest.fixture(scope="module")
def now(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Prepared, Callable[[], Walk]]]:
    yield from walked(tmp_path_factory.mktemp("now"), 0)


@pytest.fixture(scope="module")
def a_day_later(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Prepared, Callable[[], Walk]]]:
    yield from walked(tmp_path_factory.mktemp("later"), 30)


def test_what_was_lost_and_since_when(now: tuple[Prepared, Callable[[], Walk]]) -> None:
    walk = now[1]().click("7 missing")
    assert "first seen" in walk.text
    walk.click(r"^20\d\d-", within="windows-h")
    assert "900-906" in walk.text.replace("–", "-")
    assert "web-7" in walk.text
    assert walk.clicks == 2


def test_where_is_it_still_also_a_day_after_the_repair(
    a_day_later: tuple[Prepared, Callable[[], Walk]],
) -> None:
    """After the repair the overview showed 0 and 100 %, the windows had left the strip, no link led
    back, and the offsets were gone."""
    prepared, walk_from = a_day_later
    walk = walk_from()
    assert "0 missing" in walk.text
    walk.click("12 missing").click(r"^20\d\d-", within="windows-h")
    assert walk.clicks == 2
    assert re.search(r"dc1 orders-1,? offsets 91,?210", walk.text)
    assert "210-217" in walk.text.replace("–", "-")
    assert prepared.repaired < prepared.now - 6 * DAY // 24


def test_can_it_be_repaired_and_whom_to_tell(now: tuple[Prepared, Callable[[], Walk]]) -> None:
    walk = now[1]().click("7 missing")
    assert "Of 7 missing messages 0 can be repaired" in walk.text
    assert "tallymark audit repair" not in walk.text
    assert "tallymark audit accept producer-to-dc2 payments" in walk.text
    assert "Whom to notify the owners of billing on web-7" in walk.text
    assert "as firing (TallymarkMissingMessages)" in walk.text


def test_is_it_over(now: tuple[Prepared, Callable[[], Walk]]) -> None:
    walk = now[1]().click("^All incidents$")
    rows = re.search(r"− 12 missing .*?REPAIRED", walk.text)
    assert rows is not None
    walk.click("12 missing")
    assert "a repair brought what was lost; repair 1" in walk.text
    assert "over since 20" in walk.text
    assert walk.clicks == 2


def test_what_is_behind_a_silent_producer(now: tuple[Prepared, Callable[[], Walk]]) -> None:
    walk = now[1]()
    assert "1 is silent" in walk.text
    walk.click("UNKNOWN").click("^Who is silent$")
    assert "web-7 ? silent" in walk.text
    assert "tallymark audit retire REPORTER" in walk.text
