"""The transactions of a run, one after the other: its records wait for the end, then are settled.

Each stage is in the journal before what follows from it::

    OPEN          before the first record is accepted         a death now:  aborted
    ENDING        before the commit is asked for                            in doubt
    COMMITTED     before the first record is settled                        acknowledged
    ABORTED, IN_DOUBT                                                       aborted, in doubt
    (none)        when the last record is settled
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark_audit.model.cells import Block
from tallymark_audit.reporters.books.runs import Run
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.books.transaction import (
    Held,
    HeldRecords,
    is_end,
    outcome_of_pending,
)
from tallymark_audit.reporters.journal.writer import Journal

Settle = Callable[[Run, Outcome, Sequence[Block]], None]


class RunTransaction:
    """The transaction that is open now, if one is. Hold the run's lock."""

    def __init__(self) -> None:
        self._stage: TransactionStage | None = None
        self._held = HeldRecords()

    @property
    def oldest(self) -> int | None:
        """The smallest timestamp (ms) of what waits for the end."""
        return self._held.oldest

    def accepting(self, journal: Journal) -> None:
        """Records are about to be accepted. What is sent in no transaction changes nothing, nor
        does a transaction in which nothing is sent."""
        if self._stage is not None and journal.tally.transaction is None:
            journal.transaction_is(self._stage)

    def holds(self, outcome: Outcome) -> bool:
        """Whether records with this outcome wait for the end. What was refused does not."""
        return self._stage is not None and outcome in (Outcome.ACKNOWLEDGED, Outcome.IN_DOUBT)

    def hold(self, run: Run, outcome: Outcome, blocks: Sequence[Block]) -> None:
        """These wait for the end."""
        self._held.add(run, outcome is Outcome.ACKNOWLEDGED, blocks)

    def moved(self, stage: TransactionStage, journal: Journal | None, settle: Settle) -> None:
        """It has come to this stage. A stage that it has, and an end of none, change nothing."""
        known, ends = self._stage, is_end(stage)
        if stage is known or (ends and known is None):
            return
        self._stage = None if ends else stage
        if journal is None or journal.tally.transaction is None:
            return  # nothing was sent in it
        if ends:
            self._end(stage, journal, settle)
        else:
            journal.transaction_is(stage)

    def over(self, journal: Journal, settle: Settle) -> None:
        """The run is over, and with it what can be asked."""
        aborted = outcome_of_pending(self._stage) is Outcome.ABORTED
        end = TransactionStage.ABORTED if aborted else TransactionStage.IN_DOUBT
        self.moved(end, journal, settle)

    def _end(self, end: TransactionStage, journal: Journal, settle: Settle) -> None:
        alike, others = list[Held](), list[Held]()
        for held in self._held.take():
            same = held.outcome(end) is outcome_of_pending(end)
            (alike if same else others).append(held)
        for held in others:  # before all that is pending is said to have ended in one way
            settle(held.run, held.outcome(end), ())
        journal.transaction_is(end)
        for held in alike:
            settle(held.run, held.outcome(end), held.blocks)
        journal.transaction_is(None)
