"""Which pages there are. A page registers itself::

@page("/topic", name="topic", nav="Topics", live=True)
def topic(ask: Ask) -> Page: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.page import Page

PageFunction: TypeAlias = Callable[[Ask], Page]


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One page. ``path``: its address below the prefix. ``name``: what links call it. ``nav``: the
    entry of the navigation bar that is its own, or that it belongs to. ``live``: whether its
    fragment may be pushed. ``ranged``: whether the time range is chosen on it. ``asks``: it waits
    for a broker, so no other request waits for its rendering, and it is not kept. ``needs_store``:
    False where the page is of brokers or the registry; it is shown while the store is away, too."""

    path: str
    name: str
    nav: str
    live: bool
    ranged: bool
    function: PageFunction
    asks: bool = False
    needs_store: bool = True


PAGES: Final[dict[str, PageEntry]] = {}
"""By name; filled by :func:`tallymark_dashboards.pages.load_pages`."""


def page(
    path: str,
    *,
    name: str,
    nav: str = "",
    live: bool = False,
    ranged: bool = True,
    asks: bool = False,
    needs_store: bool = True,
) -> Callable[[PageFunction], PageFunction]:
    """Register a page. ValueError: another one has its name or its path."""

    def register(function: PageFunction) -> PageFunction:
        if name in PAGES or any(one.path == path for one in PAGES.values()):
            raise ValueError(f"there are two pages {name!r} or two at {path}")
        PAGES[name] = PageEntry(path, name, nav, live, ranged, function, asks, needs_store)
        return function

    return register


def needs_store(path: str) -> bool:
    """Whether the page of that path cannot be made while the store is away."""
    found = page_at(path)
    return found is None or found.needs_store


def page_at(path: str) -> PageEntry | None:
    """The page of that path ("/topic"); None: there is none."""
    return next((one for one in PAGES.values() if one.path == path), None)
