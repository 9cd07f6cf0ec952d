"""What may be concluded about a window yet: whether it is too young, and who is still owing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tallymark_audit.cells import Edge
from tallymark_audit.states import SEVERITY, Clock, ReporterFacts, State
from tallymark_audit.text import utc

Held = tuple[State, str]
"""A state that is no finding, and why: OPEN, SETTLING or UNKNOWN."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What may be concluded yet. ``young``: nothing, the window is too fresh. ``downstream``: no
    loss, since what is missing may still be uncounted or under way. ``upstream``: nothing
    unclaimed, since the claim may still be unread. ``held``: the worst of all that holds it."""

    clock: Clock
    producer: bool
    reporters: dict[str, ReporterFacts]
    young: Held | None
    downstream: Held | None
    upstream: Held | None
    held: Held | None
    patience: int
    """Until when (ms) a lagging mirror is waited for."""

    @classmethod
    def of(cls, edge: Edge, window: int, reporters: Sequence[ReporterFacts], clock: Clock) -> Gate:
        """The gate of a window (start, ms); ``reporters`` as :func:`.verdicts.judge` has them."""
        end = window + clock.window_ms
        producer = edge.kind == "producer"
        young = _young(end, clock)
        downstream = _counter_held("downstream", end, clock.downstream_through, clock)
        upstream = _counter_held("upstream", end, clock.upstream_through, clock)
        # A run that began after the window's end has nothing in it; a back-fill, which writes
        # into the past, holds only the cells it has.
        owing = _worst_held(
            reporter_held(reporter, clock)
            for reporter in reporters
            if reporter.lacks(end) and not reporter.backfill and reporter.first_seen < end
        )
        if not producer:
            downstream = _worst_held((downstream, owing))
        held = young or _worst_held((downstream, upstream, owing))
        by_instance = {reporter.instance: reporter for reporter in reporters} if producer else {}
        patience = max(end, clock.changed) + clock.settle_ms + clock.silence_ms
        return cls(clock, producer, by_instance, young, downstream, upstream, held, patience)

    def missing(self, in_flight: bool) -> Held | None:
        """Why what is missing is not lost yet; None: it is."""
        if self.downstream is None and in_flight and self.clock.now < self.patience:
            return State.SETTLING, "the mirror has not been seen past it yet"
        return self.downstream


def _young(end: int, clock: Clock) -> Held | None:
    if clock.now < end:
        return State.OPEN, "the window has not ended"
    if clock.now < max(end, clock.changed) + clock.settle_ms:
        return State.SETTLING, "records may still be under way"
    return None


def _counter_held(side: str, end: int, through: int, clock: Clock) -> Held | None:
    if through >= max(end, clock.changed) + clock.settle_ms:
        return None
    if clock.now - through <= clock.silence_ms:
        return State.SETTLING, f"the counter {side} is catching up"
    return State.UNKNOWN, f"the counter {side} has not counted since {utc(through)}"


def reporter_held(reporter: ReporterFacts, clock: Clock) -> Held:
    """Of a reporter that owes a report: it is waited for while it lives."""
    who = f"{reporter.reporter} on {reporter.server or 'an unnamed server'}"
    if clock.now - reporter.last_heard <= clock.silence_ms:
        return State.SETTLING, f"{who} has not reported the window complete"
    return State.UNKNOWN, f"{who} is silent since {utc(reporter.last_heard)} and has not closed"


def _worst_held(held: Iterable[Held | None]) -> Held | None:
    return max((one for one in held if one), key=lambda one: SEVERITY[one[0]], default=None)
