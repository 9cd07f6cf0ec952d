"""The heatmap in a browser: by keyboard alone, and without JavaScript."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from prepared_store import Prepared, deployment_in, prepare

from tallymark.deployment import DashboardSettings
from tallymark.processes.ports import with_free_ports
from tallymark_audit.store import open_store
from tallymark_dashboards.server import DashboardServer

pytestmark = [pytest.mark.process, pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Prepared]]:
    settings = DashboardSettings(port=0)
    folder = tmp_path_factory.mktemp("site")
    deployment = with_free_ports(deployment_in(Path(folder), dashboards=settings))
    with open_store(deployment.audit_store) as store:
        prepared = prepare(store, deployment, time.time_ns() // 1_000_000, hours=8)
    server = DashboardServer(deployment)
    try:
        yield deployment.dashboards.url, prepared
    finally:
        server.close()


def focused(page: Page) -> dict[str, Any]:
    """Where the focus is: row and column of the grid, and what a screen reader says."""
    found: dict[str, Any] = page.evaluate(
        """() => { const one = document.activeElement, cell = one.closest('td, th');
        return cell ? { row: cell.parentElement.rowIndex - 1, column: cell.cellIndex,
          said: one.getAttribute('aria-label') || one.innerText, tag: one.tagName } : {}; }"""
    )
    return found


def test_a_loss_is_found_by_keyboard(browser: Browser, site: tuple[str, Prepared]) -> None:
    """Tab into the grid, along the row of the worst topic, Enter on the red cell: its window."""
    url, prepared = site
    page = browser.new_page()
    errors: list[str] = []
    page.on("console", lambda one: errors.append(one.text) if one.type == "error" else None)
    page.goto(f"{url}/heatmap?range=6h", wait_until="load")
    grid = page.get_by_role("grid")
    expect(grid).to_be_visible()
    assert page.locator("table[data-heat] [tabindex='0']").count() == 1
    page.locator("#heat-region").focus()
    page.keyboard.press("Tab")
    assert (focused(page)["row"], focused(page)["column"]) == (0, 0)
    page.keyboard.press("ArrowRight")
    assert "UTC" in focused(page)["said"]
    page.keyboard.press("End")
    columns = focused(page)["column"]
    assert columns > 30
    page.keyboard.press("ArrowRight")
    assert focused(page)["column"] == columns, "the last column is the last"
    page.keyboard.press("ArrowDown")
    assert focused(page)["row"] == 1
    page.keyboard.press("Control+Home")
    assert (focused(page)["row"], focused(page)["column"]) == (0, 0)
    for _ in range(columns):
        page.keyboard.press("ArrowRight")
        if "−7" in focused(page)["said"]:
            break
    assert focused(page)["tag"] == "A"
    assert page.locator("table[data-heat] [tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_url("**/window?**")
    assert f"window={prepared.gone}" in page.url
    expect(page.get_by_text("900–906").first).to_be_visible()
    assert errors == []
    page.close()


def test_a_healthy_cell_opens_the_topic_in_its_span(
    browser: Browser, site: tuple[str, Prepared]
) -> None:
    url, _ = site
    page = browser.new_page()
    page.goto(f"{url}/heatmap?range=6h&find=metrics", wait_until="load")
    page.locator("table[data-heat] tbody a").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topic?**")
    assert "from=" in page.url
    expect(page.get_by_role("heading", name="metrics")).to_be_visible()
    page.close()


def test_without_javascript_the_cells_are_links(
    browser: Browser, site: tuple[str, Prepared]
) -> None:
    url, prepared = site
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{url}/heatmap?range=6h", wait_until="load")
    page.locator("table[data-heat] td.b a").first.click()
    page.wait_for_url("**/window?**")
    assert f"window={prepared.gone}" in page.url
    page.close()
