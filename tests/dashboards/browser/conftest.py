"""A Chromium and a site for the tests of each module."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from prepared_store import Prepared
from screenshots import served

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed behind each module: while it is open its event loop runs in this thread, and tests of
    other folders start their own. (A folder that is no package has no fixtures of its own scope:
    they would last for the session.)"""
    if CHROMIUM is None:
        pytest.skip("there is no chromium (deploy/ensure-chromium)")
    expect.set_options(timeout=40_000)  # a busy machine takes its time
    with sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[str, Prepared]]:
    """The address of the dashboards of a prepared store with hostile names, and what is in it."""
    with served(hostile=True) as found:
        yield found
