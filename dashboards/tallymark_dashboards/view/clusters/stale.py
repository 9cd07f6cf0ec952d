"""What is not known, or not known any more, with its age and the reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol


class _Part(Protocol):
    @property
    def at(self) -> int: ...

    @property
    def error(self) -> str: ...

    def stale(self, now: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class Stale:
    """``what`` of ``where`` was read last at ``at`` (ms; 0: never). ``error``: why it cannot be
    read ("": it only takes long)."""

    where: str
    what: str
    at: int
    error: str


def stale_parts(where: str, parts: Iterable[tuple[str, _Part | Any]], now: int) -> list[Stale]:
    """Those of the parts (name, part) that failed at the last attempt, or are too old. One reason
    for several parts is one line, and so is one age where there is no reason."""
    found: dict[str, Stale] = {}
    for what, part in parts:
        if not part.error and not part.stale(now):
            continue
        key = part.error or str(part.at)
        before = found.get(key)
        names = f"{before.what}, {what}" if before else what
        at = min(before.at, part.at) if before else part.at
        found[key] = Stale(where, names, at, part.error)
    return list(found.values())
