"""The edges between clusters as rows and as arrows: what is known of each from the audit store, or
that nothing is. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tallymark_audit.model.cells import Edge
from tallymark_audit.store.reading.alarms.backlogs import HopFacts
from tallymark_audit.store.reading.sums import Sums
from tallymark_dashboards.view.clusters.topology import Arrow
from tallymark_dashboards.view.marks import Tone
from tallymark_dashboards.view.numbers import share


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """An edge with what is known of it; ``complete`` is a text like "99.99 %", or "unknown": where
    windows could not be judged, nothing is 100 %."""

    edge: Edge
    facts: HopFacts
    complete: str
    tone: Tone
    symbol: str
    said: str


def edge_row(edge: Edge, facts: HopFacts | None) -> EdgeRow:
    """The row of an edge; ``facts`` is None while the store cannot be read."""
    if facts is None:
        return EdgeRow(edge, HopFacts(Sums(), 0, 0, None), "unknown", "warn", "?", "not known")
    sums = facts.sums
    decided = sums.claimed - sums.pending
    complete = share(decided - sums.missing, decided)
    tone: Tone
    if sums.missing or sums.duplicates:
        said = [f"{sums.missing:,} missing"] if sums.missing else []
        said += [f"{sums.duplicates:,} duplicated"] if sums.duplicates else []
        tone, text = "bad", ", ".join(said)
        symbol = "±" if len(said) > 1 else "−" if sums.missing else "+"
    elif sums.bad or sums.unclaimed:
        tone, symbol, text = "warn", "!", f"{sums.unclaimed:,} unclaimed"
        if not sums.unclaimed:
            windows = "window" if sums.bad == 1 else "windows"
            symbol, text, complete = "?", f"{sums.bad:,} {windows} unknown", "unknown"
    elif not sums.windows:
        tone, symbol, text = "wait", "∅", "nothing judged"
    else:
        tone, symbol, text = "good", "✓", "complete"
    if facts.behind:
        text += f", {facts.behind:,} behind"
    return EdgeRow(edge, facts, complete, tone, symbol, text)


def drawn_rows(rows: Iterable[EdgeRow]) -> list[EdgeRow]:
    """The edges that are drawn: those of consumers are not, nor the producers' edge of a mirror's
    target, which usually has none."""
    return [
        one
        for one in rows
        if one.edge.kind != "consumer" and (one.facts.sums.windows or not one.edge.implied)
    ]


def arrows(drawn: Iterable[EdgeRow]) -> list[Arrow]:
    """The same as arrows of the drawing."""
    return [
        Arrow(
            one.edge.name,
            one.edge.upstream,
            one.edge.downstream,
            f"{one.symbol} {one.said}",
            one.tone,
        )
        for one in drawn
    ]
