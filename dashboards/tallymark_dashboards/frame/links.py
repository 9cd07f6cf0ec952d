"""Addresses of pages and of what pages load. Every one of them has the prefix below which a proxy
serves the dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import quote_plus

from tallymark_dashboards.frame.registry import PAGES
from tallymark_dashboards.frame.static_files import StaticFiles

Value: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Links:
    """What one page calls ``link``, ``here`` and ``static``. ``path`` and ``query`` are its own
    address below ``prefix``; ``kept`` is its time range, as a query."""

    prefix: str
    files: StaticFiles
    path: str = "/"
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    kept: Mapping[str, str] = field(default_factory=dict[str, str])

    def link(self, page: str, /, **values: object) -> str:
        """The address of the page of that name, in the time range of this page, or of a path that
        begins with "/" (``/api/v1/audit/verdicts``). A value that is None or "" is left out, a
        list has its name once for each value; ``from_`` is ``from``. A ``range``, ``from_`` or
        ``to`` replaces the range."""
        given = _given(values)
        if page.startswith("/"):
            return self._address(page, given)
        kept = {} if {"range", "from", "to"} & given.keys() else self.kept
        return self._address(PAGES[page].path, {**given, **kept})

    def here(self, **values: object) -> str:
        """The address of this page with other values: ``here(page=2)``."""
        given = _given(values)
        replaced = {name.rstrip("_") for name in values}
        if "range" in replaced:
            replaced |= {"from", "to"}
        left = {name: value for name, value in self.query.items() if name not in replaced}
        return self._address(self.path, {**left, **given})

    def static(self, name: str, /) -> str:
        """The address of a file of ``static/``; it changes with the contents of the file."""
        return f"{self.prefix}/static/{self.files.path(name)}"

    def _address(self, path: str, query: Mapping[str, Value]) -> str:
        pairs = [
            f"{_quoted(name)}={_quoted(one)}"
            for name, value in query.items()
            for one in ((value,) if isinstance(value, str) else value)
        ]
        return f"{self.prefix}{path}?{'&'.join(pairs)}" if pairs else f"{self.prefix}{path}"


@lru_cache(maxsize=10_000)  # a page has a thousand links, with the same names and values
def _quoted(text: str) -> str:
    return quote_plus(text)


def _given(values: Mapping[str, object]) -> dict[str, Value]:
    return {
        name.rstrip("_"): tuple(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        for name, value in values.items()
        if value not in (None, "")
    }
