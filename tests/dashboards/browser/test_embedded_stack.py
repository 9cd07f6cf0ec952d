"""The whole stack, with real faults, as somebody sees them who has the overview open all the time.

One start of the stack for all tests. The faults are all made before the first test; each topic has
one of them, so a test does not see what another one does.

======= ====== =====================================================================
topic   from   what happens to it
======= ====== =====================================================================
orders  dc1    the aggregate loses a tail of it; the messages are still upstream
returns dc1    the same, and upstream deletes them before somebody repairs
clicks  dc2    some messages come to the aggregate a second time
views   dc2    its producer is stopped (SIGSTOP) and says nothing any more. Of one that was
               killed the collector reads the journal, so nothing is unknown of it
metrics dc2    nothing: clean
======= ====== =====================================================================
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest
from eventually import eventually
from playwright.sync_api import Browser, Locator, Page, expect
from real_faults import (
    PATIENCE,
    control,
    cut_tails_of_the_aggregate,
    delete_all,
    send_again,
)
from running_stack import Stack, stack_in

pytestmark = [pytest.mark.process, pytest.mark.browser, pytest.mark.timeout(900)]
SEEN_MS: Final = 90_000
EDGE: Final = "dc1-to-aggregate"
TOPICS: Final = {"orders": "dc1", "returns": "dc1", "clicks": "dc2", "views": "dc2"}
CLEAN: Final = "metrics"


@dataclass(frozen=True)
class Scene:
    """The stack; the overview, open since before the first message; so many ``copies`` there are
    of messages of ``clicks``."""

    stack: Stack
    overview: Page
    copies: int

    @property
    def url(self) -> str:
        return self.stack.deployment.dashboards.url


@pytest.fixture(scope="module")
def scene(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("stack")
    context = browser.new_context()
    with stack_in(folder, folder / "data") as stack:
        overview = context.new_page()
        overview.goto(stack.deployment.dashboards.url, wait_until="load")
        overview.evaluate("window.neverLoadedAgain = true")
        overview.get_by_role("searchbox").focus()
        overview.keyboard.type("ord")
        publishers = {
            topic: stack.publisher(cluster, topic, topic)
            for topic, cluster in {**TOPICS, CLEAN: "dc2"}.items()
        }
        eventually(
            lambda: all(len(stack.acked(topic)) > 300 for topic in TOPICS),
            seconds=PATIENCE,
            what="messages of each topic are published",
        )
        publishers["views"].send_signal(signal.SIGSTOP)
        cut_tails_of_the_aggregate(stack, ["orders", "returns"])
        yield Scene(stack, overview, send_again(stack, "aggregate", "clicks"))
        context.close()


@pytest.fixture
def page(scene: Scene, browser: Browser) -> Iterator[Page]:
    """The overview, opened now."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(scene.url, wait_until="load")
    yield page
    context.close()


def incident(page: Page, topic: str, what: str) -> Locator:
    """The newest line of the overview about the topic, once there is one."""
    row = page.locator("#incidents tbody tr").filter(has_text=topic).filter(has_text=what).first
    expect(row).to_be_visible(timeout=SEEN_MS)
    return row


def open_window(page: Page, row: Locator) -> Locator:
    """Two clicks: the incident, and its first window; returns the content of that page."""
    row.get_by_role("link").first.click()
    page.locator("main td[data-label=window] a, main th[data-label=window] a").first.click()
    page.wait_for_url("**/window?**")
    return page.locator("main")


def test_faults_are_seen_without_loading_again_while_somebody_types(scene: Scene) -> None:
    page = scene.overview
    incident(page, "orders", "missing")
    incident(page, "clicks", "duplicated")
    find = page.get_by_role("searchbox")
    expect(find).to_be_focused()
    expect(find).to_have_value("ord")
    expect(page).to_have_title(re.compile(r"^\(\d+\) "))
    assert page.evaluate("window.neverLoadedAgain")


def test_a_clean_topic_has_nothing_wrong(page: Page) -> None:
    row = page.locator("#topics tbody tr").filter(has_text=CLEAN)
    expect(row.locator("td[data-label=claimed]")).to_have_text(
        re.compile(r"[1-9]"), timeout=SEEN_MS
    )
    expect(row.locator("td[data-label=missing]")).to_have_text("0")
    expect(row.locator("td[data-label=duplicated]")).to_have_text("0")
    expect(page.locator("#incidents").get_by_text(CLEAN)).to_have_count(0)


def test_a_loss_leads_to_its_offsets_and_is_repaired(scene: Scene, page: Page) -> None:
    row = incident(page, "orders", "missing")
    expect(open_window(page, row)).to_contain_text("dc1 orders-", timeout=SEEN_MS)
    code, said = scene.stack.command(
        "audit", "repair", "--edge", EDGE, "--topic", "orders", "--from", "1h", "--to", "0s",
        "--apply",
    )  # fmt: skip
    assert code in (0, 3), said
    page.goto(scene.url, wait_until="load")
    page.evaluate("window.neverLoadedAgain = true")
    row = incident(page, "orders", "missing")
    expect(row).to_contain_text("REPAIRED", timeout=SEEN_MS)
    assert page.evaluate("window.neverLoadedAgain")
    expect(open_window(page, row)).to_contain_text("dc1 orders-")


def test_a_loss_that_cannot_be_repaired_says_why_and_offers_no_repair(
    scene: Scene, page: Page
) -> None:
    """Nothing is left upstream, and ``repair --apply`` was offered nevertheless."""
    row = incident(page, "returns", "missing")
    delete_all(scene.stack, "dc1", "returns")
    row.get_by_role("link").first.click()
    main = page.locator("main")
    can = main.locator("#repairable")
    expect(can).to_contain_text(re.compile(r"missing messages? 0 can be repaired"), timeout=SEEN_MS)
    expect(main).to_contain_text("tallymark audit accept")
    expect(main).not_to_contain_text("--apply")


def test_a_duplication_leads_to_the_copies(scene: Scene, page: Page) -> None:
    row = incident(page, "clicks", "duplicated")
    expect(row).to_contain_text(f"{scene.copies:,} duplicated", timeout=SEEN_MS)
    main = open_window(page, row)
    expect(main).to_contain_text(re.compile(r"clicks-\d+ offset"))
    expect(main).not_to_contain_text("repair --apply")


def test_a_silent_producer_is_named_and_its_windows_are_unknown(page: Page) -> None:
    row = page.locator("#who tbody tr").filter(has_text="publisher-views")
    expect(row).to_contain_text("silent", timeout=SEEN_MS)
    unknown = incident(page, "views", "UNKNOWN")
    expect(page.locator(".pulse")).not_to_contain_text("100.00")
    unknown.get_by_role("link").first.click()
    expect(page.locator("main")).to_contain_text("silent")
    expect(page.locator("main")).to_contain_text("tallymark audit retire")


def test_a_stopped_collector_is_named_until_it_is_back(scene: Scene, page: Page) -> None:
    control(scene.stack, "hold", "collector-aggregate")
    control(scene.stack, "kill", "collector-aggregate")
    banner = page.locator("#behind")
    expect(banner).to_contain_text("aggregate", timeout=SEEN_MS)
    control(scene.stack, "release", "collector-aggregate")
    expect(banner).to_have_count(0, timeout=SEEN_MS)
