"""What may be concluded about a window yet: whether it is too young, and which reports are missing.

Which reporters matter depends on the kind of the hop. Producers report claims of whole windows, so
a producer that has not reported holds back the whole window. Mirrors and consumer groups need not
report: what they have carried is counted downstream. They matter where messages are missing that
they may still carry. A load runs once an hour or once a night and is silent in between, so how long
a window has waited for it counts, not when it last reported.

A window that begins after its records were written was stamped by a clock that is ahead. Waiting
for its end would hide it for as long as the clock is ahead, so the time of writing is used instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark_audit.judge.damage import UNDAMAGED, Damage, Held
from tallymark_audit.judge.states import SEVERITY, Clock, ReporterFacts, State
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.open_transaction import OpenTransaction
from tallymark_audit.model.time_format import utc

NOT_LOADED: Final = "not loaded yet"


@dataclass(frozen=True, slots=True)
class Readiness:
    """Why conclusions have to wait; None in a field: they need not.

    ``young``: the window is too young for any conclusion. ``downstream``: missing messages may not
    be counted yet. ``upstream``: a claim may not be read yet. ``held``: the worst reason that holds
    back the whole window. ``carriers``: the mirror or the group may still carry what it has not
    passed. ``unheard``: a producer run of which there was no report at all may still report.

    ``reporters``: producers by instance, members of a group by name. ``damage``: logs that cannot
    be read to their end. ``ahead``: by how much (ms) the window begins after it was written; 0 if
    it does not. ``young_until`` (ms): when the window is old enough, as far as is known."""

    clock: Clock
    kind: str
    reporters: dict[str, ReporterFacts]
    young: Held | None
    downstream: Held | None
    upstream: Held | None
    held: Held | None
    carriers: Held | None
    damage: Damage = UNDAMAGED
    ahead: int = 0
    unheard: Held | None = None
    young_until: int = 0

    @classmethod
    def of(
        cls,
        edge: Edge,
        window: int,
        reporters: Sequence[ReporterFacts],
        clock: Clock,
        damage: Damage = UNDAMAGED,
    ) -> Readiness:
        """The readiness of a window (start, ms). ``reporters`` as in :func:`.verdicts.judge`."""
        ahead = ahead_by(window, clock)
        end = clock.changed if ahead else window + clock.window_ms
        damage = damage.touching(min(window, end))
        young, young_until = _young(end, clock), _old_at(end, clock)
        downstream = _counter_held("downstream", end, clock.downstream_through, clock)
        upstream = _counter_held("upstream", end, clock.upstream_through, clock)
        held, by_instance, carriers = _worst_held((downstream, upstream)), {}, None
        if edge.kind == "producer":
            # For a window in the future only runs that have written into it are asked: see
            # findings.
            owing = [] if ahead else _owing(reporters, end, clock)
            held = _worst_held((held, *owing))
            by_instance = {reporter.instance: reporter for reporter in reporters}
        elif edge.kind == "consumer":
            by_instance = {reporter.reporter: reporter for reporter in reporters}
            carriers = _group(reporters, clock)
            silent = carriers if not reporters else None
            downstream = _worst_held((downstream, silent, *_owing(reporters, end, clock)))
            held = _worst_held((held, silent))
        elif edge.kind == "lake":
            carriers = _load(edge, reporters, end, clock)
        else:
            carriers = _mirror(reporters, clock) if reporters else _silent_mirror(end, clock)
        held = young or _worst_held((damage.of_window(end), held))
        sides = young, downstream, upstream, held, carriers
        unheard = _unheard(end, clock) if edge.kind == "producer" else None
        return cls(clock, edge.kind, by_instance, *sides, damage, ahead, unheard, young_until)

    def missing(self, in_flight: bool, partition: int = -1) -> Held | None:
        """Why what a cell of the (origin) partition lacks is not lost yet; None: it is."""
        behind = self.carriers if in_flight else None
        return self.damage.missing(partition, in_flight) or self.downstream or behind

    def unclaimed(self, partition: int = -1) -> Held | None:
        """Why messages without a claim, or not counted upstream, may be claimed all the same."""
        return self.damage.surprising(partition) or self.upstream

    def repeated(self, partition: int = -1) -> Held | None:
        """Why copies may not come from this edge: upstream may have them too, where its log is not
        counted yet or cannot be read. A producer claims each record once."""
        return None if self.kind == "producer" else self.unclaimed(partition)

    def unreported(self, members: Iterable[str]) -> Held | None:
        """Why it may not be known yet what these members processed; None: it is known. A member
        that reported after the window last changed has reported its work on the window."""
        found = [self.reporters[name] for name in members if name in self.reporters]
        return _worst_held(_member_held(one, self.clock) for one in found)


def _member_held(member: ReporterFacts, clock: Clock) -> Held | None:
    lives = clock.now - member.last_heard <= clock.silence_ms
    if member.last_heard > clock.changed if clock.changed else lives:
        return None
    who = f"{member.reporter} on {member.server or 'an unnamed server'}"
    if lives:
        return State.SETTLING, f"{who} may have processed some and not reported it yet"
    return State.UNKNOWN, (
        f"{who} is silent since {utc(member.last_heard)}: what it processed and did not report is "
        "not known until its journal is published, or it is retired"
    )


def ahead_by(window: int, clock: Clock) -> int:
    """By how much (ms) the window (start, ms) begins after its last change, if that is more than
    clocks of healthy hosts differ; else 0. Spark's counts have no time of change."""
    ahead = window - clock.changed
    return ahead if clock.changed and ahead > clock.settle_ms else 0


def reporter_held(reporter: ReporterFacts, clock: Clock) -> Held:
    """The state for a reporter whose report is missing: SETTLING while it lives, then UNKNOWN."""
    who = f"{reporter.reporter} on {reporter.server or 'an unnamed server'}"
    if clock.now - reporter.last_heard <= clock.silence_ms:
        text = f"{who} has not reported the window complete"
        return State.SETTLING, f"{text}: {_lost(reporter)}" if reporter.lost else text
    if reporter.lost:
        return State.UNKNOWN, f"{who}: {_lost(reporter)}"
    return State.UNKNOWN, f"{who} is silent since {utc(reporter.last_heard)} and has not closed"


def _lost(reporter: ReporterFacts) -> str:
    """Later reports do not count for the window: those before them may have claimed some of it."""
    lost = reporter.lost
    return (
        f"{lost.size} of its reports did not arrive (of the numbers {lost.first} to {lost.last}),"
        " and later ones have not repeated them"
    )


def _owing(reporters: Sequence[ReporterFacts], end: int, clock: Clock) -> list[Held]:
    """A run that began after the window's end wrote nothing into it. A back-fill writes into the
    past, so it holds back only the cells that it has."""
    return [
        reporter_held(reporter, clock)
        for reporter in reporters
        if reporter.lacks(end) and not reporter.backfill and reporter.first_seen < end
    ]


def _mirror(reporters: Sequence[ReporterFacts], clock: Clock) -> Held | None:
    """A mirror reports how far it has copied. While it lives it will copy the rest. One of its
    processes may close while another goes on, so a recent report counts for more than a close."""
    if all(reporter.retired for reporter in reporters):
        return None
    last = max((one for one in reporters if not one.retired), key=lambda one: one.last_heard)
    if clock.now - last.last_heard <= clock.silence_ms:
        return State.SETTLING, f"{last.reporter} has not copied it yet"
    since = utc(last.last_heard)
    if last.closed:
        return State.UNKNOWN, f"{last.reporter} was stopped at {since} and has not copied it"
    return State.UNKNOWN, f"{last.reporter} is silent since {since}, and behind"


def _silent_mirror(end: int, clock: Clock) -> Held | None:
    """Of a mirror that does not report only its copies are known, so it gets some time."""
    if clock.now < max(end, clock.changed) + clock.settle_ms + clock.silence_ms:
        return State.SETTLING, "the mirror has not been seen past it yet"
    return None


def _group(reporters: Sequence[ReporterFacts], clock: Clock) -> Held | None:
    """A group lives while one of its members does."""
    if not reporters:
        return State.UNKNOWN, "no member of the group has reported"
    if all(reporter.retired for reporter in reporters):
        return None
    heard = max(one.last_heard for one in reporters if not one.retired)
    if clock.now - heard <= clock.silence_ms:
        return State.SETTLING, "the group has not come to it yet"
    return (
        State.UNKNOWN,
        f"no member of the group has reported since {utc(heard)}, and it is behind",
    )


def _load(edge: Edge, tables: Sequence[ReporterFacts], end: int, clock: Clock) -> Held | None:
    """What the load has not come to is not loaded yet, for as long as loads may take to come."""
    if tables and all(one.retired for one in tables):
        return None
    heard = max((one.last_heard for one in tables), default=0)
    last = f"the last load was committed at {utc(heard)}" if heard else "no load has reported"
    if clock.now < max(end, clock.changed) + edge.overdue_ms:
        return State.SETTLING, f"{NOT_LOADED}; {last}"
    return State.UNKNOWN, f"not loaded, though it is overdue; {last}"


def _young(end: int, clock: Clock) -> Held | None:
    if clock.now < end:
        return State.OPEN, "the window has not ended"
    if clock.now < _old_at(end, clock):
        return State.SETTLING, "records may still be under way"
    return None


def _old_at(end: int, clock: Clock) -> int:
    return max(end, clock.changed) + clock.settle_ms


def _unheard(end: int, clock: Clock) -> Held | None:
    """The first report of a run may be late on a busy host; the report of a killed run waits in its
    journal for the next start. Such a run gets as much time as a known reporter has before it
    counts as silent."""
    if clock.now < max(end, clock.changed) + clock.settle_ms + clock.silence_ms:
        return State.SETTLING, "nothing was heard yet of the run that sent it"
    return None


def _counter_held(side: str, end: int, through: int, clock: Clock) -> Held | None:
    needed = max(end, clock.changed) + clock.settle_ms
    if through >= needed:
        return None
    # A counter is as far as its slowest partition.
    waits = [one for one in clock.waits if one.through == through]
    if waits:
        return _waiting(min(waits, key=lambda one: one.since), clock)
    # A counter that has counted nothing yet gets as much time as one that counted to the end.
    if clock.now - (through or max(end, clock.changed)) <= clock.silence_ms:
        return State.SETTLING, f"the counter {side} is catching up"
    since = f"since {utc(through)}" if through else "anything yet"
    return State.UNKNOWN, f"the counter {side} has not counted {since}"


def _waiting(first: OpenTransaction, clock: Clock) -> Held:
    """It will end, by its producer or by its coordinator when its time is over, unless it hangs."""
    if first.hangs(clock.now, clock.hanging_ms):
        return State.UNKNOWN, f"{first.reason}: it hangs, and has to be aborted by hand"
    return State.SETTLING, first.reason


def _worst_held(held: Iterable[Held | None]) -> Held | None:
    return max((one for one in held if one), key=lambda one: SEVERITY[one[0]], default=None)
