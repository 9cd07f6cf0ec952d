"""The open transaction of a producer's run: what was acknowledged in it waits here for its end.

A record counts as accepted as soon as it is sent, in a transaction too. What becomes of it is
decided with the whole transaction::

    acknowledged ──► held ──► COMMITTED: acknowledged
                          ├─► ABORTED:   aborted
                          └─► IN_DOUBT:  in doubt

So until then all of its records are *pending* in the books, and pending records are in the open
transaction: the books need no list of them. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark_audit.model.cells import Block
from tallymark_audit.reporters.books.runs import Run
from tallymark_audit.reporters.books.tally_cell import Outcome

_ENDS: Final = {
    TransactionStage.COMMITTED: Outcome.ACKNOWLEDGED,
    TransactionStage.ABORTED: Outcome.ABORTED,
    TransactionStage.IN_DOUBT: Outcome.IN_DOUBT,
}


def is_end(stage: TransactionStage) -> bool:
    """Whether the transaction is over."""
    return stage in _ENDS


def outcome_of_pending(stage: TransactionStage | None) -> Outcome:
    """What became of the records that are pending when the run is over and its transaction was
    here; None: there was none. One whose commit was not asked for is aborted by its coordinator."""
    if stage is TransactionStage.OPEN:
        return Outcome.ABORTED
    return _ENDS.get(stage, Outcome.IN_DOUBT) if stage is not None else Outcome.IN_DOUBT


class Held(NamedTuple):
    """A run of records that waits for the end of its transaction. ``acknowledged``: they are in the
    log; else it is in doubt whether they are. ``blocks``: their contents, where these are
    checked."""

    run: Run
    acknowledged: bool
    blocks: Sequence[Block] = ()

    def outcome(self, end: TransactionStage) -> Outcome:
        """How they ended, with the transaction."""
        if end is TransactionStage.COMMITTED and not self.acknowledged:
            return Outcome.IN_DOUBT
        return _ENDS[end]


class HeldRecords:
    """What is held of the open transaction, in the order of its acknowledgement."""

    def __init__(self) -> None:
        self._held: list[Held] = []

    def add(self, run: Run, acknowledged: bool, blocks: Sequence[Block]) -> None:
        """Hold a run. One that continues the run before it makes that longer, so a large
        transaction into few partitions takes little memory."""
        new = Held(run, acknowledged, blocks)
        if self._held and _continues(self._held[-1], new):
            new = new._replace(run=_joined(self._held.pop().run, run))
        self._held.append(new)

    def take(self) -> list[Held]:
        """All of it; nothing is held any more."""
        held, self._held = self._held, []
        return held

    @property
    def oldest(self) -> int | None:
        """The smallest timestamp (ms) among them."""
        return min((held.run.min_timestamp for held in self._held), default=None)


def _continues(last: Held, new: Held) -> bool:
    follows = last.run.key == new.run.key and last.run.last + 1 == new.run.first
    return follows and last.acknowledged is new.acknowledged and not (last.blocks or new.blocks)


def _joined(one: Run, two: Run) -> Run:
    return Run(
        one.key,
        one.first,
        two.last,
        min(one.min_timestamp, two.min_timestamp),
        max(one.max_timestamp, two.max_timestamp),
    )
