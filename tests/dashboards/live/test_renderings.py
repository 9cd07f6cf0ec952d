"""Each page is made once for all who ask for it while nothing changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.exc import OperationalError

from tallymark.deployment import Deployment
from tallymark_audit.store import Store
from tallymark_audit.store.schema.tables import reporters
from tallymark_dashboards.access.user import Role, User
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.frame.context import Context
from tallymark_dashboards.live.feeds import Address
from tallymark_dashboards.live.renderings import SAME_S, PageShown, Renderings
from tallymark_dashboards.pages import load_pages
from tallymark_dashboards.snapshots.registry_shapes import RegistryState

HOME = Address("/")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def context(filled: Store, deployment: Deployment) -> Context:
    load_pages()
    return Context.of(deployment, filled)


@pytest.fixture
def renderings(context: Context, clock: Clock) -> Iterator[Renderings]:
    made = Renderings(context, clock)
    yield made
    made.close()


def heard(store: Store) -> None:
    """A reporter was heard again."""
    with store.write() as connection:
        connection.execute(reporters.update().values(last_heard=reporters.c.last_heard + 1))


def test_a_page_is_made_once_in_a_second_for_all(renderings: Renderings, clock: Clock) -> None:
    first = renderings.page(*HOME)
    assert renderings.page(*HOME).rendered is first.rendered
    assert renderings.fragment(HOME).digest == first.rendered.digest
    assert renderings.made == 1
    clock.now += SAME_S
    renderings.page(*HOME)
    assert renderings.made == 2


def test_readers_who_come_together_share_one_rendering(renderings: Renderings) -> None:
    readers = [threading.Thread(target=renderings.page, args=HOME) for _ in range(20)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert renderings.made == 1


def test_readers_who_wait_while_windows_are_judged_share_one_rendering(
    filled: Store, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of twenty readers who waited rendered the page anew, one after the other, since in
    between something had been written: the last one waited for all of them."""
    waiting, made = threading.Event(), Renderings._new

    def slow(self: Renderings, address: Address) -> PageShown:
        assert waiting.wait(60)
        heard(filled)
        return made(self, address)

    calls: list[float] = []

    def clock() -> float:
        calls.append(float(len(calls)))
        return calls[-1]

    counted = Renderings(context, clock)
    monkeypatch.setattr(Renderings, "_new", slow)
    readers = [threading.Thread(target=counted.page, args=HOME) for _ in range(20)]
    for reader in readers:
        reader.start()
    while len(calls) < 21:  # all have asked, and the first has begun
        time.sleep(0.001)
    waiting.set()
    for reader in readers:
        reader.join()
    counted.close()
    assert counted.made <= 2


def test_readers_who_may_change_nothing_share_a_rendering(renderings: Renderings) -> None:
    """With a log-in each reader had a rendering of the own."""
    ann = renderings.page("/", (), User.of("ann", [Role.VIEWER]))
    bob = renderings.page("/", (), User.of("bob", [Role.VIEWER]))
    assert bob.rendered is ann.rendered
    assert (ann.composed.values["user"].name, bob.composed.values["user"].name) == ("ann", "bob")
    assert renderings.made == 1


def test_whatever_is_written_makes_a_page_anew(renderings: Renderings, filled: Store) -> None:
    """Who has accepted a window sees it at once, on any page."""
    renderings.page(*HOME)
    heard(filled)
    renderings.page(*HOME)
    assert renderings.made == 2


def test_a_new_snapshot_makes_a_page_anew(renderings: Renderings, context: Context) -> None:
    renderings.page(*HOME)
    context.snapshots.put_registry(RegistryState("http://another"))
    renderings.page(*HOME)
    assert renderings.made == 2


def test_users_do_not_get_the_page_of_another(renderings: Renderings) -> None:
    ann = renderings.page("/", (), User.of("ann", [Role.OPERATOR]))
    bob = renderings.page("/", (), User.of("bob", [Role.OPERATOR]))
    assert (ann.composed.values["user"].name, bob.composed.values["user"].name) == ("ann", "bob")


def test_a_fragment_that_is_the_same_is_not_packed_again(
    renderings: Renderings, clock: Clock
) -> None:
    first = renderings.fragment(HOME)
    clock.now += 100
    assert renderings.fragment(HOME) is first
    assert renderings.made == 2


def test_a_reporter_that_is_heard_again_is_no_change(renderings: Renderings, filled: Store) -> None:
    """The marker held the newest of these times: a quiet overview was fetched 1.6 times a
    second, by every viewer."""
    before = renderings.marker()
    heard(filled)
    assert renderings.marker() == before
    with filled.write() as connection:
        connection.execute(reporters.update().values(closed=True))
    assert renderings.marker() != before


def test_the_last_page_is_shown_while_the_store_is_away(
    filled: Store, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(deployment, filled)
    with TestClient(app) as client:
        before = client.get("/").text
        assert 'id="stale"' not in before
        with monkeypatch.context() as patch:
            gone = OperationalError("select", {}, OSError("the disk is gone"))

            def away(_self: Store) -> None:
                raise gone

            patch.setattr(Store, "read", away)
            app.state.renderings._clock = lambda: 1e9
            after = client.get("/")
            assert after.status_code == 200
            assert "The audit store cannot be read now (the disk is gone)" in after.text
            assert before.partition("<main")[2] == after.text.partition("<main")[2]
            never_seen = client.get("/?q=never", headers={"accept": "text/html"})
            assert never_seen.status_code == 503
        assert 'id="stale"' not in client.get("/").text
