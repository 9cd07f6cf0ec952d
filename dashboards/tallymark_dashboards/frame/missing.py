"""Pages about what is not there: they say so, and which names are near to the one asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from typing import Final

from tallymark_dashboards.frame.page import Page

MOST_COMPARED: Final = 20_000
"""Names that are compared; a comparison takes some microseconds."""
NEAREST: Final = 5


@dataclass(frozen=True, slots=True)
class Near:
    """Something that is there: its text, and the page that shows it, by name, with the values of
    its address."""

    text: str
    page: str
    values: Mapping[str, object] = field(default_factory=dict[str, object])


def missing(what: str, name: str, near: Iterable[Near] = (), hint: str = "") -> Page:
    """The page of an unknown ``what`` ("topic") called ``name``. ``near``: what may have been
    meant, by :func:`nearest`. ``hint``: a sentence on what to do."""
    values = {"what": what, "name": name, "near": tuple(near), "hint": hint}
    return Page(f"no such {what}", "pages/missing.html", values, status=404)


def nearest(name: str, names: Iterable[str], most: int = NEAREST) -> list[str]:
    """The names that are most like ``name``: those that contain it first, then those that differ in
    few letters."""
    known = list(islice(dict.fromkeys(names), MOST_COMPARED))
    wanted = name.lower()
    inside = [one for one in known if wanted and wanted in one.lower()][:most]
    rest = {one.lower(): one for one in known if one not in inside}
    alike = get_close_matches(wanted[:100], rest, n=most, cutoff=0.6)
    return [*inside, *(rest[one] for one in alike)][:most]
