"""Which alerts were about a topic on an edge at some time: the other way round from an alert to its
labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tallymark_audit.alerts.conditions import Severity, condition
from tallymark_audit.alerts.rules import (
    CORRUPT,
    DISAGREE,
    DUPLICATES,
    MISSING,
    STALLED,
    UNJUDGED,
)
from tallymark_audit.store.schema.rows import RowLike

OF_A_TOPIC: Final[tuple[tuple[str, Severity], ...]] = (
    (MISSING, "critical"),
    (CORRUPT, "critical"),
    (UNJUDGED, "critical"),
    (DUPLICATES, "warning"),
    (DISAGREE, "warning"),
    (STALLED, "warning"),
)
"""The rules whose labels are an edge and a topic, with their severity."""


def fingerprints(edge: str, topic: str) -> list[str]:
    """Of all alerts that can be about the topic on the edge."""
    about = {"edge": edge, "topic": topic}
    return [condition(rule, severity, about, {}).fingerprint for rule, severity in OF_A_TOPIC]


def held_during(alerts: Iterable[RowLike], start: int, end: int) -> list[RowLike]:
    """Those of the alerts that held at some time from ``start`` to ``end`` (ms; 0: until now). An
    alert may have begun before, for another reason, and gone on."""
    return [
        row
        for row in alerts
        if (not end or row["starts_at"] <= end) and (not row["ends_at"] or row["ends_at"] >= start)
    ]
