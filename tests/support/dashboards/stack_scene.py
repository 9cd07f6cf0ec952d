"""A small running stack, one datacenter and the aggregate, and a person who has its overview open
since before the first message, and types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eventually import eventually
from playwright.sync_api import Browser, Locator, Page, expect
from real_faults import PATIENCE
from running_stack import Stack, stack_in

from tallymark.deployment import Deployment

SEEN_MS: Final = 90_000
CLEAN: Final = "metrics"
"""A topic to which nothing happens."""
TYPED: Final = "ord"
ENOUGH: Final = 300
"""Messages of each topic that are there before something happens."""


@dataclass(frozen=True)
class Scene:
    """The stack, and the overview, open since before the first message."""

    stack: Stack
    overview: Page

    @property
    def url(self) -> str:
        return self.stack.deployment.dashboards.url


@contextmanager
def scene_in(
    folder: Path, browser: Browser, datacenter: str, topics: Sequence[str]
) -> Iterator[Scene]:
    """A stack to which these topics, and the clean one, are published."""
    usual = Deployment()
    small = usual.model_copy(
        update={
            "clusters": tuple(
                one for one in usual.clusters if one.name in (datacenter, "aggregate")
            ),
            "mirrors": tuple(one for one in usual.mirrors if one.source == datacenter),
        }
    )
    context = browser.new_context()
    with stack_in(folder, folder / "data", small) as stack:
        overview = context.new_page()
        overview.goto(stack.deployment.dashboards.url, wait_until="load")
        overview.evaluate("window.neverLoadedAgain = true")
        overview.get_by_role("searchbox").focus()
        overview.keyboard.type(TYPED)
        for topic in (*topics, CLEAN):
            stack.publisher(datacenter, topic, topic)
        eventually(
            lambda: all(len(stack.acked(topic)) > ENOUGH for topic in topics),
            seconds=PATIENCE,
            what="messages of each topic are published",
        )
        yield Scene(stack, overview)
        context.close()


@contextmanager
def opened(scene: Scene, browser: Browser) -> Iterator[Page]:
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


def is_seen_while_typing(page: Page, topic: str, what: str) -> None:
    """The incident comes to the overview, which was not loaded again; the focus, and what was
    typed, stay."""
    incident(page, topic, what)
    find = page.get_by_role("searchbox")
    expect(find).to_be_focused()
    expect(find).to_have_value(TYPED)
    expect(page).to_have_title(re.compile(r"^\(\d+\) "))
    assert page.evaluate("window.neverLoadedAgain")


def has_nothing_wrong(page: Page) -> None:
    """The clean topic is counted, and nothing is said against it."""
    row = page.locator("#topics tbody tr").filter(has_text=CLEAN)
    expect(row.locator("td[data-label=claimed]")).to_have_text(
        re.compile(r"[1-9]"), timeout=SEEN_MS
    )
    expect(row.locator("td[data-label=missing]")).to_have_text("0")
    expect(row.locator("td[data-label=duplicated]")).to_have_text("0")
    expect(page.locator("#incidents").get_by_text(CLEAN)).to_have_count(0)
