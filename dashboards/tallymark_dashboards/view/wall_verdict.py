"""The one sentence of the wall. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tallymark_dashboards.view.incidents.incident_rows import IncidentRow, worst_tone
from tallymark_dashboards.view.marks import Tone
from tallymark_dashboards.view.pulse_cards import NOT_BEGUN, Card


class WallVerdict(NamedTuple):
    """A sentence, with the symbol and the tone of the worst that is known."""

    text: str
    symbol: str
    tone: Tone


def wall_verdict(
    rows: Sequence[IncidentRow], count: int, cards: Iterable[Card], bad: int, topics: int
) -> WallVerdict:
    """``rows``: open incidents, of ``count``; ``bad`` of the ``topics`` have bad windows. Only
    where all is known, and all is well, it says that every message arrived."""
    by_name = {one.name: one for one in cards}
    for name, text, symbol in (
        ("missing", "messages are missing", "−"),
        ("duplicated", "messages came more than once", "+"),
    ):
        if by_name[name].tone == "bad":
            return WallVerdict(f"{by_name[name].value} {text}", symbol, "bad")
    tone = worst_tone(rows)[0]
    if tone == "bad":
        return WallVerdict(_incidents(count), "!", "bad")
    if by_name["audit"].value == NOT_BEGUN:
        return WallVerdict("Nothing is counted yet", "?", "warn")
    if by_name["audit"].tone:
        return WallVerdict(
            f"The audit is {by_name['audit'].value}: nothing newer is known", "?", "warn"
        )
    if bad or tone or any(one.tone for one in by_name.values()):
        return WallVerdict("Not everything is known", "?", "warn")
    if not topics:
        return WallVerdict("Nothing is judged yet", "·", "")
    return WallVerdict("Every message arrived", "✓", "")


def _incidents(count: int) -> str:
    return f"{count:,} {'incident is' if count == 1 else 'incidents are'} open"
