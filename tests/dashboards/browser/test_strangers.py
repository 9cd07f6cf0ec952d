"""What people do with pages that stay open: they go back, reload, open one tab more, have a clock
that is wrong, zoom, and print."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from looking import broken_words, wider_than_the_page
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect
from prepared_store import Prepared
from screenshots import addresses

pytestmark = [pytest.mark.process, pytest.mark.browser, pytest.mark.timeout(300)]
Site = tuple[str, Prepared]
TABS = 8
"""A browser has six connections to a host."""
HIDDEN = """window.nobodyLooks = true;
Object.defineProperty(document, "hidden", { get: () => window.nobodyLooks });"""


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=ViewportSize(width=1280, height=900))
    yield context
    context.close()


def live(page: Page) -> None:
    expect(page.locator("#live-state")).to_contain_text("live · updated")


def test_back_leads_to_a_page_that_is_live(context: BrowserContext, site: Site) -> None:
    page = context.new_page()
    page.goto(f"{site[0]}/?range=6h", wait_until="load")
    page.get_by_role("link", name=re.compile("7 missing")).first.click()
    expect(page.locator("main h1")).to_contain_text("payments")
    page.go_back(wait_until="load")
    assert page.url.endswith("range=6h")
    expect(page.locator("#topics tbody tr").first).to_be_visible()
    live(page)
    page.reload(wait_until="load")
    live(page)


@pytest.mark.soak
def test_one_tab_more_is_loaded_too(context: BrowserContext, site: Site) -> None:
    """Each tab held a connection for its stream, and the seventh waited for ever."""
    context.add_init_script(HIDDEN)
    tabs = [context.new_page() for _ in range(TABS)]
    for tab in tabs:
        tab.goto(site[0], wait_until="load")
        live(tab)
    last = tabs[-1]
    last.evaluate(
        "window.nobodyLooks = false; document.dispatchEvent(new Event('visibilitychange'))"
    )
    live(last)
    expect(last).to_have_title(re.compile(r"^\(\d+\) "))
    tabs[0].reload(wait_until="load")
    live(tabs[0])


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_wrong_clock_of_the_browser_changes_no_age(
    context: BrowserContext, site: Site, hours: int
) -> None:
    """What was lost three hours ago was "8 h ago", or "in 2 h"."""
    context.clock.install(time=time.time() + hours * 3_600)
    page = context.new_page()
    page.goto(f"{site[0]}/incidents", wait_until="load")
    page.get_by_role("link", name=re.compile("7 missing")).first.click()
    seen = page.locator("#facts time[data-ago]").first
    expect(seen).to_have_attribute("data-said", re.compile(r"^[23]\sh\s\d+\smin\sago$"))


@pytest.mark.soak
def test_a_page_can_be_zoomed_and_printed(context: BrowserContext, site: Site) -> None:
    """200 % on a screen of 1280 px, and a sheet of A4."""
    url, prepared = site
    page = context.new_page()
    for name, path in addresses(prepared).items():
        page.goto(url + path, wait_until="load")
        for media, width in (("screen", 640), ("print", 794)):
            page.emulate_media(media=media)  # type: ignore[arg-type]
            page.set_viewport_size(ViewportSize(width=width, height=1123))
            assert wider_than_the_page(page) == [], (name, media)
            if media == "screen":
                assert broken_words(page) == [], (name, media)
