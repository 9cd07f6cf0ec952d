"""How long a window is left to settle after its end, learned from how late records come. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallymark.deployment import AuditSettings
from tallymark_audit.judge.hops import ClusterTopic
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import Edge

DAY_MS: Final = 86_400_000
LEARNED_DAYS: Final = 7
"""Lateness is learned from today and so many days before."""
LEARNED_SHARE: Final = 0.999
ENOUGH: Final = 1000
"""Records below which a share of one in a thousand says nothing."""


def learned_settle_ms(settings: AuditSettings, late: Mapping[int, int]) -> int:
    """How long after its end a window is left to settle: the 99.9 % quantile of how late records
    came (a sketch of ms), within the settings' bounds; with few records the lower bound."""
    low = min(settings.settle_min_ms, settings.settle_max_ms)
    if sum(late.values()) < ENOUGH:
        return low
    learned = sketches.quantile(late, LEARNED_SHARE) or 0.0
    return min(max(low, round(learned)), settings.settle_max_ms)


def learned_since(now_ms: int) -> int:
    """The first day (ms) from which lateness is learned."""
    return now_ms - now_ms % DAY_MS - LEARNED_DAYS * DAY_MS


def counter_of(edge: Edge, topic: str) -> ClusterTopic:
    """The counter that sees how late records of the edge's topic come, and its name of the topic: a
    consumer edge counts for itself, other edges have the counter of their downstream cluster. Into
    the lake records come when they are loaded, so there the counter upstream says how late they
    are.
    """
    if edge.kind == "lake":
        return edge.upstream, topic
    counter = edge.name if edge.kind == "consumer" else edge.downstream
    return counter, edge.downstream_topic(topic)
