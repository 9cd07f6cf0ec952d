"""Incidents: runs of bad windows of one topic on one edge, from first sight to their end. Pure.

A window that was ever wrong or UNKNOWN belongs to an incident for good. Two such windows with at
most :data:`JOINING` others between them belong to the same one, so what happened to a topic for an
hour is one line and not sixty. An incident ends when the last of its windows is good or accepted,
and opens again when one of them turns bad again, or another one beside it.

What follows from that does not depend on the order in which windows are found: which windows are in
one incident, and how many messages it concerns. A window that is judged again (OPEN, SETTLING) is
as it was before, until that is decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from tallymark_audit.judge.states import GOOD, State, worst

JOINING: Final = 2
"""So many windows, good or empty, may lie between two bad ones of an incident."""
PASSING: Final = frozenset({State.OPEN, State.SETTLING})
IncidentState = Literal["OPEN", "ACCEPTED", "REPAIRED", "EXPLAINED", "RESOLVED"]


class Standing(NamedTuple):
    """How a window stands by the verdict that holds; the counts are messages, of what is
    decided."""

    state: State
    accepted: bool = False
    missing: int = 0
    duplicates: int = 0
    unclaimed: int = 0

    @property
    def bad(self) -> bool:
        """Whether a person has to look at it."""
        return self.state not in GOOD and not self.accepted


NO_VERDICT: Final = Standing(State.COMPLETE)
"""A window whose verdict was withdrawn: there were no messages."""


class Change(NamedTuple):
    """A window (its start, ms) stands like that since ``at`` (ms). ``repaired_by``: the last repair
    of the window, "" without one."""

    window: int
    standing: Standing
    at: int
    repaired_by: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A window of an incident: its last decided standing, and the worst that it ever had.
    ``closed_at`` (ms) is 0 while it is bad."""

    window: int
    incident: int
    standing: Standing
    worst: Standing
    opened_at: int
    closed_at: int


@dataclass(frozen=True, slots=True)
class IncidentRun:
    """An incident: see :class:`tallymark_audit.store.reading.incidents.WindowIncident`. ``number``
    is negative for one that the store does not have yet; ``merged_into`` 0 unless another one has
    taken its windows."""

    number: int
    kind: State
    first_window: int
    last_window: int
    opened_at: int
    last_change: int
    closed_at: int = 0
    windows: int = 0
    bad: int = 0
    accepted: int = 0
    explained: int = 0
    missing: int = 0
    duplicates: int = 0
    unclaimed: int = 0
    worst_missing: int = 0
    worst_duplicates: int = 0
    worst_unclaimed: int = 0
    repaired_by: str = ""
    merged_into: int = 0

    @property
    def state(self) -> IncidentState:
        """How it stands, or how it ended."""
        if self.bad:
            return "OPEN"
        if self.accepted:
            return "ACCEPTED"
        if self.repaired_by:
            return "REPAIRED"
        return "EXPLAINED" if self.explained else "RESOLVED"


@dataclass(slots=True)
class Incidents:
    """The incidents of one topic on one edge, as far as they are near the windows that change.
    :meth:`take` changes them; ``touched`` are the numbers of those that it changed, ``moved`` the
    members."""

    window_ms: int
    runs: dict[int, IncidentRun] = field(default_factory=dict[int, IncidentRun])
    members: dict[int, Member] = field(default_factory=dict[int, Member])
    touched: set[int] = field(default_factory=set[int])
    moved: set[int] = field(default_factory=set[int])
    _next: int = -1

    @property
    def reach(self) -> int:
        """How far (ms) a window may lie from one of the same incident."""
        return (JOINING + 1) * self.window_ms

    def take(self, changes: Iterable[Change]) -> None:
        """Follow these changes, in their order. The members of their windows, and the incidents
        within :attr:`reach` of any of them, have to be known."""
        for change in changes:
            standing = change.standing
            member = self.members.get(change.window)
            if standing.state in PASSING or (member is None and standing.state in GOOD):
                continue
            if member is None:
                self._join(change)
            else:
                self._move(member, change)

    def _join(self, change: Change) -> None:
        """A window that was never bad before."""
        near = sorted(
            (
                run
                for run in self.runs.values()
                if not run.merged_into
                and run.first_window - self.reach <= change.window
                and change.window <= run.last_window + self.reach
            ),
            key=lambda run: (run.opened_at, run.first_window, run.number),
        )
        run = near[0] if near else self._new(change)
        for other in near[1:]:
            run = self._merge(run, other)
        closed_at = 0 if change.standing.bad else change.at
        member = Member(
            change.window, run.number, change.standing, change.standing, change.at, closed_at
        )
        run = replace(
            run,
            first_window=min(run.first_window, change.window),
            last_window=max(run.last_window, change.window),
            opened_at=min(run.opened_at, change.at),
            windows=run.windows + 1,
        )
        self._keep(run, None, member, change)

    def _move(self, member: Member, change: Change) -> None:
        """A window that was bad before."""
        standing = change.standing
        if standing == member.standing:
            return
        closed_at = 0 if standing.bad else member.closed_at or change.at
        moved = replace(
            member, standing=standing, worst=worse(member.worst, standing), closed_at=closed_at
        )
        self._keep(self.runs[member.incident], member, moved, change)

    def _new(self, change: Change) -> IncidentRun:
        number, self._next = self._next, self._next - 1
        window, at = change.window, change.at
        return IncidentRun(number, change.standing.state, window, window, at, at)

    def _merge(self, run: IncidentRun, other: IncidentRun) -> IncidentRun:
        """``run`` takes the windows of another one."""
        added = {name: getattr(run, name) + getattr(other, name) for name in _COUNTED}
        self.runs[other.number] = replace(other, merged_into=run.number)
        self.touched.add(other.number)
        for window, member in self.members.items():
            if member.incident == other.number:
                self.members[window] = replace(member, incident=run.number)
        return replace(
            run,
            kind=worst((run.kind, other.kind)),
            first_window=min(run.first_window, other.first_window),
            last_window=max(run.last_window, other.last_window),
            last_change=max(run.last_change, other.last_change),
            closed_at=max(run.closed_at, other.closed_at),
            repaired_by=run.repaired_by or other.repaired_by,
            **added,
        )

    def _keep(self, run: IncidentRun, before: Member | None, after: Member, change: Change) -> None:
        was, now = _counts(before), _counts(after)
        counts = {name: getattr(run, name) + now[name] - was[name] for name in now}
        run = replace(
            run,
            kind=worst((run.kind, after.standing.state)),
            last_change=max(run.last_change, change.at),
            **counts,
        )
        repaired = before is not None and after.standing.state in GOOD
        run = replace(
            run,
            closed_at=0 if run.bad else run.closed_at or change.at,
            repaired_by=change.repaired_by if repaired and change.repaired_by else run.repaired_by,
        )
        self.runs[run.number] = run
        self.members[after.window] = after
        self.touched.add(run.number)
        self.moved.add(after.window)


_MESSAGES: Final = ("missing", "duplicates", "unclaimed")
_COUNTED: Final = (
    "windows", "bad", "accepted", "explained", *_MESSAGES,
    *(f"worst_{name}" for name in _MESSAGES),
)  # fmt: skip


def worse(one: Standing, other: Standing) -> Standing:
    """The worst of both, each by itself: the state, and each count."""
    return Standing(
        worst((one.state, other.state)),
        False,
        max(one.missing, other.missing),
        max(one.duplicates, other.duplicates),
        max(one.unclaimed, other.unclaimed),
    )


def _counts(member: Member | None) -> Mapping[str, int]:
    """What a window adds to the counts of its incident, but for itself."""
    if member is None:
        return dict.fromkeys(_COUNTED[1:], 0)
    now, most = member.standing, member.worst
    return {
        "bad": int(now.bad),
        "accepted": int(now.accepted and now.state not in GOOD),
        "explained": int(now.state is State.EXPLAINED),
        **{name: getattr(now, name) for name in _MESSAGES},
        **{f"worst_{name}": getattr(most, name) for name in _MESSAGES},
    }
