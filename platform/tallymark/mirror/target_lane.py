"""One partition of the target: what waits to be sent there, in order. Pure.

Within one producer id the client's pipeline keeps the order. Two things are beyond it, and both
wait until nothing of the partition is in flight:

* the next batch has another origin, so goes out under another producer id;
* the target found a batch too large: its two halves take its place, ahead of all that was behind
  it, and the partition begins anew under another id, since numbers were given to those already.
"""

from __future__ import annotations

from collections import deque
from operator import itemgetter
from typing import Final

from tallymark.client.producing.batch import NO_IDENTITY
from tallymark.client.producing.pipeline import Pipeline
from tallymark.mirror.ready_batch import Origin, ReadyBatch

IN_FLIGHT: Final = 5
"""As many as brokers remember of a producer (KIP-98)."""


class TargetLane:
    """See the module's text. ``origin`` and ``pipeline`` are those of what is sent now."""

    __slots__ = (
        "_halved",
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
        self.pipeline = Pipeline(True, IN_FLIGHT)
        self.failed = False
        """Something was refused for good: nothing more is sent."""
        self.refused_at: float | None = None
        """Since when (monotonic seconds) the target has been refusing, in a way that may pass."""
        self._pipelines: dict[Origin, Pipeline] = {}
        self._halved: list[tuple[int, ReadyBatch]] = []
        """The place among the pipeline's batches, and half of the one that stood there."""

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self.waiting and not self._halved and self.pipeline.idle

    def feed(self) -> bool:
        """Hand the pipeline what it may have now; whether there is anything to be sent."""
        if self.failed:
            return False
        if self._halved:
            if self.pipeline.in_flight:
                return False
            self._begin_anew()
        while self.waiting and len(self.pipeline.pending) < IN_FLIGHT:
            if self.waiting[0].origin != self.origin:
                if not self.pipeline.idle:
                    break
                self._turn_to(self.waiting[0].origin)
            self.pipeline.add(self.waiting.popleft())
        return bool(self.pipeline.pending)

    def too_large(self, batch: ReadyBatch) -> int:
        """The target refused this batch for its size; it has left the pipeline. Returns the bytes
        of what takes its place. CorruptRecordError: it cannot be divided."""
        halves = batch.halves()
        self._halved += [(batch.order, half) for half in halves]
        return sum(half.size for half in halves)

    def abandon(self) -> list[ReadyBatch]:
        """Take out all that is not settled."""
        halves = [half for _, half in self._halved]
        found = [*halves, *self.pipeline.abandon(), *self.waiting]
        self._halved = []
        self.waiting.clear()
        return [batch for batch in found if isinstance(batch, ReadyBatch)]

    def _turn_to(self, origin: Origin) -> None:
        self._pipelines[self.origin] = self.pipeline
        self.origin = origin
        self.pipeline = self._pipelines.get(origin) or Pipeline(True, IN_FLIGHT)

    def _begin_anew(self) -> None:
        pending = [batch for batch in self.pipeline.pending if isinstance(batch, ReadyBatch)]
        for batch in pending:
            batch.identity, batch.base_sequence = NO_IDENTITY, -1
        placed = [*self._halved, *((batch.order, batch) for batch in pending)]
        placed.sort(key=itemgetter(0))
        self.waiting.extendleft(batch for _, batch in reversed(placed))
        self._halved = []
        used = self.pipeline.identity
        self.pipeline = Pipeline(True, IN_FLIGHT)
        self.pipeline.identity = used  # it adopts a newer one before it sends
