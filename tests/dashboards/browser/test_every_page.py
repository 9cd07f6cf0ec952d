"""Every page, as a browser draws it: narrow and wide, light and dark, by keyboard, no scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from looking import (
    AXE,
    Heard,
    at_the_top,
    broken_words,
    focused,
    listening,
    repeated_ids,
    serious_findings,
    wider_than_the_page,
    wider_than_their_box,
)
from playwright.sync_api import Browser, Page, ViewportSize, expect
from prepared_store import Prepared
from screenshots import addresses, served, served_new

from tallymark_dashboards.frame.registry import PAGES
from tallymark_dashboards.pages import load_pages

load_pages()
pytestmark = [pytest.mark.process, pytest.mark.browser, pytest.mark.timeout(300)]
WIDTHS = (360, 768, 1100, 1280, 3840)
"""A phone, a tablet, a small window, a laptop, a wall."""
NAMES = [*PAGES, "missing", "unknown path"]
DAILY = ("overview", "topic", "incidents", "window", "messages", "missing")
"""The others have the same frame and the same parts: the soak opens them, too."""
MOST_TABS = 60
LEFTS = "all => all.map(one => Math.round(one.getBoundingClientRect().left))"
Site = tuple[str, Prepared]


def address(site: Site, name: str) -> str:
    url, prepared = site
    known = {**addresses(prepared), "unknown path": "/nothing"}
    return url + (known.get(name) or PAGES[name].path)


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """One tab for all pages, so that scripts and styles are loaded once."""
    context = browser.new_context(color_scheme="light", reduced_motion="reduce")
    yield context.new_page()
    context.close()


@dataclass(frozen=True)
class Opened:
    """A page, as it was loaded, and what it asked for and complained about."""

    name: str
    tab: Page
    status: int
    heard: Heard
    url: str


@pytest.fixture(
    scope="module",
    params=[
        name if name in DAILY else pytest.param(name, marks=pytest.mark.soak) for name in NAMES
    ],
)
def opened(tab: Page, site: Site, request: pytest.FixtureRequest) -> Opened:
    """Loaded once for all tests of it. Each sets the size and the theme that it needs."""
    url = address(site, request.param)
    with listening(tab) as heard:
        tab.set_viewport_size(ViewportSize(width=1280, height=900))
        tab.emulate_media(color_scheme="light")
        answer = tab.goto(url, wait_until="load")
    assert answer is not None
    return Opened(request.param, tab, answer.status, heard, url)


def test_it_fits_at_every_width_and_asks_nobody_else(opened: Opened) -> None:
    """On a phone the ids of runs broke into six lines; on a wall screen half of it was empty. And
    a page of an operator without a network must not wait for one."""
    tab = opened.tab
    assert opened.status in (200, 404)
    for width in WIDTHS:
        tab.set_viewport_size(ViewportSize(width=width, height=900))
        assert wider_than_the_page(tab) == [], width
        assert broken_words(tab) == [], width
        assert wider_than_their_box(tab) == [], width
    assert repeated_ids(tab) == [], "the live topic page said so on the console, of each hop's bar"
    tab.wait_for_timeout(200)
    assert opened.heard.elsewhere(opened.url) == []
    expected = "the server responded with a status of 404"
    assert [one for one in opened.heard.errors if expected not in one] == []


def test_a_new_installation_fits_and_can_be_read(tab: Page) -> None:
    """On the wall the word "unknown" stood out of its box."""
    with served_new() as url:
        for one in PAGES.values():
            tab.goto(url + one.path, wait_until="load")
            for width in WIDTHS:
                tab.set_viewport_size(ViewportSize(width=width, height=900))
                assert wider_than_the_page(tab) == [], (one.name, width)
                assert broken_words(tab) == [], (one.name, width)
                assert wider_than_their_box(tab) == [], (one.name, width)
        if AXE.is_file():
            for path in ("/", "/wall", "/topic"):
                tab.goto(url + path, wait_until="load")
                assert serious_findings(tab) == [], path


def test_a_stopped_collector_and_long_names_fit(tab: Page) -> None:
    """On the wall "unknown since 14:30:00Z" stood out of its box, and a row with a long name had
    a clock of its own. Only there, and in the banner of all pages, the page differs by it."""
    with served(stopped="dc2", hostile=True, hours=8) as (url, _):
        for path in ("/wall", "/", "/heatmap"):
            tab.goto(url + path, wait_until="load")
            for width in WIDTHS:
                tab.set_viewport_size(ViewportSize(width=width, height=900))
                assert wider_than_the_page(tab) == [], (path, width)
                assert broken_words(tab) == [], (path, width)
                assert wider_than_their_box(tab) == [], (path, width)
                for strips in (".strips .strip", "#topics .plain .strip"):
                    lefts = tab.locator(strips).evaluate_all(LEFTS)
                    assert len(set(lefts)) <= 1, (path, width)


@pytest.mark.skipif(not AXE.is_file(), reason="there is no axe-core (deploy/ensure-axe)")
def test_axe_finds_nothing_serious(opened: Opened) -> None:
    """In the legend ✓ and ≈ could hardly be read; tables that scroll could not be reached by
    keyboard. A dark page differs from a light one in its colours only."""
    tab = opened.tab
    for width in (360, 1280):
        tab.set_viewport_size(ViewportSize(width=width, height=900))
        for theme, rules in (("light", ()), ("dark", ("color-contrast",))):
            tab.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            assert serious_findings(tab, rules) == [], (width, theme)


def test_it_can_be_walked_by_keyboard(opened: Opened) -> None:
    """Whatever has the focus is seen to have it; the first stop leads past the navigation."""
    tab = opened.tab
    tab.set_viewport_size(ViewportSize(width=1280, height=900))
    at_the_top(tab)
    if tab.get_by_label("Pages", exact=True).is_visible():  # the wall has none
        tab.keyboard.press("Tab")
        first = focused(tab)
        assert first is not None
        assert "To the content" in first["what"]
    for _ in range(MOST_TABS):
        tab.keyboard.press("Tab")
        one = focused(tab)
        if one is None:
            break
        assert one["seen"], one["what"]


def test_pages_work_without_scripts(browser: Browser, site: Site) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    for name in NAMES:
        page.goto(address(site, name), wait_until="load")
        assert page.locator("h1").first.inner_text().strip(), name
        assert len(page.locator("main").inner_text()) > 20, name
        for button in page.locator("button:visible").all():
            inside = button.evaluate("one => Boolean(one.form)")
            assert inside, f"{name}: {button.inner_text()} does nothing without scripts"
    page.goto(address(site, "overview"))
    page.get_by_role("link", name="6h").click()
    assert "range=6h" in page.url
    expect(page.locator("nav a[aria-current=true]")).to_have_text("6h")
    context.close()


def test_the_theme_and_the_zone_are_chosen_and_kept(browser: Browser, site: Site) -> None:
    context = browser.new_context(color_scheme="light", timezone_id="Asia/Kolkata")
    page = context.new_page()
    page.goto(address(site, "window"))
    stamp = page.locator("main time").first
    before = stamp.inner_text()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", before)
    page.get_by_role("button", name="Times: UTC").click()
    assert stamp.inner_text().startswith(("20", "19"))
    assert "+05:30" in stamp.inner_text()
    page.get_by_role("button", name="Theme: auto").click()
    page.get_by_role("button", name="Theme: light").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.goto(address(site, "overview"))
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    expect(page.get_by_role("button", name="Times: local")).to_be_visible()
    context.close()


def test_an_hour_that_comes_twice_is_told_apart(browser: Browser, site: Site) -> None:
    """On the day on which clocks are put back, 02:30 in local time was either of two moments; and a
    time of yesterday looked like one of today."""
    context = browser.new_context(timezone_id="Europe/Berlin")
    page = context.new_page()
    page.clock.set_fixed_time("2026-10-25T01:45:00Z")  # 02:45 for the second time
    page.add_init_script(
        """document.addEventListener("readystatechange", () => {
          if (document.body) document.body.dataset.now = Date.now();
        })"""
    )
    page.goto(address(site, "missing"))
    page.get_by_role("button", name="Times: UTC").click()
    moments = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-24T21:30:00Z"]
    texts = page.evaluate(
        """(moments) => {
          const found = moments.map((moment) => {
            const one = document.createElement("time");
            one.dateTime = moment;
            one.dataset.form = "clock";
            document.querySelector("main").append(one);
            return one;
          });
          document.dispatchEvent(new CustomEvent("tallymark:shown"));
          return found.map((one) => one.textContent);
        }""",
        moments,
    )
    assert texts == ["02:30:00+02:00", "02:30:00", "2026-10-24T23:30:00+02:00"]
    context.close()
