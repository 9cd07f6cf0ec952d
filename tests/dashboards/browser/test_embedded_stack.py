"""The whole stack, with real faults, as somebody sees them who has the overview open all the time:
one page, never loaded again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from playwright.sync_api import Browser, Page, expect
from running_stack import Stack, stack_in

from tallymark.processes.free_ports import is_taken
from tallymark.processes.supervisor.control import ask
from tallymark.processes.supervisor.run import control_file
from tallymark_audit.proof.demo.stack import broker_folder
from tallymark_audit.proof.harness import power_failure

pytestmark = [pytest.mark.process, pytest.mark.browser, pytest.mark.timeout(900)]
PATIENCE = 120.0
SEEN_MS = 90_000
EDGE = "dc1-to-aggregate"
BROKER = "broker-aggregate-0"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with stack_in(tmp_path, tmp_path / "data") as running:
        yield running


def test_a_loss_its_repair_and_a_stopped_collector_are_seen_without_loading_again(
    browser: Browser, stack: Stack
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(stack.deployment.dashboards.url, wait_until="load")
    page.evaluate("window.neverLoadedAgain = true")
    find = page.get_by_role("searchbox")
    find.focus()
    page.keyboard.type("ord")

    stack.publisher("dc1", "orders", "a")
    row = page.locator("#topics tbody tr").filter(has_text="orders")
    expect(row).to_be_visible(timeout=SEEN_MS)
    expect(find).to_be_focused()
    expect(find).to_have_value("ord")

    eventually(lambda: len(stack.acked("a")) > 300, seconds=PATIENCE, what="messages are published")
    cut_a_tail_of_the_aggregate(stack)
    lost = page.locator("#incidents").get_by_role("link").filter(has_text="missing").first
    expect(lost).to_be_visible(timeout=SEEN_MS)
    assert page.evaluate("window.neverLoadedAgain")
    assert "(" in page.title()
    offsets_in_two_clicks(page, lost)

    code, said = stack.command(
        "audit", "repair", "--edge", EDGE, "--from", "1h", "--to", "0s", "--apply"
    )
    assert code in (0, 3), said
    page.goto(stack.deployment.dashboards.url, wait_until="load")
    page.evaluate("window.neverLoadedAgain = true")
    expect(page.locator("#incidents")).to_contain_text("REPAIRED", timeout=SEEN_MS)

    control(stack, "hold", "collector-aggregate")
    control(stack, "kill", "collector-aggregate")
    banner = page.locator("#behind")
    expect(banner).to_contain_text("aggregate", timeout=SEEN_MS)
    control(stack, "release", "collector-aggregate")
    expect(banner).to_have_count(0, timeout=SEEN_MS)
    assert page.evaluate("window.neverLoadedAgain")
    context.close()


def offsets_in_two_clicks(page: Page, incident: Any) -> None:
    """From the overview to where the lost messages still are."""
    incident.click()
    page.get_by_role("row").filter(has_text="LOSS").get_by_role("link").first.click()
    expect(page.locator("main")).to_contain_text("dc1 orders-", timeout=SEEN_MS)


def cut_a_tail_of_the_aggregate(stack: Stack) -> None:
    """Its machine loses its power: what the broker had not flushed is gone."""
    folder = broker_folder(stack.deployment)
    (address,) = stack.deployment.cluster("aggregate").brokers

    def is_dead() -> bool:
        return stack.process(BROKER)["pid"] is None and not is_taken(address.host, address.port)

    def tails() -> list[power_failure.UnflushedTail]:
        found = power_failure.unflushed_tails(folder)
        return [tail for tail in found if tail.topic == "orders"]

    eventually(lambda: any(tails()), seconds=PATIENCE, what="something is not flushed")
    control(stack, "hold", BROKER)
    control(stack, "kill", BROKER)
    eventually(is_dead, seconds=PATIENCE, what="the broker is dead")
    (tail, *_) = tails()
    power_failure.cut_tail(tail, random.Random(3))
    control(stack, "release", BROKER)
    eventually(
        lambda: stack.process(BROKER)["state"] == "ready", seconds=PATIENCE, what="it is back"
    )


def control(stack: Stack, do: str, name: str) -> None:
    ask(control_file(stack.deployment), {"do": do, "name": name})
