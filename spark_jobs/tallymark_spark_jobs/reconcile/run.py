"""The nightly reconciliation: count the data of every cluster, judge every edge, name what is lost.

::

    look ──► what had not settled, or may lie further behind: look again, at that alone
      │
      └────► record in the store ──► outcome

Idempotent: a run writes verdicts by window, so running it again for the same range replaces them;
verdicts of a run that looked later stay.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tallymark.clock import now_ms
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.cells import EdgeWindow
from tallymark_audit.store import Store
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.reconcile import ledger
from tallymark_spark_jobs.reconcile.lake_output import write_to_lake
from tallymark_spark_jobs.reconcile.look import Ask, Job, Sight, look
from tallymark_spark_jobs.reconcile.outcome import Outcome
from tallymark_spark_jobs.reconcile.shapes.period import Period

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Job", "Steps", "reconcile"]

AGAIN_SECONDS = 2.0
"""Between two looks while windows settle."""
MOST_UNASKED = 3
"""So many looks are taken without ``--wait``: each at what settled while the one before counted."""
EARLY = frozenset({State.OPEN, State.SETTLING})


def reconcile(spark: SparkSession, job: Job, store: Store, steps: Steps) -> Outcome:
    """Judge the period and record the result.

    Raises UserError for a cluster that cannot be reached and whatever a Spark action fails with."""
    started, deadline = now_ms(), time.monotonic() + job.wait_seconds
    _wait_for_the_end(job, steps, deadline)
    looks = _Looks(job, deadline)
    ask: Ask | None = Ask(job.period)
    while ask is not None:
        looks.add(ask, look(spark, job, store, steps, ask))
        ask = looks.next(steps)
    outcome = looks.outcome()
    with steps.step("record", f"recording {len(outcome.verdicts):,} verdicts"):
        told = replace(outcome, seconds=steps.seconds)
        ledger.record(store, told, started, now_ms(), job.deployment.audit.window_ms)
        found = ledger.disagreements(store, outcome)
        said = write_to_lake(job.deployment, outcome, started)
    notes = (*outcome.notes, said) if said else outcome.notes
    return replace(outcome, disagreements=found, seconds=dict(steps.seconds), notes=notes)


def _wait_for_the_end(job: Job, steps: Steps, deadline: float) -> None:
    """Looking before the last window has had its settle time would be in vain."""
    settled = job.period.end + job.deployment.audit.settle_min_ms
    left = min((settled - now_ms()) / 1000, deadline - time.monotonic())
    if left > 0:
        with steps.step("wait", f"waiting {left:.0f} s for the last windows to settle"):
            time.sleep(left)


@dataclass(slots=True)
class _Looks:
    """The looks of a run so far, each verdict from the last one that looked at its window."""

    job: Job
    deadline: float
    first: Outcome | None = None
    verdicts: dict[EdgeWindow, Verdict] = field(default_factory=dict[EdgeWindow, Verdict])
    as_of: dict[EdgeWindow, int] = field(default_factory=dict[EdgeWindow, int])
    later: list[tuple[frozenset[EdgeWindow], Outcome]] = field(
        default_factory=list[tuple[frozenset[EdgeWindow], Outcome]]
    )
    family: dict[str, str] = field(default_factory=dict[str, str])
    read_on: set[EdgeWindow] = field(default_factory=set[EdgeWindow])
    """Windows for which the logs were read to their ends."""

    def add(self, ask: Ask, sight: Sight) -> None:
        """A look has ended."""
        outcome = sight.outcome
        self.family.update(sight.family)
        if self.first is None:
            self.first = outcome
        else:
            asked = ask.windows or frozenset()
            self.later.append((asked, outcome))
            for window in asked:
                self.verdicts.pop(window, None)
            if ask.to_the_end:
                self.read_on |= asked
        self.verdicts.update((_key(one), one) for one in outcome.verdicts)
        self.as_of.update((_key(one), outcome.as_of) for one in outcome.verdicts)

    def next(self, steps: Steps) -> Ask | None:
        """What to look at again, after a pause if that is needed; None: nothing."""
        doubted = self._doubted()
        if doubted:
            steps.say("not all is complete by the counts of the load: counting that again")
            return self._ask(doubted)
        behind = self._lying_behind()
        if behind:
            steps.say("some messages are missing: reading on behind the period")
            return self._ask(behind, to_the_end=True)
        early = {key: one for key, one in self.verdicts.items() if one.state in EARLY}
        settled = {
            key for key, one in early.items() if self.as_of[key] < one.young_until <= now_ms()
        }
        if settled and len(self.later) < MOST_UNASKED - 1:
            steps.say(f"{len(settled):,} windows settled meanwhile: looking at them again")
            return self._ask(settled)
        left = self.deadline - time.monotonic()
        if not early or left <= 0:
            return None
        steps.say("some windows are still settling: looking again")
        time.sleep(min(AGAIN_SECONDS, left))
        return self._ask(early)

    def outcome(self) -> Outcome:
        """All looks as one."""
        assert self.first is not None  # reconcile() has looked once
        places, damaged = dict(self.first.places), list(self.first.damaged)
        deferred, looked = dict(self.first.deferred), dict[EdgeWindow, int]()
        unread = self.first.unread
        for asked, outcome in self.later:
            for identity, spans in outcome.places.items():
                places[identity] = sorted({*places.get(identity, ()), *spans})
            damaged += [one for one in outcome.damaged if one not in damaged]
            deferred.update(outcome.deferred)
            looked.update(dict.fromkeys(asked, outcome.as_of))
        order = {edge.name: at for at, edge in enumerate(self.first.edges)}
        return replace(
            self.first,
            verdicts=tuple(
                sorted(
                    self.verdicts.values(),
                    key=lambda one: (order.get(one.edge, -1), one.topic, one.window),
                )
            ),
            places=places,
            damaged=tuple(damaged),
            deferred=deferred,
            looked=looked,
            unread=unread,
        )

    def _doubted(self) -> set[EdgeWindow]:
        """After the first look: what is wrong by the counts of a load. These show only what is
        complete."""
        if self.later or not self.job.trust_load_counts:
            return set()
        wrong = {key for key, one in self.verdicts.items() if one.state is not State.COMPLETE}
        return {key for key in wrong if self.verdicts[key].state not in EARLY}

    def _lying_behind(self) -> set[EdgeWindow]:
        """Windows that lack messages of topics whose logs were not read to their ends: records may
        have come later than expected, out of a mirror that had stopped for instance."""
        assert self.first is not None
        unread = {self.family.get(one.topic, one.topic) for one in self.first.unread}
        return {
            key
            for key, one in self.verdicts.items()
            if (one.missing or one.unclaimed)
            and key not in self.read_on
            and self.family.get(one.topic, one.topic) in unread
        }

    def _ask(self, windows: Iterable[EdgeWindow], to_the_end: bool = False) -> Ask:
        wanted = frozenset(windows)
        starts = [window for _, _, window in wanted]
        end = max(starts) + self.job.deployment.audit.window_ms
        names = {self.family.get(topic, topic) for _, topic, _ in wanted}
        topics = {topic for topic, name in self.family.items() if name in names}
        again = to_the_end or not self.read_on.isdisjoint(wanted)
        period = Period(min(starts), end)
        if min(starts) < 0:
            period = Period(None, end)
        return Ask(period, wanted, frozenset(topics | names), again, distrust=True)


def _key(verdict: Verdict) -> EdgeWindow:
    return verdict.edge, verdict.topic, verdict.window
