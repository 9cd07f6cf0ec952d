"""An incident as a line: what, where, how many, who was notified, and how it is now. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tallymark_audit.alerts.about import held_during
from tallymark_audit.store.reading.incidents import WindowIncident
from tallymark_dashboards.view.marks import Tone, mark

KINDS: Final = ("LOSS", "MIXED", "CORRUPT", "DUPLICATION", "UNCLAIMED", "UNKNOWN")
"""What an incident can be, the worst first."""
ENDS: Final[Mapping[str, tuple[str, Tone, str]]] = {
    "OPEN": ("−", "bad", "it is not over"),
    "REPAIRED": ("✓", "good", "a repair brought what was lost"),
    "RESOLVED": ("✓", "good", "what was missing came by itself"),
    "EXPLAINED": ("≈", "good", "the reason is known, nothing is owed"),
    "ACCEPTED": ("≈", "wait", "a person accepted it as it is"),
}
"""How an incident is, or how it ended: symbol, tone and meaning."""
OVER: Final = tuple(name for name in ENDS if name != "OPEN")


@dataclass(frozen=True, slots=True)
class Notified:
    """When an alert about an incident was accepted by the webhook (``at``, ms; 0: it was not), and
    how it stands. ``text``: the same in words."""

    at: int
    text: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """One incident of a list. ``what``: the most that was ever wrong; ``now``: what still is;
    ``end``: the end of its last window (ms, excluded)."""

    incident: WindowIncident
    what: str
    now: str
    symbol: str
    tone: Tone
    state_symbol: str
    state_tone: Tone
    end: int
    notified: Notified


def incident_row(
    one: WindowIncident, window_ms: int, alerts: Sequence[Mapping[str, Any]]
) -> IncidentRow:
    """``alerts``: rows of the store, of the edge and topic."""
    kind = mark(one.kind)
    symbol, tone, _ = ENDS.get(one.state, ("?", "warn", ""))
    if one.state == "OPEN":
        symbol, tone = kind.symbol, kind.tone
    return IncidentRow(
        incident=one,
        what=what_was(one),
        now=what_is(one),
        symbol=kind.symbol,
        tone=kind.tone if one.state == "OPEN" else "",
        state_symbol=symbol,
        state_tone=tone,
        end=one.last_window + window_ms,
        notified=notified(one, alerts),
    )


def what_was(one: WindowIncident) -> str:
    """The most that was wrong: ``38 missing, 2 duplicated``."""
    counts = (one.worst_missing, one.worst_duplicates, one.worst_unclaimed)
    if any(counts):
        return _counted(counts)
    windows = f"{one.windows:,} {'window' if one.windows == 1 else 'windows'}"
    return f"{windows} with changed messages" if one.kind == "CORRUPT" else f"{windows} {one.kind}"


def what_is(one: WindowIncident) -> str:
    """What is wrong now, where that is not the same; how it ended."""
    if one.state != "OPEN":
        return ENDS[one.state][2] if one.state in ENDS else one.state
    counts = (one.missing, one.duplicates, one.unclaimed)
    if any(counts):
        worst = (one.worst_missing, one.worst_duplicates, one.worst_unclaimed)
        return "" if counts == worst else f"still {_counted(counts)}"
    if one.bad == one.windows:
        return ""
    return f"{one.bad:,} of {one.windows:,} windows are still wrong"


def _counted(counts: Iterable[int]) -> str:
    words = ("missing", "duplicated", "unclaimed")
    return ", ".join(f"{n:,} {word}" for n, word in zip(counts, words, strict=True) if n)


def notified(one: WindowIncident, alerts: Iterable[Mapping[str, Any]]) -> Notified:
    """By the alerts that held while the incident lasted."""
    during = held_during(alerts, one.opened_at, one.closed_at)
    posted = [row for row in during if row["told"] in ("firing", "resolved")]
    if posted:
        last = max(posted, key=lambda row: row["told_at"])
        word = "resolved" if last["told"] == "resolved" else "firing"
        return Notified(last["told_at"], f"as {word}", last["rule"])
    if any(row["told"] == "nobody" for row in during):
        return Notified(0, "not sent: no webhook, or a pause")
    if any(row["status"] == "pending" for row in during):
        return Notified(0, "an alert is pending")
    if during:
        return Notified(0, "not sent yet")
    return Notified(0, "no alert" if one.closed_at else "no alert yet")


ALARMING: Final = ("LOSS", "MIXED", "CORRUPT", "DUPLICATION")
"""The kinds that stand first."""


def worst_tone(rows: Iterable[IncidentRow]) -> tuple[Tone, int]:
    """The worst tone of open incidents, and how many have it."""
    tones = [row.tone for row in rows if row.incident.state == "OPEN"]
    for tone in ("bad", "warn"):
        if tone in tones:
            return tone, tones.count(tone)
    return "", 0
