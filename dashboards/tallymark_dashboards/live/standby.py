"""Renders the pages of the navigation bar now and then, opened or not: while the audit store is
away, each of them has a last state to show, also to a user who has just been paged and opens the
first page of the day."""

from __future__ import annotations

import logging
import threading
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark_dashboards.access.user import VIEWER
from tallymark_dashboards.frame.navigation import ORDER
from tallymark_dashboards.frame.registry import PAGES
from tallymark_dashboards.live.renderings import Renderings

FIRST_S: Final = 10.0
"""After the start: the first pages that people open come before."""
EVERY_S: Final = 300.0
"""All ten pages of a large store take about half a second of a processor."""
BETWEEN_S: Final = 1.0
"""Between two pages, so that no reader waits for more than one of them."""
_JOIN_S: Final = 5.0

log: Final = logging.getLogger(__name__)


class Standby:
    """Of one application; ``prefix`` is that of its links. Renders in a thread of its own, from
    :meth:`start` to :meth:`close`."""

    def __init__(self, renderings: Renderings, prefix: str) -> None:
        self._renderings = renderings
        self._prefix = prefix
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dashboards-standby", daemon=True)

    def start(self) -> None:
        """Return at once."""
        self._thread.start()

    def close(self) -> None:
        """Idempotent."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def look(self, between_s: float = 0.0) -> None:
        """Render each page of the bar that needs the store, as a viewer without filters sees it.
        While the store is away, the renderings from before stay."""
        for name in ORDER:
            entry = PAGES.get(name)
            if entry is None or entry.asks or not entry.needs_store:
                continue
            if self._stopping.wait(between_s):
                return
            try:
                self._renderings.page(entry.path, (), VIEWER, self._prefix)
            except SQLAlchemyError:
                return
            except Exception:
                # A fault of ours on one page: a reader of it gets an error, the others stay.
                log.exception("the page %s could not be rendered", entry.path)

    def _run(self) -> None:
        wait = FIRST_S
        while not self._stopping.wait(wait):
            self.look(BETWEEN_S)
            wait = EVERY_S
