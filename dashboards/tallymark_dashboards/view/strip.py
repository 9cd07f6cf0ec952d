"""The strip of a topic: what became of its windows, cell by cell, on the clock of the page. Pure.

A cell has the worst state of its windows. Where the audit has not come that far, a cell is *not
judged*, whatever good is known of a part of it: absence is never green. What is known to be wrong
stays to be seen, and what was wrong and is good again is marked, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Final, NamedTuple

from tallymark.untrusted import escaped
from tallymark_audit.judge.states import SEVERITY, state_of
from tallymark_audit.model.time_format import duration, utc
from tallymark_audit.store.reading.heat import HeatCell
from tallymark_dashboards.view.clock import Clock
from tallymark_dashboards.view.marks import NOT_JUDGED, mark

HEALED: Final = "↺"
"""A cell whose windows are good, and were not all the time."""
_ALARM: Final = ("bad", "warn")
_REMEMBERED: Final = 8_192
"""Cells of a few pages: nearly all say the same as those of other topics at that time, and as those
of the rendering before."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A span of time of the strip. ``state`` is empty where no window has messages. ``edge`` and
    ``window`` (start, ms): where to look at the evidence, "" and -1 while nothing is bad.
    ``count``: the messages that are wrong, short; empty where there are none. ``healed``: windows
    that were bad and are not any more."""

    start: int
    end: int
    state: str
    symbol: str
    tone: str
    count: str
    label: str
    edge: str = ""
    window: int = -1
    healed: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to be looked at."""
        return not self.state or self.state == NOT_JUDGED


class _Seen(NamedTuple):
    """What a cell shows of a :class:`HeatCell`: windows by state, wrong messages, the evidence."""

    state: str
    states: tuple[tuple[str, int], ...]
    wrong: int
    edge: str
    window: int
    healed: int


def strip(
    clock: Clock, cells: Iterable[HeatCell], judged_through: int | None = None
) -> tuple[Cell, ...]:
    """One cell a span of the clock, of which ``cells`` are those with windows. ``judged_through``
    (ms): where the audit stands still; None: it is up to date."""
    found = {one.start: _seen(one) for one in cells}
    return tuple(
        _cell(start, start + clock.step, found.get(start), judged_through) for start in clock
    )


def _seen(found: HeatCell) -> _Seen:
    sums = found.sums
    wrong = sums.missing + sums.duplicates + sums.unclaimed
    states = tuple(sums.states.items())
    return _Seen(found.state, states, wrong, found.edge, found.window, found.healed)


@lru_cache(maxsize=_REMEMBERED)
def _cell(start: int, end: int, found: _Seen | None, judged_through: int | None) -> Cell:
    span = f"{utc(start)}, {duration(end - start)}"
    shown = mark(found.state) if found and found.state else None
    alarm = shown is not None and shown.tone in _ALARM
    if judged_through is not None and end > judged_through and not alarm:
        absent = mark(NOT_JUDGED)
        label = f"{span}: not judged, the audit stands at {utc(judged_through)}"
        return Cell(start, end, NOT_JUDGED, absent.symbol, absent.tone, "", label)
    if found is None or shown is None:
        return Cell(start, end, "", "", "none", "", f"{span}: no messages")
    wrong = found.wrong if alarm else 0
    label = f"{span}: {_said(found.states)}" + (f"; {wrong:,} messages" if wrong else "")
    if found.healed:
        label += f"; {found.healed:,} windows were wrong before"
    return Cell(
        start,
        end,
        found.state,
        HEALED if found.healed and not alarm else shown.symbol,
        shown.tone,
        short_count(wrong) if wrong else "",
        label,
        found.edge,
        found.window,
        found.healed,
    )


def _said(states: Iterable[tuple[str, int]]) -> str:
    """``2 LOSS, 58 COMPLETE``: the worst first."""
    ordered = sorted(states, key=lambda one: -SEVERITY[state_of(one[0])])
    return ", ".join(f"{count:,} {state}" for state, count in ordered)


def strip_html(topic: str, cells: Iterable[Cell], link: Callable[..., str]) -> str:
    """The cells as items of a list; a page has a thousand of them. A cell that is wrong leads to
    the evidence of its worst window, one that was wrong to the incidents of its time, all others to
    the topic at that time. ``link``: of :class:`tallymark_dashboards.frame.links.Links`."""
    return "".join([f"<li>{_cell_html(topic, cell, link)}</li>\n" for cell in cells])


def _cell_html(topic: str, cell: Cell, link: Callable[..., str]) -> str:
    before, after = _around_address(cell)
    if cell.empty:
        return before
    return f"{before}{escape(_leads_to(topic, cell, link))}{after}"


@lru_cache(maxsize=_REMEMBERED)
def _around_address(cell: Cell) -> tuple[str, str]:
    """The HTML before and after the address of a cell, which alone differs from topic to topic; all
    of it is "before" where a cell leads nowhere."""
    label = escape(escaped(cell.label))
    said = f'<span class="visually-hidden">{label}</span>'
    symbol = escape(cell.symbol)
    if cell.empty:
        shown = f'<span aria-hidden="true">{symbol}</span>{said if cell.state else ""}'
        return f'<span class="{cell.tone}" title="{label}">{shown}</span>', ""
    count = f'<small class="n{len(cell.count)}">{escape(cell.count)}</small>' if cell.count else ""
    shown = f'<span aria-hidden="true">{symbol}{count}</span>{said}'
    return f'<a class="{cell.tone}" href="', f'" title="{label}">{shown}</a>'


def _leads_to(topic: str, cell: Cell, link: Callable[..., str]) -> str:
    if cell.window >= 0:
        return link("window", edge=cell.edge, topic=topic, window=cell.window)
    page = "incidents" if cell.healed else "topic"
    return link(page, topic=topic, from_=utc(cell.start), to=utc(cell.end))


_UNITS: Final = (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 1000))


def short_count(count: int) -> str:
    """At most four characters, cut and never rounded up: ``999``, ``1.2k``, ``12k``, ``3M``."""
    for unit, size in _UNITS:
        if count >= size:
            whole, rest = divmod(count * 10 // size, 10)
            if whole > 999:
                return f">1{unit}"
            return f"{whole}.{rest}{unit}" if whole < 10 and rest else f"{whole}{unit}"
    return str(count)
