"""Runs repairs in the background: a look at what upstream still has, then the copying, one at a
time. The pages show how far it is. The copying is that of ``tallymark audit repair --apply``."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.errors import TallymarkError, UserError
from tallymark.trail import Doer
from tallymark_audit.model.time_format import utc
from tallymark_audit.repair.plan import RepairPlan, make_repair_plan
from tallymark_audit.repair.plan_file import to_json
from tallymark_audit.store import Store
from tallymark_audit.store.judged.decisions import About, end_abandoned
from tallymark_audit.store.reading.runs import DecisionsAsked, decision_page

if TYPE_CHECKING:
    from tallymark_audit.repair.apply import ItemResult
    from tallymark_audit.repair.tails import HeldTail
    from tallymark_audit.repair.upstream import Clusters, UpstreamCheck

PROCESS: Final = "dashboards"
FRESH_MS: Final = 120_000
"""So long a look at upstream is shown before it is repeated."""
KEPT_MS: Final = 3_600_000
"""So long the result of a repair is shown on its page."""
ABANDONED_MS: Final = 3_600_000
"""A repair of another process that says nothing of its end for so long has none."""
CLOSE_SECONDS: Final = 10.0
_MOST_JOBS: Final = 20


class Asked(NamedTuple):
    """Which windows: those of ``edge`` and ``topic`` that start from ``start`` up to ``end`` (ms,
    excluded)."""

    edge: str
    topic: str
    start: int
    end: int


class Phase(StrEnum):
    """How far a job is."""

    LOOKING = "looking"
    LOOKED = "looked"
    COPYING = "copying"
    DONE = "done"
    FAILED = "failed"


@dataclass
class Job:
    """A look, and the repair that may follow. Times in ms; ``results`` grows while it is copied.
    ``number`` names it among the jobs of this process; ``error`` says why it failed."""

    asked: Asked
    by: str
    at: int
    number: int = 0
    phase: Phase = Phase.LOOKING
    plan: RepairPlan | None = None
    checks: list[UpstreamCheck] = field(default_factory=list)
    results: list[ItemResult] = field(default_factory=list)
    error: str = ""
    finished_at: int = 0

    @property
    def is_busy(self) -> bool:
        """Whether something goes on."""
        return self.phase in (Phase.LOOKING, Phase.COPYING)

    @property
    def copyable(self) -> int:
        """How many messages upstream still has, as the look found."""
        return sum(one.there.size for one in self.checks)

    @property
    def unseen(self) -> int:
        """How many more there may be in clusters that could not be read."""
        return sum(one.item.count for one in self.checks if not one.there and not one.gone)

    @property
    def digest(self) -> str:
        """Differs where another plan would be carried out."""
        return "" if self.plan is None else digest_of(self.plan)


class _Stopped(TallymarkError):
    """The dashboards stop."""


class RepairDesk:
    """The repairs of one process of the dashboards. Thread-safe. ``settings``: the path of the
    settings file, for the process that loads again; ``opened`` opens clusters (a test has its
    own)."""

    def __init__(
        self,
        deployment: Deployment,
        store: Store,
        settings: str | None = None,
        opened: Callable[[ExitStack], Clusters] | None = None,
        now: Callable[[], int] = now_ms,
    ) -> None:
        self._deployment = deployment
        self._store = store
        self._settings = settings
        self._opened = opened or self._open
        self._now = now
        self._lock = threading.Lock()
        self._jobs: list[Job] = []
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._count = 0

    def busy(self) -> Job | None:
        """What goes on now."""
        with self._lock:
            return next((job for job in self._jobs if job.is_busy), None)

    def job(self, asked: Asked) -> Job | None:
        """The newest job for these windows that is still worth showing."""
        with self._lock:
            now = self._now()
            for job in reversed(self._jobs):
                kept = FRESH_MS if job.phase is Phase.LOOKED else KEPT_MS
                if job.asked == asked and (job.is_busy or now - job.finished_at < kept):
                    return job
        return None

    def look(self, asked: Asked, by: str) -> Job | None:
        """Begin to look what upstream still has; None: another job goes on."""
        with self._lock:
            if self._stopping or any(job.is_busy for job in self._jobs):
                return None
            return self._begin(Job(asked, by, self._now()), self._look)

    def repair(self, asked: Asked, digest: str, doer: Doer) -> Job:
        """Begin to carry out the plan of that digest. UserError: another repair goes on, or the
        plan would be another one now."""
        self._check_others()
        plan = self._plan(asked)
        if digest_of(plan) != digest:
            raise UserError(
                "other messages are missing now than when the plan was shown: nothing was copied",
                "look at the plan once more",
            )
        with self._lock:
            going_on = next((job for job in self._jobs if job.is_busy), None)
            if going_on is not None or self._stopping:
                what = "the dashboards stop" if going_on is None else _of(going_on)
                raise UserError(what, "wait for its end, and try again")
            job = Job(asked, doer.who, self._now(), phase=Phase.COPYING, plan=plan)
            return self._begin(job, lambda: self._copy(job, plan, doer))

    def end_abandoned(self) -> None:
        """At the start: repairs that dashboards began and did not end were broken off."""
        with self._store.write() as connection:
            end_abandoned(connection, PROCESS, self._now(), "the dashboards were stopped")

    def close(self) -> None:
        """Let a repair break off after the item it is at; what was copied stays copied."""
        with self._lock:
            self._stopping = True
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_SECONDS)

    def _begin(self, job: Job, work: Callable[[], object]) -> Job:
        self._count += 1
        job.number = self._count
        self._jobs = [*self._jobs[-_MOST_JOBS:], job]

        def run() -> None:
            try:
                work()
            except Exception as error:
                job.error = str(error) or type(error).__name__
                job.phase = Phase.FAILED
            job.finished_at = self._now()

        self._thread = threading.Thread(target=run, name="dashboards-repair", daemon=True)
        self._thread.start()
        return job

    def _open(self, stack: ExitStack) -> Clusters:
        from tallymark_audit.repair.opened_clusters import OpenedClusters  # with all clients

        return OpenedClusters(self._deployment, stack)

    def _look(self) -> None:
        from tallymark_audit.repair.upstream import check_upstream

        job = self._jobs[-1]
        plan = self._plan(job.asked)
        with ExitStack() as stack:
            job.checks = check_upstream(plan, self._opened(stack))
        job.plan = plan
        job.phase = Phase.LOOKED

    def _copy(self, job: Job, plan: RepairPlan, doer: Doer) -> None:
        from tallymark_audit.repair.repair_run import RepairRun

        def tell(result: ItemResult) -> None:
            job.results.append(result)
            if self._stopping:
                raise _Stopped("the dashboards were stopped")

        asked = job.asked
        about = About(asked.edge, asked.topic, asked.start, asked.end)
        with ExitStack() as stack:
            clusters = self._opened(stack)
            run = RepairRun(
                self._store, self._deployment, clusters, self._settings, doer, self._now
            )
            run.carry_out(plan, about, tell)
        job.phase = Phase.DONE

    def _plan(self, asked: Asked) -> RepairPlan:
        from tallymark_audit.repair.repair_run import repairable_edges

        with self._store.read() as connection:
            edges = repairable_edges(self._deployment, connection)
        kinds = {one.name: one.kind for one in edges}
        tails = self._saved() if kinds.get(asked.edge) == "producer" else ()
        with self._store.read() as connection:
            return make_repair_plan(
                connection,
                edges,
                self._now(),
                asked.start,
                asked.end,
                asked.edge,
                asked.topic,
                tails,
            )

    def _saved(self) -> Sequence[HeldTail]:
        """What the brokers of this machine have saved before they cut it."""
        from tallymark_audit.repair.tails import tails_for

        with ExitStack() as stack:
            try:
                return tails_for(
                    self._deployment, lambda name: self._opened(stack).reader(name)
                ).held
            except TallymarkError as error:
                raise UserError(
                    f"what brokers have saved before they cut it cannot be looked at: {error}",
                    "try again when that is mended, or: tallymark audit repair",
                ) from error

    def _check_others(self) -> None:
        """UserError where a repair by a command, or by other dashboards, goes on: two at once could
        copy the same messages twice."""
        since = self._now() - ABANDONED_MS
        with self._store.read() as connection:
            rows = decision_page(connection, DecisionsAsked(["repair"], start=since))
        for row in rows:
            if not row["finished_at"]:
                begun = f"has been running since {utc(row['at'])}"
                raise UserError(
                    f"a repair by {row['who']} on {row['host']} {begun}",
                    "wait for its end; if that process is gone, repair by the command",
                )


def digest_of(plan: RepairPlan) -> str:
    """Of what the plan says to do, whenever it was made."""
    said = json.dumps({**to_json(plan), "made_at": 0}, sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _of(job: Job) -> str:
    what = "a repair" if job.phase is Phase.COPYING else "a look at upstream"
    return f"{what} by {job.by} has been running since {utc(job.at)}, of {job.asked.topic}"
