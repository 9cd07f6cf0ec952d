"""A running stack in which something comes twice, and something is silent, as somebody sees it who
has the overview open all the time. One start of the stack for all tests.

======= =====================================================================================
topic   what happens to it
======= =====================================================================================
clicks  some messages come to the aggregate a second time
views   its producer is stopped (SIGSTOP) and says nothing any more. Of one that was killed the
        collector reads the journal, so nothing is unknown of it
metrics nothing: clean
======= =====================================================================================
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from real_faults import control, send_again
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


@pytest.fixture(scope="module")
def scene(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("stack")
    with scene_in(folder, browser, "dc2", ["clicks", "views"]) as found:
        found.stack.publishers["views"].send_signal(signal.SIGSTOP)
        yield found


@pytest.fixture(scope="module")
def copies(scene: Scene) -> int:
    """So many messages of clicks have come twice."""
    return send_again(scene.stack, "aggregate", "clicks")


@pytest.fixture
def page(scene: Scene, browser: Browser) -> Iterator[Page]:
    """The overview, opened now."""
    with opened(scene, browser) as page:
        yield page


def test_a_duplication_is_seen_while_somebody_types_and_leads_to_the_copies(
    scene: Scene, copies: int, page: Page
) -> None:
    is_seen_while_typing(scene.overview, "clicks", "duplicated")
    row = incident(page, "clicks", "duplicated")
    expect(row).to_contain_text(f"{copies:,} duplicated", timeout=SEEN_MS)
    main = open_window(page, row)
    expect(main).to_contain_text(re.compile(r"clicks-\d+ offset"))
    expect(main).not_to_contain_text("repair --apply")


def test_a_clean_topic_has_nothing_wrong(scene: Scene) -> None:
    has_nothing_wrong(scene.overview)


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
