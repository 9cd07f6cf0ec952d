"""The audit store is gone, broken or locked: pages of brokers and the registry go on and say so;
the others show what they showed last. Nothing is empty, a traceback, or JSON for a person."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient
from prepared_clusters import snapshots
from prepared_store import deployment_in, prepare

from tallymark import sql
from tallymark.clock import now_ms
from tallymark.deployment import DashboardSettings, Deployment
from tallymark.processes.ports import with_free_ports
from tallymark_audit.store import Store, open_store
from tallymark_dashboards.access.user import VIEWER, Role, User
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.frame import age
from tallymark_dashboards.frame.navigation import ORDER
from tallymark_dashboards.frame.registry import PAGES
from tallymark_dashboards.live import renderings, standby
from tallymark_dashboards.live.feeds import Address
from tallymark_dashboards.live.renderings import Renderings
from tallymark_dashboards.live.standby import Standby
from tallymark_dashboards.pages import load_pages
from tallymark_dashboards.server import DashboardServer

load_pages()
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
APART = sorted(one.path for one in PAGES.values() if not one.needs_store)
FROM_STORE = sorted(one.path for one in PAGES.values() if one.needs_store)
WHY = {"moved": "audit.db is gone", "broken": "file is not a database", "locked": "is locked"}
BANNER = 'id="store-away"'


@dataclass
class Place:
    """The dashboards over a store of their own, and its file."""

    client: TestClient
    store: Store
    file: Path
    undo: Callable[[], None] = lambda: None

    def take_away(self, how: str) -> None:
        self.store.close()  # no other connection could lock it while it is open here
        self.client.app.state.renderings.close()  # type: ignore[attr-defined]
        held: sqlite3.Connection | None = None
        if how == "moved":
            self.file.rename(self.file.with_suffix(".away"))
        elif how == "broken":
            self.file.rename(self.file.with_suffix(".away"))
            self.file.write_bytes(b"x" * 100_000)
        else:
            held = sqlite3.connect(self.file, isolation_level=None, timeout=10)
            held.execute("PRAGMA locking_mode = EXCLUSIVE")
            held.execute("BEGIN EXCLUSIVE")

        def undo() -> None:
            if held is not None:
                held.close()
            else:
                self.file.with_suffix(".away").replace(self.file)

        self.undo = undo


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    deployment = deployment_in(tmp_path_factory.mktemp("store"))
    with open_store(deployment.audit_store) as store:
        prepare(store, deployment, now_ms(), hours=2, hostile=False)
    return deployment


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before is never as good as new."""
    monkeypatch.setattr(sql, "BUSY_TIMEOUT_S", 0.02)
    monkeypatch.setattr(renderings, "SAME_S", 0)
    monkeypatch.setattr(age, "AWAY_MS", 0)
    monkeypatch.setattr(age, "FRESH_MS", 0)


@pytest.fixture
def place(filled: Deployment, impatient: None) -> Iterator[Place]:
    store = open_store(filled.audit_store)
    app = create_app(filled, store, snapshots(now_ms()))
    with TestClient(app, headers=BROWSER) as client:
        one = Place(client, store, Path(store.engine.url.database or ""))
        yield one
        one.undo()
    store.close()


@pytest.mark.parametrize("how", WHY)
def test_pages_of_brokers_and_the_registry_are_made_without_the_store(
    place: Place, how: str
) -> None:
    """The disk of the audit store was gone, and with it every page: also the one that would have
    said which broker was gone, too."""
    place.take_away(how)
    for path in APART:
        answer = place.client.get(path)
        assert answer.status_code == (404 if path in ("/group", "/schema") else 200), path
        assert answer.headers["content-type"].startswith("text/html")
        assert BANNER in answer.text, path
        assert WHY[how] in answer.text
        assert "the audit is not read" in answer.text  # in the place of "as of"
    groups = place.client.get("/groups").text
    assert 'id="group-' in groups
    place.undo()
    place.undo = lambda: None
    for path in APART:
        assert BANNER not in place.client.get(path).text, path


def test_the_page_of_clusters_says_that_edges_are_not_known(place: Place) -> None:
    before = place.client.get("/clusters").text
    assert 'id="edge-dc1-to-aggregate"' in before
    place.take_away("moved")
    page = place.client.get("/clusters").text
    assert "2 without a leader" in page  # what brokers said
    assert "? not known" in page.partition("<svg")[2].partition("</svg>")[0]
    assert 'id="edge-' not in page
    assert "cannot be read now" in page.partition('id="edges"')[2].partition("<h2")[0]


@pytest.mark.parametrize("how", WHY)
def test_other_pages_show_what_was_shown_last_or_where_that_is(place: Place, how: str) -> None:
    before = place.client.get("/?q=pay&range=6h")
    assert "payments" in before.text
    place.take_away(how)
    same = place.client.get("/?q=pay&range=6h")
    assert same.status_code == 200
    assert 'id="stale"' in same.text
    assert WHY[how] in same.text
    assert "payments" in same.text
    for path in FROM_STORE:
        answer = place.client.get(path + "?range=24h")
        assert answer.status_code == 503, path
        assert answer.headers["content-type"].startswith("text/html")
        assert '<nav aria-label="Pages">' in answer.text
        assert "Traceback" not in answer.text
        assert 'href="/groups' in answer.text.partition("<main")[2]
    other = place.client.get("/?range=24h").text.partition("<main")[2]
    assert "q=pay, range=6h" in other
    assert 'href="/?q=pay&amp;range=6h"' in other


@pytest.mark.parametrize("user", [VIEWER, User.of("eve", [Role.OPERATOR])])
def test_pages_that_were_not_opened_show_a_last_state_too(place: Place, user: User) -> None:
    """The store was away before the first page of the day was opened: each was a 503."""
    shown: Renderings = place.client.app.state.renderings  # type: ignore[attr-defined]
    kept = Standby(shown, "")
    kept.look()
    place.take_away("moved")
    kept.look()  # what is there stays
    for name in ORDER:
        entry = PAGES[name]
        if entry.needs_store and not entry.asks:
            page = shown.page(entry.path, (), user, "")
            assert WHY["moved"] in page.stale, name
            assert page.composed.values["user"] == user
            (known,) = shown.kept_at(entry.path, user, "")
            assert known == ((), page.at)
    kept.close()


def test_the_server_renders_pages_in_the_background(
    tmp_path: Path, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "FIRST_S", 0.01)
    monkeypatch.setattr(standby, "BETWEEN_S", 0.0)
    looked, look = threading.Event(), Standby.look

    def noted(self: Standby, between_s: float = 0.0) -> None:
        look(self, between_s)
        looked.set()

    monkeypatch.setattr(Standby, "look", noted)
    deployment = with_free_ports(deployment_in(tmp_path, dashboards=DashboardSettings(port=0)))
    server = DashboardServer(deployment)
    try:
        assert looked.wait(60)
        file = Path(deployment.audit_store.removeprefix("sqlite:///"))
        file.rename(file.with_suffix(".away"))
        answer = httpx.get(f"{deployment.dashboards.url}/wall", headers=BROWSER, timeout=60)
        assert answer.status_code == 200
        assert 'id="stale"' in answer.text
    finally:
        server.close()
    assert "dashboards-standby" not in {one.name for one in threading.enumerate()}


def test_a_table_for_programs_says_it_in_json(place: Place) -> None:
    place.take_away("moved")
    answer = place.client.get("/api/v1/audit/edges")
    assert answer.status_code == 503
    assert "traceback" not in answer.text.lower()
    assert answer.json()["status"] == 503
    assert place.client.get("/api/v1/groups").status_code == 200
    assert place.client.get("/readyz").status_code == 503


def test_a_missing_store_is_not_made_anew_by_looking(place: Place) -> None:
    place.take_away("moved")
    for path in ("/", "/groups", "/clusters"):
        place.client.get(path)
    assert not place.file.exists()


def test_a_live_page_of_groups_stays_live(place: Place) -> None:
    """What a stream sends is rendered by the same function as the page."""
    fragment = place.client.app.state.renderings.fragment  # type: ignore[attr-defined]
    address = Address.of("/groups", (), VIEWER)
    before = fragment(address)
    place.take_away("moved")
    after = fragment(address)
    assert after.digest != before.digest
    assert b"store-away" in after.plain
