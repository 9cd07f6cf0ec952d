"""Opens new cells of partitions as far as their budgets go (:mod:`.openings`), in the transaction
that counts the records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.collector.limits.openings import TOO_MANY_RUNS, Budget, admit, head_of
from tallymark_audit.collector.limits.report_bound import Recent, ReportBound
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.cells import CellKey, RunName
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.store.counted import openings
from tallymark_audit.store.counted.counts import touch
from tallymark_audit.store.counted.incidents import Incident, fold_incident
from tallymark_audit.store.counted.openings import Spent


@dataclass(slots=True)
class Opener:
    """What is in memory is a copy, thrown away (:meth:`forget_all`) whenever a write has failed."""

    budget: Budget = field(default_factory=lambda: Budget(0, 1))
    _spent: dict[TopicPartition, Spent] = field(default_factory=dict[TopicPartition, Spent])
    _reported: Recent[RunName] = field(default_factory=Recent[RunName])
    _reports: ReportBound = field(default_factory=ReportBound)

    def forget(self, place: TopicPartition) -> None:
        """Others have counted the partition."""
        self._spent.pop(place, None)

    def forget_all(self) -> None:
        """Forget the budgets in memory: the store has the right ones."""
        self._spent.clear()

    def is_tight(self, place: TopicPartition, now: int) -> bool:
        """Whether a partition has spent half of what it may."""
        spent = self._spent.get(place)
        return spent is not None and 2 * self.budget.left(spent, now) < self.budget.left(Spent(), 0)

    def open(
        self,
        connection: Connection,
        cluster: str,
        place: TopicPartition,
        runs: Sequence[SeenRun],
        new: Sequence[CellKey],
        now: int,
    ) -> set[CellKey]:
        """Move the ``runs`` of those ``new`` cells that are not opened to the cells that count them
        by number, which are returned. All of it holds only if the transaction does."""
        if not new or not self.budget.most:
            return set()
        known = self._spent.get(place)
        spent = openings.spent_of(connection, cluster, *place) if known is None else known
        reported = self._reported_of(connection, {key.run for key in new if key.stamped})
        made = admit(self.budget, spent, new, reported, place, head_of(runs), now)
        later = made.spent
        if made.refused:
            later = self._move(connection, cluster, place, runs, made.refused, later, now)
        if (later.minute, later.hour) != (0, 0) or made.refused:
            openings.save_spent(connection, cluster, *place, later)
        self._spent[place] = later
        return set(made.refused.values())

    def take_in(
        self,
        connection: Connection,
        cluster: str,
        partition: int,
        events: Sequence[AuditEvent],
        now: int,
    ) -> list[AuditEvent]:
        """Those of the monitoring events of a partition that are not too many."""
        return self._reports.admit(connection, cluster, partition, events, self.budget, now)

    def _reported_of(self, connection: Connection, runs: set[RunName]) -> set[RunName]:
        known = self._reported.of(runs)
        found = openings.reported_runs(connection, runs - known)
        self._reported.note(found)
        return known | found

    def _move(
        self,
        connection: Connection,
        cluster: str,
        place: TopicPartition,
        runs: Iterable[SeenRun],
        refused: dict[CellKey, CellKey],
        spent: Spent,
        now: int,
    ) -> Spent:
        moved = [run for run in runs if run.key in refused]
        for run in moved:
            run.key = refused[run.key]
            run.blocks = ()
        count = sum(run.count for run in moved if not run.aborted)
        reason = (
            f"the partition has more than {self.budget.most} unreported runs a minute, or too many "
            "windows far from now: further records are counted together, by number"
        )
        start, end = min(run.offset for run in moved), max(run.last_offset for run in moved) + 1
        incident = Incident(TOO_MANY_RUNS, reason, *place, start, end, count)
        fold_incident(connection, cluster, incident, now)
        # Messages missing from such a window may be among these records: it has to be judged again.
        far = {key.window for key, cell in refused.items() if key.window != cell.window}
        again = openings.known_windows(connection, cluster, place[0], far)
        touch(connection, cluster, [(place[0], window) for window in again], now)
        return replace(spent, records=spent.records + count, refused_at=now)
