"""The one navigation bar: its entries, in their order, and which of them a page belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tallymark_dashboards.frame.registry import PageEntry

ORDER: Final = (
    "overview",
    "incidents",
    "heatmap",
    "groups",
    "clusters",
    "messages",
    "schemas",
    "runs",
    "alerts",
    "wall",
)
"""Pages with an entry of their own, by name. Pages below them (a topic, a window) name in ``nav``
the text of the entry that they belong to."""


@dataclass(frozen=True, slots=True)
class Entry:
    """``current``: the page that is shown is this one or below it."""

    page: str
    text: str
    current: bool


def bar(pages: Mapping[str, PageEntry], shown: PageEntry | None) -> list[Entry]:
    """The entries of the bar; ``shown`` is None on a page of an error."""
    named = shown.nav if shown else ""
    return [
        Entry(name, pages[name].nav, bool(named) and pages[name].nav == named)
        for name in ORDER
        if name in pages and pages[name].nav
    ]
