"""The evidence of one window of a topic on a hop: what is wrong, where the messages are, what to
do, and how that is known."""

from __future__ import annotations

import re
from typing import Any, Final

from tallymark_audit.model.cells import Edge
from tallymark_audit.model.time_format import LARGEST, utc
from tallymark_audit.repair.repairable import repairability
from tallymark_audit.store.judged.window_at import window_at
from tallymark_audit.store.reading import neighbours as near_by
from tallymark_audit.store.reading import window_evidence
from tallymark_audit.store.reading.incidents import incidents_of
from tallymark_audit.store.reading.topic import all_edges
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.missing import Near, missing, nearest
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import PAGES, page
from tallymark_dashboards.view import topic_rows as view
from tallymark_dashboards.view.charts.burn_down import burn_down, points
from tallymark_dashboards.view.marks import mark
from tallymark_dashboards.view.moments import moments
from tallymark_dashboards.view.pairs import pairs, sums
from tallymark_dashboards.view.reporters import reporter_rows

CELLS: Final = 100
"""Cells of a verdict, and rows of each side, that the page shows; the JSON has more."""
MOST_NAMES: Final = 500
_NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)


@page("/window", name="window", nav="Overview", live=True, ranged=False)
def window(ask: Ask) -> Page:
    """What is known of one window: the verdicts, both sides of every run, what happened, and what
    can be done."""
    edge, topic, said = ask.text("edge"), ask.text("topic"), ask.text("window")
    named = _start_of(ask, edge, topic, said)
    if named is None:
        return _unknown(ask, edge, topic, ask.now, said)
    at, start = named
    found = window_evidence.evidence(ask.connection, edge, topic, start, CELLS)
    if not found.verdicts:
        return _unknown(ask, edge, topic, start, utc(at))
    if start != at:
        ask.notes.append(f"{utc(at)} is in the window that starts at {utc(start)}: it is shown")
    evidence = window_evidence.shown_evidence(found)
    now = evidence.verdicts[0]
    hop = _hop(ask, edge)
    both = pairs(evidence.upstream, evidence.downstream, now["cells"])
    end = start + ask.context.deployment.audit.window_ms
    values: dict[str, Any] = {
        "edge": edge,
        "topic": topic,
        "window": start,
        "window_end": end,
        "hop": hop,
        "now": now,
        "now_ms": ask.now,
        "verdicts": evidence.verdicts,
        "named": _named(evidence),
        "disagreement": view.disagreement(evidence.verdicts),
        "left_out": evidence.left_out,
        "other_hops": evidence.other_hops,
        "pairs": both,
        "sums": sums(both),
        "moments": moments(evidence.history, evidence.repairs, evidence.incidents),
        "burn_down": burn_down(points(evidence.history, end)),
        "reporters": reporter_rows(
            evidence.reporters, ask.now - ask.context.deployment.audit.silence_ms
        ),
        "near": near_by.neighbours(ask.connection, edge, topic, start),
        "incidents": incidents_of(ask.connection, edge, topic, start),
        "repair": repairability(
            ask.connection,
            ask.context.deployment,
            hop,
            found,
            ask.now,
            ask.context.settings,
            ask.context.snapshots.log_starts,
        ),
        "has": frozenset(PAGES),
    }
    tone = mark(now["state"]).tone
    wrong = tone in ("bad", "warn") and not now["accepted_by"]
    title = f"{topic} at {utc(start)}"
    return Page(title, "pages/window.html", values, tone if wrong else "", int(wrong))


def _named(found: window_evidence.Evidence) -> list[dict[str, Any]]:
    """Tables of runs: what verdicts name, and what was wrong before the window was repaired."""
    named: list[dict[str, Any]] = [
        {"source": row["source"], "cells": row["cells"], "until": 0}
        for row in found.verdicts
        if row["cells"]
    ]
    if found.was is not None:
        named.append({"source": "then", "cells": found.was.cells, "until": found.was.until})
    return named


def _hop(ask: Ask, name: str) -> Edge:
    return window_evidence.edge_of(all_edges(ask.connection, ask.context.deployment), name)


def _start_of(ask: Ask, edge: str, topic: str, said: str) -> tuple[int, int] | None:
    """What the address names (ms), a start or a time in the window, and the start of the window;
    None: no window is meant."""
    if _NUMBER.fullmatch(said):
        at = int(said)
        if abs(at) > LARGEST:
            return None
    else:
        found = ask.moment("window", "none is shown")
        if found is None:
            return None
        at = found
    length = ask.context.deployment.audit.window_ms
    return at, window_at(ask.connection, edge, topic, at, length)


def _unknown(ask: Ask, edge: str, topic: str, at: int, said: str) -> Page:
    """The page of a window that was never judged: the nearest windows of the topic on that hop,
    else the topic's hops, else topics of a like name."""
    near = near_by.neighbours(ask.connection, edge, topic, at)
    windows = dict.fromkeys(
        one
        for one in (near.previous, near.following, near.previous_bad, near.next_bad, near.first_bad)
        if one is not None
    )
    place = {"edge": edge, "topic": topic}
    found = [Near(utc(one), "window", {**place, "window": one}) for one in windows]
    if found:
        hint = f"These windows of {topic} on {edge} are the nearest that were judged."
        return missing("window", said, found, hint)
    hops = near_by.edges_known(ask.connection, topic)
    if hops:
        found = [Near(f"{topic} on {one}", "topic", {"topic": topic, "edge": one}) for one in hops]
        return missing("window", said, _there(found), f"{topic} was never judged on {edge}.")
    names = nearest(topic, near_by.topics_named(ask.connection, "", MOST_NAMES))
    found = [Near(one, "topic", {"topic": one}) for one in names]
    hint = f"No window of a topic called {topic} was ever judged."
    return missing("window", said, _there(found), hint)


def _there(found: list[Near]) -> list[Near]:
    """Those whose page there is."""
    return [one for one in found if one.page in PAGES]
