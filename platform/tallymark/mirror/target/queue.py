"""The batches that wait to be sent to one partition of the target, in order. Pure.

For one producer id the client's pipeline keeps the order, also where the target refuses a batch as
too large and its two halves take its place. A change of the producer id is the matter of this
class: when the next batch has another origin, it waits until nothing of the partition is in flight.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from tallymark.client.producing.batches.pipeline import Pipeline
from tallymark.errors import TallymarkError
from tallymark.mirror.target.ready_batch import Origin, ReadyBatch

IN_FLIGHT: Final = 5
"""As many as brokers remember of a producer (KIP-98)."""


class TargetQueue:
    """See the module's text. ``origin`` and ``pipeline`` are those of what is sent now."""

    __slots__ = (
        "_pipelines",
        "failed",
        "origin",
        "partition",
        "pipeline",
        "refused_at",
        "topic",
        "waiting",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.waiting: deque[ReadyBatch] = deque()
        self.origin: Origin = frozenset()
        self.pipeline = _pipeline()
        self.failed: TallymarkError | None = None
        """A batch was refused for good, with this error: nothing is sent until that is tried
        again."""
        self.refused_at: float | None = None
        """Since when (monotonic seconds) the target has been refusing with a retriable error."""
        self._pipelines: dict[Origin, Pipeline] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self.waiting and self.pipeline.idle

    def feed(self) -> bool:
        """Move batches to the pipeline as far as it takes them. Returns whether there is anything
        to send."""
        if self.failed is not None:
            return False
        while self.waiting and len(self.pipeline.pending) < IN_FLIGHT:
            if self.waiting[0].origin != self.origin:
                if not self.pipeline.idle:
                    break
                self._turn_to(self.waiting[0].origin)
            self.pipeline.add(self.waiting.popleft())
        return bool(self.pipeline.pending)

    def split(self, batch: ReadyBatch) -> int:
        """Put two halves in the place of a batch for which the pipeline decided SPLIT. Returns
        their bytes. CorruptRecordError: the batch cannot be divided."""
        halves = batch.halves()
        self.pipeline.replace(batch, halves)
        return sum(half.size for half in halves)

    def abandon(self) -> list[ReadyBatch]:
        """Take out all that is not settled."""
        found = [*self.pipeline.abandon(), *self.waiting]
        self.waiting.clear()
        return [batch for batch in found if isinstance(batch, ReadyBatch)]

    def _turn_to(self, origin: Origin) -> None:
        self._pipelines[self.origin] = self.pipeline
        self.origin = origin
        self.pipeline = self._pipelines.get(origin) or _pipeline()


def _pipeline() -> Pipeline:
    return Pipeline(True, IN_FLIGHT, splits=True)
