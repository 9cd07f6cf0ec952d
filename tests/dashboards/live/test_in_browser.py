"""A live page in a browser: what the reader is doing on it goes on while it changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Tab

from tallymark.deployment import DashboardSettings, Deployment
from tallymark.net.web.server import WebServer, listen
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.schema.tables import repairs
from tallymark_dashboards.app.application import create_app
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import PAGES, page
from tallymark_dashboards.view.marks import Tone

pytestmark = [pytest.mark.process, pytest.mark.browser]
TEMPLATE = """{% extends "base.html" %}
{% block tools %}<form><input id="find" name="q" value="{{ q }}"></form>{% endblock %}
{% block content %}
<h1>{{ title }}</h1>
<details id="more"><summary>More</summary><p>of this</p></details>
<form id="within"><input id="note" name="note"></form>
<table><tbody>
{% for name, value in rows %}
<tr id="row-{{ name }}">
  <td><a href="#{{ name }}">{{ name }}</a></td><td id="n-{{ name }}">{{ value }}</td>
</tr>
{% endfor %}
</tbody></table>
{% endblock %}"""


class World:
    """The dashboards with one more page, at /rows, and what it shows."""

    def __init__(self, deployment: Deployment, store: Store) -> None:
        self.rows = {"beta": 1, "delta": 1, "gamma": 1}
        self.tone: Tone = ""
        self.count = 0
        self.store, self._deployment = store, deployment
        self.port = 0
        self.start()

    def start(self) -> None:
        """Serve; the second time on the port of the first."""
        self.app = create_app(self._deployment, self.store)
        environment = self.app.state.context.templates
        extra = jinja2.DictLoader({"pages/rows.html": TEMPLATE})
        environment.loader = jinja2.ChoiceLoader([extra, environment.loader])
        listener = listen("127.0.0.1", self.port, "the dashboards", "dashboards.port")
        self.port = listener.getsockname()[1]
        self._server = WebServer(self.app, listener, "dashboards")

    def stop(self) -> None:
        self.app.state.hub.stop()
        self._server.close()
        self.app.state.renderings.close()

    def shown(self, ask: Ask) -> Page:
        """The function of the page."""
        values = {"q": ask.text("q"), "rows": list(self.rows.items()), "title": "Rows"}
        return Page("Rows", "pages/rows.html", values, self.tone, self.count)

    def change(self, **rows: int) -> None:
        """Rows in this order, those that are named first; something in the store changes, too."""
        self.rows = {**rows, **{name: n for name, n in self.rows.items() if name not in rows}}
        self.touch()

    def set(self, name: str, value: int) -> None:
        """Another value, in its place."""
        self.rows[name] = value
        self.touch()

    def touch(self) -> None:
        with self.store.write() as connection:
            connection.execute(repairs.insert().values(at=1, edge="a-to-b", topic="rows"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One for each test: a rendering is kept until the store changes, so a page of the next test
    showed the state of the one before for a while."""
    deployment = Deployment(data_dir=tmp_path, dashboards=DashboardSettings(port=0))
    with open_store(deployment.audit_store) as store:
        made: list[World] = []
        page("/rows", name="rows", live=True)(lambda ask: made[0].shown(ask))
        made.append(World(deployment, store))
        yield made[0]
        made[0].stop()
        del PAGES["rows"]


@pytest.fixture
def tab(world: World, browser: Browser) -> Iterator[Tab]:
    """The page, loaded once: a reload would lose ``window.mine``. It ends without an error on the
    console, and without a request to another host."""
    context = browser.new_context(viewport={"width": 1280, "height": 400})
    tab: Tab = context.new_page()
    errors: list[str] = []
    asked: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(f"http://127.0.0.1:{world.port}/rows")
    tab.evaluate("window.mine = 1")
    expect(tab.locator("#live-state")).to_contain_text("live ·")
    yield tab
    assert tab.evaluate("window.mine") == 1
    assert [one for one in errors if "ERR_" not in one] == []  # a server that was stopped
    assert [one for one in asked if not one.startswith(f"http://127.0.0.1:{world.port}/")] == []
    context.close()


def shows(tab: Tab, name: str, value: int) -> None:
    expect(tab.locator(f"#n-{name}")).to_have_text(str(value))


def focused(tab: Tab) -> str:
    return str(tab.evaluate("document.activeElement.id || document.activeElement.textContent"))


def test_what_is_being_typed_stays(world: World, tab: Tab) -> None:
    """Each change replaced all of the page: a word being typed was gone, the focus with it."""
    for field in ("#find", "#note"):
        tab.click(field)
        tab.keyboard.type("clik")
        tab.keyboard.press("ArrowLeft")
        world.set("beta", world.rows["beta"] + 1)
        shows(tab, "beta", world.rows["beta"])
        tab.keyboard.type("c")
        expect(tab.locator(field)).to_have_value("click")
    world.set("beta", 77)  # what was typed into a field that has not the focus any more
    shows(tab, "beta", 77)
    expect(tab.locator("#find")).to_have_value("click")


def test_a_row_that_comes_before_the_focus_does_not_take_it(world: World, tab: Tab) -> None:
    tab.focus("#row-delta a")
    world.change(alpha=9)
    shows(tab, "alpha", 9)
    assert focused(tab) == "delta"
    world.change(gamma=5, alpha=9)
    shows(tab, "gamma", 5)
    assert focused(tab) == "delta"
    assert tab.locator("tbody tr").evaluate_all("all => all.map(one => one.id)") == [
        "row-gamma", "row-alpha", "row-beta", "row-delta",
    ]  # fmt: skip


def test_the_focus_stays_on_the_page_when_its_row_goes(world: World, tab: Tab) -> None:
    tab.focus("#row-delta a")
    del world.rows["delta"]
    world.set("beta", 3)
    shows(tab, "beta", 3)
    assert focused(tab) == "content"


def test_what_has_not_changed_is_not_touched(world: World, tab: Tab) -> None:
    """Not moved, not made again: the same nodes, with what is selected and open in them."""
    tab.click("#more summary")
    tab.evaluate("document.querySelector('#row-delta a').mine = 1")
    tab.evaluate("getSelection().selectAllChildren(document.querySelector('#row-gamma'))")
    before = tab.locator("#row-delta a").bounding_box()
    world.set("beta", 4)
    shows(tab, "beta", 4)
    assert tab.locator("#row-delta a").bounding_box() == before
    assert tab.evaluate("document.querySelector('#row-delta a').mine") == 1
    assert "gamma" in str(tab.evaluate("getSelection().toString()"))
    assert tab.evaluate("document.querySelector('#more').open") is True


def test_nothing_moves_under_a_pointer_that_is_down(world: World, tab: Tab) -> None:
    """Between press and release a link moved away, and another one was followed."""
    tab.hover("#row-delta a")
    tab.mouse.down()
    before = tab.locator("#row-delta").bounding_box()
    world.change(alpha=9)
    tab.wait_for_timeout(2500)
    assert tab.locator("#row-delta").bounding_box() == before
    tab.mouse.up()
    shows(tab, "alpha", 9)
    assert tab.evaluate("location.hash") == "#delta"


def test_a_paused_page_stays_and_goes_on_with_the_newest(world: World, tab: Tab) -> None:
    tab.click("text=Pause")
    expect(tab.locator("#live-state")).to_contain_text("paused · updated")
    world.set("beta", 5)
    tab.wait_for_timeout(2500)
    shows(tab, "beta", 1)
    tab.click("text=Resume")
    shows(tab, "beta", 5)
    expect(tab.locator("#live-state")).to_contain_text("live · updated")


def test_the_tab_tells_the_worst_state_and_changes_are_announced(world: World, tab: Tab) -> None:
    expect(tab).to_have_title("Rows · Tallymark")
    world.tone, world.count = "bad", 3
    world.touch()
    expect(tab).to_have_title("(3) Rows · Tallymark")
    assert "icon-bad" in (tab.get_attribute("#icon", "href") or "")
    expect(tab.locator("#live-news")).to_have_text("Rows: 3 wrong; before: nothing is wrong")
    world.set("beta", 6)
    shows(tab, "beta", 6)
    expect(tab.locator("#live-news")).to_have_text("Rows: 3 wrong; before: nothing is wrong")


def test_a_page_whose_feed_has_stopped_looks_it(world: World, tab: Tab) -> None:
    world.stop()
    expect(tab.locator("#live-why")).to_be_visible(timeout=40_000)
    expect(tab.locator("#live-state")).to_contain_text("! not live · updated")
    expect(tab).to_have_title("(?) Rows · Tallymark")
    assert "icon-warn" in (tab.get_attribute("#icon", "href") or "")
    expect(tab.locator("#live-news")).to_have_text("This page is not live any more")
    world.rows["beta"] = 8
    world.start()
    shows(tab, "beta", 8)  # what it missed
    expect(tab.locator("#live-why")).to_be_hidden()
    expect(tab).to_have_title("Rows · Tallymark")
    expect(tab.locator("#live-news")).to_have_text("This page is live again")


def test_a_page_says_why_the_store_cannot_be_read(
    world: World, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> str:
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(world.app.state.hub, "_marker", gone)
        said = "the log of the dashboards says why"
        expect(tab.locator("#live-why")).to_contain_text(said)
    expect(tab.locator("#live-why")).to_be_hidden(timeout=40_000)


def test_without_the_library_the_page_is_replaced_unless_the_focus_is_in_it(
    world: World, tab: Tab
) -> None:
    tab.evaluate("window.Idiomorph = undefined")
    tab.click("#find")
    world.set("beta", 9)
    shows(tab, "beta", 9)
