"""What consumer groups have not read of a topic, as one cell of a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tallymark_audit.model.time_format import duration
from tallymark_dashboards.view.marks import Tone

MOST_NAMED: Final = 5
_TONES: Final[Mapping[str, Tone]] = {"STOPPED": "bad", "STALLED": "bad", "WARN": "warn"}


class GroupLag(NamedTuple):
    """How far a group is behind with a topic: messages (None: not known) and ms (-1: not known),
    and how it does: OK, WARN, STALLED, STOPPED or UNKNOWN."""

    cluster: str
    group: str
    lag: int | None
    delay_ms: int
    status: str


@dataclass(frozen=True, slots=True)
class Lag:
    """``cluster`` and ``group``: of the worst one, which ``text`` is about; ``title`` names the
    others, too. ``status``: how it does, "" where that is well or not known."""

    text: str
    title: str
    tone: Tone
    cluster: str
    group: str
    status: str = ""


def lag_cell(groups: Sequence[GroupLag]) -> Lag | None:
    """``groups``: the worst first. None: no group reads the topic."""
    if not groups:
        return None
    worst = groups[0]
    named = [f"{one.group} of {one.cluster}: {_said(one)}" for one in groups[:MOST_NAMED]]
    more = len(groups) - MOST_NAMED
    title = "; ".join([*named, f"{more:,} groups more"] if more > 0 else named)
    status = worst.status if worst.status in _TONES else ""
    return Lag(_amount(worst), title, _TONES.get(status, ""), worst.cluster, worst.group, status)


def _said(one: GroupLag) -> str:
    """``12,345, 40 s STALLED``; a state only where it is not well."""
    return f"{_amount(one)} {one.status}" if one.status in _TONES else _amount(one)


def _amount(one: GroupLag) -> str:
    parts = ["not known" if one.lag is None else f"{one.lag:,}"]
    if one.delay_ms > 0:
        parts.append(duration(one.delay_ms))
    return ", ".join(parts)
