"""The numbers at the top of the overview and on the wall. Pure.

They are messages, not percentages, each message is counted once, and nothing is said of what the
audit has not judged: behind the clock, "complete" is "unknown since", never 100 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tallymark_audit.model.time_format import duration
from tallymark_audit.store.reading.age import AuditAge
from tallymark_audit.store.reading.latency import Percentiles
from tallymark_audit.store.reading.pulse import Pulse
from tallymark_dashboards.view.marks import Tone
from tallymark_dashboards.view.numbers import share

NOT_BEGUN: Final = "not begun"


@dataclass(frozen=True, slots=True)
class Card:
    """One number: ``value``, then a time if ``at`` (ms) is not 0. ``page`` and ``query``: where it
    leads, if anywhere."""

    name: str
    value: str
    note: str
    tone: Tone = ""
    at: int = 0
    page: str = ""
    query: Mapping[str, str] = field(default_factory=dict[str, str])


def pulse_cards(
    pulse: Pulse, age: AuditAge, latency: Mapping[str, Percentiles], late_ms: int
) -> list[Card]:
    """The cards, in the order of what an operator looks at. ``latency``: by cluster, of the same
    period. ``late_ms``: how long before the end of the period every topic may be complete."""
    sums = pulse.sums
    if not age.begun and not sums.claimed:
        return [
            *_nothing("missing", "duplicated", "unclaimed", "complete"),
            *_rest(pulse, age, {}, late_ms),
        ]
    pending = f", {sums.pending:,} pending" if sums.pending else ""
    return [
        _wrong(
            "missing", sums.missing, f"of {sums.claimed:,} claimed{pending}", "LOSS", "bad", age
        ),
        _wrong("duplicated", sums.duplicates, "copies beyond the first", "DUPLICATION", "bad", age),
        _wrong("unclaimed", sums.unclaimed, "seen, never claimed", "UNCLAIMED", "warn", age),
        complete(pulse, age),
        *_rest(pulse, age, latency, late_ms),
    ]


def _wrong(name: str, count: int, note: str, kind: str, tone: Tone, age: AuditAge) -> Card:
    """What is wrong, with its incidents of this kind. Nothing wrong is nothing to be calm about
    while the audit is behind."""
    behind: Tone = "" if age.ok else "warn"
    so_far = "" if age.ok else ", as far as is judged"
    return Card(
        name,
        f"{count:,}",
        note + so_far,
        tone if count else behind,
        page="incidents",
        query={"kind": kind},
    )


def _rest(
    pulse: Pulse, age: AuditAge, latency: Mapping[str, Percentiles], late_ms: int
) -> list[Card]:
    return [_delivery(latency), _through(pulse, late_ms), audit_card(age)]


def _nothing(*names: str) -> list[Card]:
    """Of a store that is new: no number, which could be taken for "nothing is wrong"."""
    return [Card(name, "–", "nothing is judged yet") for name in names]


def complete(pulse: Pulse, age: AuditAge) -> Card:
    """The share of the messages that is there, of those about which it is decided, rounded down.
    Unknown while the audit is behind, or while windows cannot be judged and nothing is missing in
    the others."""
    sums = pulse.sums
    unknown = sums.states.get("UNKNOWN", 0)
    decided = sums.claimed - sums.pending
    said = share(decided - sums.missing, decided)
    if not age.ok:
        if not age.judged_through_ms:
            return Card("complete", "unknown", "nothing has been judged yet", "warn")
        note = f"{said} before" if decided and sums.missing else "nothing later is judged"
        return Card("complete", "unknown since", note, "warn", age.judged_through_ms)
    if unknown:
        note = f"{unknown:,} windows are UNKNOWN"
        value = said if sums.missing else "unknown"
        return Card("complete", value, note, "warn", page="incidents", query={"kind": "UNKNOWN"})
    return Card("complete", said, "of the messages that are decided, rounded down")


def audit_card(age: AuditAge) -> Card:
    """Whether the audit itself is up to date, and which reporters are silent."""
    if not age.begun:
        return Card("audit", NOT_BEGUN, "no collector has ever run", "warn", page="clusters")
    if age.ok:
        return Card("audit", "up to date", "every cluster is counted", page="clusters")
    names = ", ".join(one.cluster for one in age.behind[:3])
    more = len(age.behind) - 3
    names += f" and {more} more" if more > 0 else ""
    return Card("audit", "behind", f"not counted: {names}", "warn", page="clusters")


def _delivery(latency: Mapping[str, Percentiles]) -> Card:
    if not latency:
        return Card("delivery latency", "–", "no message was counted in this time")
    worst = max(latency.values(), key=lambda one: one.p99)
    note = f"99 % to {worst.cluster}; half in {span(worst.p50)}, slowest {span(worst.greatest)}"
    return Card("delivery latency", span(worst.p99), note)


def _through(pulse: Pulse, late_ms: int) -> Card:
    if pulse.through < 0:
        return Card("complete through", "–", "no topic is judged yet")
    place = f"{pulse.through_topic} on {pulse.through_edge}"
    held = pulse.through < pulse.end - late_ms
    query = {"topic": pulse.through_topic}
    if pulse.through == 0:
        note = f"nothing of {place} is complete yet"
        return Card("complete through", "not yet", note, "warn", page="topic", query=query)
    note = f"held by {place}" if held else f"every topic; the last is {place}"
    tone: Tone = "warn" if held else ""
    return Card("complete through", "", note, tone, pulse.through, "topic", query)


def span(ms: float) -> str:
    """A latency: ``340 ms``, ``1.2 s``, ``4 min 5 s``; cut."""
    if ms < 1000:
        return f"{int(ms)} ms"
    if ms < 60_000:
        tenths = int(ms) // 100
        return f"{tenths // 10}.{tenths % 10} s"
    return duration(int(ms))
