"""The questions of somebody who was paged, answered from the pages alone, each in at most three
clicks from the overview; the paths stand in docs/dashboards.md."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from prepared_store import Prepared
from screenshots import served

pytestmark = [pytest.mark.process, pytest.mark.browser, pytest.mark.timeout(300)]
Site = tuple[str, Prepared]


@pytest.fixture
def overview(browser: Browser, site: Site) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(site[0], wait_until="load")
    yield page
    context.close()


def test_what_was_lost_since_when_and_whom_to_tell(overview: Page) -> None:
    """Click 1: the incident, click 2: its window, with the servers and sequences."""
    row = overview.get_by_role("row").filter(has_text="payments").filter(has_text="7 missing")
    expect(row.first.locator("time").first).to_be_visible()
    row.first.get_by_role("link", name=re.compile("7 missing")).click()
    main = overview.locator("main")
    expect(main).to_contain_text("first seen")
    expect(main).to_contain_text("notified")
    overview.get_by_role("row").filter(has_text="LOSS").get_by_role("link").first.click()
    expect(main).to_contain_text("900–906")
    expect(main).to_contain_text("web-7")


def test_whether_it_can_be_repaired_is_said_with_the_reason(overview: Page) -> None:
    """Nothing of this loss is left upstream: ``repair --apply`` was offered nevertheless."""
    overview.get_by_role("link", name=re.compile("7 missing")).first.click()
    overview.get_by_role("row").filter(has_text="LOSS").get_by_role("link").first.click()
    main = overview.locator("main")
    expect(main).to_contain_text(re.compile("0 of 7|none of|cannot be repaired", re.IGNORECASE))
    expect(main).to_contain_text("tallymark audit accept")
    assert "repair --apply" not in main.inner_text()


def test_what_was_repaired_is_still_found_with_its_offsets(overview: Page) -> None:
    """After the repair the overview showed 0 and 100 %, and nothing led to what had been lost.
    Two clicks: the incident, its window."""
    overview.get_by_role("link", name=re.compile("12 missing")).first.click()
    main = overview.locator("main")
    expect(main).to_contain_text("REPAIRED")
    overview.get_by_role("row").filter(has_text="LOSS").get_by_role("link").first.click()
    expect(main).to_contain_text("210–217")


@pytest.mark.parametrize("scripts", [True, False])
def test_one_day_after_the_repair_every_question_has_its_answer(
    browser: Browser, scripts: bool
) -> None:
    """Also without JavaScript, in two clicks: what, since when, where, by which repair, over since
    when, and who was notified."""
    a_day_ago = time.time_ns() // 1_000_000 - 26 * 3_600_000
    with served(now=a_day_ago, hours=8) as (url, prepared):
        context = browser.new_context(java_script_enabled=scripts)
        page = context.new_page()
        page.goto(url, wait_until="load")
        page.get_by_role("link", name=re.compile("12 missing")).first.click()
        facts = page.locator("#facts")
        for said in ("REPAIRED", "repair 1", "dc1-to-aggregate", "as resolved"):
            expect(facts).to_contain_text(said)
        for asked in ("first seen", "over since"):
            answer = facts.locator(f"dt:has-text('{asked}') + dd time").first
            expect(answer).to_have_attribute("datetime", re.compile(r"^20\d\d-"))
        page.get_by_role("row").filter(has_text="LOSS").get_by_role("link").first.click()
        main = page.locator("main")
        expect(main).to_contain_text("210–217")
        expect(main).to_contain_text("dc1 orders-1, offsets 91210–91217")
        expect(main).to_contain_text("web-7")
        assert f"window={prepared.repaired}" in page.url
        context.close()


def test_whether_it_is_over_is_on_the_overview(overview: Page) -> None:
    over = overview.get_by_role("row").filter(has_text="12 missing").first
    expect(over).to_contain_text("REPAIRED")
    still = overview.get_by_role("row").filter(has_text="7 missing").first
    expect(still).to_contain_text("OPEN")


def test_where_duplicates_are(overview: Page) -> None:
    overview.get_by_role("link", name=re.compile("40 duplicated")).first.click()
    overview.get_by_role("row").filter(has_text="DUPLICATION").get_by_role("link").first.click()
    expect(overview.locator("main")).to_contain_text("offset")


def test_who_is_silent(overview: Page) -> None:
    row = overview.get_by_role("row").filter(has_text="web-7").filter(has_text="silent")
    expect(row.first).to_contain_text("shop")


def test_a_stopped_collector_is_named_on_every_page_and_nothing_is_green(browser: Browser) -> None:
    """With every collector stopped for 15 windows the overview stayed green."""
    with served(stopped="dc2", hours=8) as (url, _):
        context = browser.new_context()
        page = context.new_page()
        for path in ("/", "/incidents", "/heatmap", "/wall", "/topic?topic=payments"):
            page.goto(url + path, wait_until="load")
            banner = page.locator("#behind")
            expect(banner).to_contain_text("collector-dc2")
        page.goto(url)
        expect(page.locator(".pulse")).not_to_contain_text("100")
        row = page.get_by_role("row").filter(has_text="payments").last
        expect(row.locator(".strip li").last).to_contain_text("∅")
        context.close()


def test_the_heatmap_is_walked_with_the_arrow_keys(overview: Page, site: Site) -> None:
    overview.goto(f"{site[0]}/heatmap", wait_until="load")
    cells = overview.locator("table td a, table td [tabindex]")
    cells.first.focus()
    start = overview.evaluate("document.activeElement.outerHTML")
    overview.keyboard.press("ArrowRight")
    right = overview.evaluate("document.activeElement.outerHTML")
    assert right != start
    overview.keyboard.press("ArrowDown")
    assert overview.evaluate("document.activeElement.outerHTML") not in (start, right)
    overview.keyboard.press("ArrowUp")
    overview.keyboard.press("ArrowLeft")
    assert overview.evaluate("document.activeElement.outerHTML") == start
    overview.keyboard.press("Enter")
    overview.wait_for_url(re.compile(r"/(window|topic)\?"))


def test_printed_pages_have_no_controls(overview: Page) -> None:
    overview.emulate_media(media="print")
    expect(overview.locator("header nav").first).to_be_hidden()
    expect(overview.get_by_role("button", name="Theme: auto")).to_be_hidden()
    expect(overview.locator("main h1")).to_be_visible()
