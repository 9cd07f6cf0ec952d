"""The order of one partition's batches inside transactions. Pure.

What differs from :class:`~tallymark.client.producing.batches.pipeline.Pipeline`: a batch waits
until its partition is in the transaction, the identity is the producer's and changes between
transactions only, and a partition that lost it does not get another: its transaction is lost.
"""

from __future__ import annotations

from collections.abc import Callable

from tallymark.client.producing.batches.batch import NO_IDENTITY, Identity, ProducerBatch
from tallymark.client.producing.batches.pipeline import Pipeline
from tallymark.protocol.records.batch import TRANSACTIONAL


class TransactionalPipeline(Pipeline):
    """``may_send`` says whether the partition's batches may leave now."""

    __slots__ = ("_may_send",)
    transactional = True

    def __init__(self, max_in_flight: int, may_send: Callable[[], bool]) -> None:
        super().__init__(True, max_in_flight, splits=True)
        self._may_send = may_send

    def next(self, now: float, newest: Identity) -> ProducerBatch | None:
        """None outside a transaction, too. A newer identity is taken over once what was sent under
        the one before has come back: its numbers begin at 0."""
        if not self.pending or newest == NO_IDENTITY or not self._may_send():
            return None
        if newest != self.identity and not self.in_flight:
            self.needs_identity = True
        return super().next(now, newest)

    def sent(self, batch: ProducerBatch) -> None:
        super().sent(batch)
        batch.attributes = TRANSACTIONAL

    def _lose_identity(self, batch: ProducerBatch, code: int | None) -> bool:
        self.needs_identity = True  # which the producer has after the abort
        return False
