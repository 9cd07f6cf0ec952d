"""The moments of an incident as lanes of one time line, and as lines of a table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tallymark_audit.store.reading.incidents import WindowIncident
from tallymark_audit.store.reading.timeline import Moment
from tallymark_dashboards.view.charts.timeline import Happening
from tallymark_dashboards.view.marks import Tone, mark

WINDOWS: Final = "windows"
LANES: Final = {
    "verdict": "verdicts",
    "alert": "alerts",
    "told": "notified",
    "resolved": "alerts",
    "log": "logs",
    "run": "runs",
    "repair": "repairs",
    "decision": "people",
}
"""The lane of each kind of moment; windows are above all."""
WORDS: Final = {
    "verdict": "verdict",
    "alert": "alert fires",
    "told": "notified",
    "resolved": "alert over",
    "log": "log event",
    "run": "run",
    "repair": "repair",
    "decision": "decision",
}
SYMBOLS: Final = {
    "alert": "!",
    "told": "→",
    "resolved": "✓",
    "log": "✂",
    "run": "R",
    "repair": "✓",
    "decision": "P",
}
_NAMED: Final = ("alert", "told", "resolved", "log", "run")
Linked = Callable[[Moment], str]


@dataclass(frozen=True, slots=True)
class LineEntry:
    """One line of the table beside the chart: a short ``word``, and ``what`` it was, a rule or a
    job. ``window`` (start, ms): what it is about; -1: about the whole incident."""

    at: int
    word: str
    what: str
    text: str
    tone: Tone
    symbol: str
    window: int = -1


def entries(moments: Iterable[Moment]) -> list[LineEntry]:
    """The moments in their order."""
    return [
        LineEntry(
            at=one.at,
            word=moment_word(one),
            what=one.what if one.kind in _NAMED else "",
            text=one.text,
            tone=_tone(one),
            symbol=_symbol(one),
            window=-1 if one.window is None else one.window,
        )
        for one in moments
    ]


def happenings(
    one: WindowIncident, moments: Sequence[Moment], window_ms: int, href: Linked
) -> list[Happening]:
    """What the chart draws: the windows themselves, by their own time, then everything else by
    the time at which it happened. ``href``: the address that a moment leads to, or \"\"."""
    end = one.last_window + window_ms
    kind = mark(one.kind)
    text = f"{one.windows:,} {'window' if one.windows == 1 else 'windows'}, {one.kind}"
    found = [Happening(WINDOWS, one.first_window, end, text, kind.tone, "", kind.symbol)]
    over = {
        (moment.row["fingerprint"], moment.row["starts_at"])
        for moment in moments
        if moment.kind == "resolved"
    }
    for moment in moments:
        until = moment.at
        if moment.kind == "resolved":
            continue
        if moment.kind == "alert" and _alert(moment.row) in over:
            until = max(moment.at, moment.row["ends_at"])
        if moment.kind == "run" and moment.row["finished_at"]:
            found.append(_drawn(moment, moment.row["started_at"], moment.at, href))
            continue
        found.append(_drawn(moment, moment.at, until, href))
    return found


def moment_word(moment: Moment) -> str:
    """``LOSS`` of a verdict, ``repair 7``, ``alert fires``."""
    return moment.what if moment.kind in ("verdict", "repair") else WORDS[moment.kind]


def _what(moment: Moment) -> str:
    what = f" {moment.what}" if moment.kind in _NAMED else ""
    return f"{moment_word(moment)}{what}"


def _drawn(moment: Moment, start: int, end: int, href: Linked) -> Happening:
    text = _what(moment) + (f": {moment.text}" if moment.text else "")
    lane = LANES[moment.kind]
    return Happening(lane, min(start, end), end, text, _tone(moment), href(moment), _symbol(moment))


def _alert(row: dict[str, Any]) -> tuple[str, int]:
    return row["fingerprint"], row["starts_at"]


def _tone(moment: Moment) -> Tone:
    if moment.kind == "verdict":
        return mark(moment.what).tone
    if moment.kind == "alert":
        critical = _severity(moment) == "critical"
        return "bad" if critical else "warn"
    if moment.kind == "resolved":
        return "good"
    if moment.kind == "repair":
        return "good" if moment.row["copied"] or moment.row["present"] else "warn"
    return "warn" if moment.kind == "log" else "wait"


def _severity(moment: Moment) -> str:
    labels: Any = moment.row["labels"]
    return str(labels.get("severity", "")) if isinstance(labels, dict) else ""


def _symbol(moment: Moment) -> str:
    if moment.kind == "verdict":
        return mark(moment.what).symbol
    return SYMBOLS[moment.kind]
