"""What a page function returns; rendering is the frame's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallymark_dashboards.view.marks import Tone


@dataclass(frozen=True, slots=True)
class Page:
    """``title``: of the tab ("clicks on dc1-to-aggregate"). ``template``: "pages/topic.html", which
    extends "base.html" and fills the block ``content`` and, for what must not be replaced while a
    user types in it, the block ``tools``. ``values``: what the template shows.

    ``tone``: the worst state of what the page shows, ``count``: how many things have it; the tab
    shows both. ``status``: 404 for an unknown topic. ``notes``: what was taken instead of what
    the address says, beside those of the :class:`~.ask.Ask`."""

    title: str
    template: str
    values: Mapping[str, Any]
    tone: Tone = ""
    count: int = 0
    status: int = 200
    notes: tuple[str, ...] = ()
