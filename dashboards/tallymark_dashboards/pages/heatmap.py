"""Topics by time: where something was lost, at one look, the worst topic first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tallymark_audit.store.reading import neighbours
from tallymark_audit.store.reading.heat import heat
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.pages.gather import worst_page
from tallymark_dashboards.view.clock import clock_of
from tallymark_dashboards.view.heat import HeatRow, Spot, cells_html, heads, heat_row
from tallymark_dashboards.view.overview_rows import judged_through

TOPICS: Final = 50
BUCKETS: Final = 144
HEADS: Final = 12
"""Labels of the time axis."""


@page("/heatmap", name="heatmap", nav="Heatmap", live=True)
def heatmap(ask: Ask) -> Page:
    """Fifty topics by 144 spans of the time range, on all hops or on one."""
    find, edge = ask.text("find"), ask.text("edge")
    edges = neighbours.edges_known(ask.connection)
    if edge and edge not in edges:
        ask.notes.append(f"no hop is called {edge[:80]}: all hops are shown")
        edge = ""
    clock = clock_of(
        ask.range.start, ask.range.end, ask.context.deployment.audit.window_ms, BUCKETS
    )
    found, paging = worst_page(ask, clock.start, clock.end, TOPICS, find)
    cells = heat(
        ask.connection,
        [one.topic for one in found.rows],
        clock.start,
        clock.end,
        clock.step,
        edge or None,
    )
    rows = [
        heat_row(
            one.topic,
            clock,
            cells.get(one.topic, ()),
            judged_through(ask.age, [edge] if edge else [hop.edge for hop in one.hops]),
        )
        for one in found.rows
    ]
    values: dict[str, Any] = {
        "rows": rows,
        "sums": {one.topic: one.sums for one in found.rows},
        "clock": clock,
        "span": {"from_": clock.start, "to": clock.end, "bucket": clock.step},
        "heads": heads(clock, max(1, len(clock) // HEADS)),
        "cells": _cells,
        "find": find,
        "edge": edge,
        "edges": edges,
        "topics": found.topics,
        "bad": found.bad,
        "at": paging.number,
        "pages": paging.pages,
    }
    tones = {row.tone for row in rows}
    tone: Any = next((one for one in ("bad", "warn") if one in tones), "")
    return Page("Heatmap", "pages/heatmap.html", values, tone, found.bad if tone else 0)


def _cells(row: HeatRow, link: Callable[..., str]) -> str:
    """The cells of a row; the template knows how an address is made."""

    def href(spot: Spot) -> str:
        if spot.window >= 0:
            return link("window", edge=spot.edge, topic=row.topic, window=spot.window)
        return link("topic", topic=row.topic, from_=spot.start, to=spot.end)

    return cells_html(row, href)
