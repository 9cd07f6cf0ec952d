"""A running stack that has lost messages, as somebody sees it who has the overview open all the
time. One start of the stack for all tests; each topic has one fault, so a test does not see what
another one does.

======= ==================================================================
topic   what happens to it
======= ==================================================================
orders  the aggregate loses a tail of it; the messages are still upstream
returns the same, and upstream deletes them before somebody repairs
metrics nothing: clean
======= ==================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect
from real_faults import cut_tails_of_the_aggregate, delete_all
from stack_scene import (
    SEEN_MS,
    Scene,
    has_nothing_wrong,
    incident,
    is_seen_while_typing,
    open_window,
    opened,
    scene_in,
)

pytestmark = [
    pytest.mark.process,
    pytest.mark.browser,
    pytest.mark.soak,
    pytest.mark.timeout(900),
]
EDGE: Final = "dc1-to-aggregate"


@pytest.fixture(scope="module")
def scene(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    topics = ["orders", "returns"]
    with scene_in(tmp_path_factory.mktemp("stack"), browser, "dc1", topics) as found:
        cut_tails_of_the_aggregate(found.stack, topics)
        yield found


@pytest.fixture
def page(scene: Scene, browser: Browser) -> Iterator[Page]:
    """The overview, opened now."""
    with opened(scene, browser) as page:
        yield page


def test_a_loss_is_seen_without_loading_again_while_somebody_types(scene: Scene) -> None:
    is_seen_while_typing(scene.overview, "orders", "missing")


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


def test_a_clean_topic_has_nothing_wrong(scene: Scene) -> None:
    has_nothing_wrong(scene.overview)
