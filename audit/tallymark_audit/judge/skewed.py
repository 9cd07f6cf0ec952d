"""Say whose clock is ahead, and by how much, of a window that begins after it was written. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tallymark_audit.judge.readiness import Readiness
from tallymark_audit.model.sides import CellFacts
from tallymark_audit.model.time_format import duration

SKEWED: Final = "skewed: "
"""How the reason of a verdict begins that is about a clock."""
NAMED: Final = 4
"""Servers that are named one by one."""


def skewed_ahead(cells: Iterable[CellFacts], readiness: Readiness) -> list[str]:
    """A line for each server whose records made the window, the worst first; none where it does not
    lie ahead. Given is the least that its clock can be ahead: the record may be older than
    the count of it."""
    if not readiness.ahead:
        return []
    worst: dict[str, int] = {}
    for facts in cells:
        newest = max(
            facts.observation.max_timestamp if facts.observation else -1,
            facts.claim.max_timestamp if facts.claim else -1,
            facts.key.window,
        )
        server = facts.key.server or "a server without a name"
        worst[server] = max(worst.get(server, 0), newest - readiness.clock.changed)
    found = sorted(worst.items(), key=lambda item: (-item[1], item[0]))
    lines = [
        f"{SKEWED}the clock of {server} is ahead by {duration(by)}; judged by when it was written"
        for server, by in found[:NAMED]
    ]
    more = len(found) - NAMED
    return [*lines, f"{SKEWED}{more} servers more"] if more > 0 else lines
