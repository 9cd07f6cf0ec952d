"""Fields of values that are never shown (``dashboards.masked_fields``). Pure.

``email`` hides the field of that name wherever it is, ``user.phone`` the one below ``user`` at the
top, ``orders-*:card.number`` only in topics that the pattern matches; ``*`` stands for any
characters. Lists are passed through: ``items.price`` is the price of each of the items.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

HIDDEN: Final = "••• masked •••"
MAX_DEPTH: Final = 300


@dataclass(slots=True)
class Masks:
    """The masks of one topic; ``hidden`` counts what was hidden with them."""

    paths: tuple[tuple[re.Pattern[str], ...], ...] = ()
    hidden: int = field(default=0, compare=False)

    @classmethod
    def of(cls, settings: Iterable[str], topic: str) -> Masks:
        """Those of the settings that are for the topic."""
        found: list[tuple[re.Pattern[str], ...]] = []
        for one in settings:
            pattern, colon, path = one.rpartition(":")
            if not colon or _pattern(pattern).fullmatch(topic):
                found.append(tuple(_pattern(part) for part in path.split(".")))
        return cls(tuple(found))

    def __bool__(self) -> bool:
        return bool(self.paths)

    def applied(self, value: Any) -> Any:
        """A copy of a decoded value (mappings, lists and plain values) with the fields hidden. What
        is nested more than :data:`MAX_DEPTH` deep is hidden, too."""
        return self._walk(value, (), 0) if self.paths else value

    def _walk(self, value: Any, at: tuple[str, ...], depth: int) -> Any:
        if depth > MAX_DEPTH:
            self.hidden += 1
            return HIDDEN
        if isinstance(value, Mapping):
            return {
                name: self._field(inner, (*at, str(name)), depth) for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._walk(inner, at, depth + 1) for inner in value]
        return value

    def _field(self, value: Any, at: tuple[str, ...], depth: int) -> Any:
        if any(_matches(path, at) for path in self.paths):
            self.hidden += 1
            return HIDDEN
        return self._walk(value, at, depth + 1)


def _matches(path: tuple[re.Pattern[str], ...], at: tuple[str, ...]) -> bool:
    if len(path) == 1:
        return path[0].fullmatch(at[-1]) is not None
    return len(path) == len(at) and all(
        one.fullmatch(name) for one, name in zip(path, at, strict=True)
    )


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)
