"""One Chromium for all browser tests of a worker.

Playwright runs an event loop of its own beside the test, in the same thread, for as long as its
browser is open. asyncio calls that loop the running one, and ``asyncio.run`` in a test of another
module would refuse to begin. So the loop is hidden while no browser test runs.
"""

from __future__ import annotations

import asyncio
import shutil
from asyncio import events
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

CHROMIUM: Final = shutil.which("chromium")
SLOW_MS: Final = 90_000
"""A busy machine takes its time."""


class OneChromium:
    """Started once; its pages are used within :meth:`shown`."""

    def __init__(self) -> None:
        self._playwright = sync_playwright()
        started = self._playwright.__enter__()
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        expect.set_options(timeout=SLOW_MS)
        self._be_patient()
        _run(None)

    def _be_patient(self) -> None:
        """What a page is asked for may take as long as what is expected of it: half a minute,
        which is usual, is short where four test runs share two slow cores."""
        new_context, new_page = self._browser.new_context, self._browser.new_page

        def patient_context(**options: Any) -> BrowserContext:
            context = new_context(**options)
            context.set_default_timeout(SLOW_MS)
            return context

        def patient_page(**options: Any) -> Page:
            page = new_page(**options)
            page.set_default_timeout(SLOW_MS)
            return page

        self._browser.new_context = patient_context  # type: ignore[method-assign]
        self._browser.new_page = patient_page  # type: ignore[method-assign]

    @contextmanager
    def shown(self) -> Iterator[Browser]:
        """The browser, without a page. What is opened meanwhile is closed behind."""
        _run(self._loop)
        try:
            yield self._browser
            for context in self._browser.contexts:
                context.close()
        finally:
            _run(None)

    def close(self) -> None:
        """End it."""
        _run(self._loop)
        self._browser.close()
        self._playwright.__exit__()


def _run(loop: asyncio.AbstractEventLoop | None) -> None:
    """The loop that asyncio takes for the running one of this thread."""
    events._set_running_loop(loop)  # pyright: ignore[reportPrivateUsage]
