"""The questions of somebody who was paged, answered from the pages alone, each in at most three
clicks from the overview.

The paths are those of the table in docs/dashboards.md, which is read and walked here; what stands
at the end of each is in ``ANSWERS``: the part of the page, and what it says.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect
from prepared_store import Prepared
from project import ROOT
from screenshots import served

pytestmark = [pytest.mark.process, pytest.mark.browser, pytest.mark.timeout(300)]
Site = tuple[str, Prepared]
MOST_CLICKS: Final = 3
DAY: Final = r"20\d\d-\d\d-\d\d"
WHAT, SINCE, WHERE, CAN, OVER, WHOM = (
    "What was lost?",
    "Since when?",
    "Where is it still?",
    "Can it be repaired?",
    "Is it over?",
    "Whom to notify?",
)
QUESTIONS: Final = (WHAT, SINCE, WHERE, CAN, OVER, WHOM)
FAULTS: Final = {
    "a loss that is repaired": ("orders", "12 missing"),
    "a loss that cannot be repaired": ("payments", "7 missing"),
    "a duplication": ("clicks", "40 duplicated"),
    "a silent producer": ("views", "6 windows UNKNOWN"),
    "a stopped collector": ("", ""),
    "nothing is wrong": ("metrics", ""),
}
"""The topic it happened to in the prepared store, and how its incident is called."""
_FACTS, _DO, _BEHIND = "#facts", "#do", "#behind"
ANSWERS: Final = {
    "a loss that is repaired": {
        WHAT: ("main", "web-7.*210–217, 400–403"),
        SINCE: (_FACTS, f"first seen {DAY}"),
        WHERE: ("main", "dc1 orders-1, offsets 91210–91217"),
        CAN: (_FACTS, "REPAIRED a repair brought what was lost; repair 1"),
        OVER: ("#incidents tr:has-text('12 missing')", f"REPAIRED {DAY}"),
        WHOM: (_FACTS, f"notified the webhook, {DAY}.* as resolved"),
    },
    "a loss that cannot be repaired": {
        WHAT: ("main", "web-7.*900–906.*7 of 1,000 missing"),
        SINCE: (_FACTS, f"first seen {DAY}"),
        WHERE: ("#repair", "no log has them; send them again from where web-7 had them"),
        CAN: ("#repairable", "Of 7 missing messages 0 can be repaired"),
        OVER: ("#incidents tr:has-text('7 missing')", "OPEN"),
        WHOM: (f"{_DO} #tell + ul", "the owners of billing on web-7"),
    },
    "a duplication": {
        WHAT: ("main", "web-7.*55 again"),
        SINCE: (_FACTS, f"first seen {DAY}"),
        WHERE: ("main", "55 again at clicks-1 offset 7700"),
        CAN: (_DO, "Copies cannot be taken out of a log"),
        OVER: ("#incidents tr:has-text('40 duplicated')", "OPEN"),
        WHOM: (f"{_DO} #tell + ul", "the readers of clicks on aggregate: 40 messages came twice"),
    },
    "a silent producer": {
        WHAT: ("main", r"web-7 \(shop\) said nothing about this window"),
        SINCE: (_DO, f"producer-web-7 is silent since {DAY}"),
        WHERE: ("main", "web-7.*views-1: 91000–91639"),
        CAN: (_DO, "start it again;.*tallymark audit retire producer-web-7"),
        OVER: ("#incidents tr:has-text('UNKNOWN')", "OPEN"),
        WHOM: (f"{_DO} #tell + ul", "the owners of shop on web-7"),
    },
    "a stopped collector": {
        WHAT: (_BEHIND, "what came later is not judged"),
        SINCE: (_BEHIND, f"dc2: its collector collector-dc2 last committed {DAY}"),
        WHERE: (_BEHIND, "nothing is lost by this while the logs keep their messages"),
        CAN: (_BEHIND, "tallymark audit collect --cluster dc2"),
        OVER: (".pulse", r"unknown since \d\d:\d\d.*not counted: dc2"),
        WHOM: (_BEHIND, "Whom to notify: those who run collector-dc2"),
    },
    "nothing is wrong": {
        WHAT: ("#topics tr:has-text('metrics')", r"metrics \S+Z [\d,]+ 0 0 "),
        SINCE: ("#topics tr:has-text('metrics')", rf"metrics (?:{DAY}T)?\d\d:\d\d:00Z"),
        # In the minute after a window has ended it is still settling, and so is its topic.
        WHERE: ("main", r"dc1-to-aggregate mirror (?:✓ COMPLETE|… SETTLING) ([\d,]+) \1 "),
        OVER: (".pulse", r"^0 missing of [\d,]+ claimed.* 0 bad windows"),
    },
}


def paths_of_the_docs() -> dict[tuple[str, str], list[str]]:
    """By fault and question the names of the clicks, as docs/dashboards.md has them."""
    text = (ROOT / "docs/dashboards.md").read_text(encoding="utf-8")
    table = text[text.index("| Question |") :].partition("\n\n")[0]
    head, _, *rows = [[one.strip() for one in row.split("|")[1:-1]] for row in table.splitlines()]
    return {
        (fault, row[0]): [] if path == "here" else path.split(" → ")
        for row in rows
        for fault, path in zip(head[1:], row[1:], strict=True)
        if path != "–"
    }


PATHS: Final = paths_of_the_docs()


def click(page: Page, step: str, fault: str) -> None:
    topic, what = FAULTS[fault]
    named = {
        "incident": f"#incidents tr:has-text('{topic}') a:has-text('{what}')",
        "window": "#windows th a",
        "topic": f"#topics th a:has-text('{topic}')",
    }
    page.locator(named[step]).first.click()
    page.wait_for_url(re.compile(rf"/{step}\?"))


def answered(page: Page, fault: str, question: str) -> str:
    """Nothing if the path of the docs leads to the answer; else what stands there instead."""
    for step in PATHS[fault, question]:
        click(page, step, fault)
    part, said = ANSWERS[fault][question]
    shown = " ".join(page.locator(part).first.inner_text().split())
    return "" if re.search(said, shown) else f"{question} {said!r} is not in: {shown[:1_500]}"


def test_every_question_about_every_fault_has_a_path_of_at_most_three_clicks() -> None:
    assert PATHS.keys() == {(fault, one) for fault, found in ANSWERS.items() for one in found}
    whole = {(fault, one) for fault in FAULTS for one in QUESTIONS}
    assert whole - PATHS.keys() == {("nothing is wrong", CAN), ("nothing is wrong", WHOM)}
    assert max(map(len, PATHS.values())) <= MOST_CLICKS


@pytest.mark.soak_cases(
    "a duplication",
    "a silent producer",
    "a loss that cannot be repaired",
)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_questions_are_answered_by_the_paths_of_the_docs(
    browser: Browser, site: Site, stopped: str, fault: str
) -> None:
    address = stopped if fault == "a stopped collector" else site[0]
    page = browser.new_page()
    wrong: list[str] = []
    for question in ANSWERS[fault]:
        page.goto(address, wait_until="load")
        wrong.append(answered(page, fault, question))
    page.close()
    assert [one for one in wrong if one] == []


@pytest.fixture(scope="module")
def stopped() -> Iterator[str]:
    """The dashboards of a store whose collector of ``dc2`` has stopped."""
    with served(stopped="dc2", hours=8) as (url, _):
        yield url


@pytest.mark.parametrize("fault", ["a loss that cannot be repaired", "a duplication"])
def test_a_repair_that_cannot_be_is_not_offered(browser: Browser, site: Site, fault: str) -> None:
    """Nothing of this loss is left upstream: ``repair --apply`` was offered nevertheless."""
    page = browser.new_page()
    page.goto(site[0], wait_until="load")
    for step in ("incident", "window"):
        click(page, step, fault)
        expect(page.locator("main")).to_contain_text("tallymark audit accept")
        assert "repair --apply" not in page.locator("main").inner_text()
    page.close()


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


def test_a_stopped_collector_is_named_on_every_page_and_nothing_is_green(
    browser: Browser, stopped: str
) -> None:
    """With every collector stopped for 15 windows the overview stayed green."""
    context = browser.new_context()
    page = context.new_page()
    for path in ("/", "/incidents", "/heatmap", "/wall", "/topic?topic=payments"):
        page.goto(stopped + path, wait_until="load")
        banner = page.locator("#behind")
        expect(banner).to_contain_text("collector-dc2")
    page.goto(stopped)
    expect(page.locator(".pulse")).not_to_contain_text("100")
    row = page.get_by_role("row").filter(has_text="payments").last
    expect(row.locator(".strip li").last).to_contain_text("∅")
    context.close()


def test_printed_pages_have_no_controls(browser: Browser, site: Site) -> None:
    page = browser.new_page()
    page.goto(site[0], wait_until="load")
    page.emulate_media(media="print")
    expect(page.locator("header nav").first).to_be_hidden()
    expect(page.get_by_role("button", name="Theme: auto")).to_be_hidden()
    expect(page.locator("main h1")).to_be_visible()
    page.close()
