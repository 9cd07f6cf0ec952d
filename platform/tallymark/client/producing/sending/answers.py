"""What the answer to a produce request means for its batches: done, again, in halves, given up."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.client.core.cluster import Cluster
from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.partition_queue import PartitionQueue
from tallymark.client.producing.batches.pipeline import Verdict
from tallymark.client.producing.interceptors.stages import QueueStages
from tallymark.client.producing.producer_metrics import ProducerMetrics
from tallymark.client.producing.sending.background import BackgroundRefresh
from tallymark.client.producing.sending.batch_completion import BatchCompletion
from tallymark.client.producing.sending.produce_request import Entry, learn_leaders, read_response
from tallymark.errors import KafkaError, TallymarkError
from tallymark.protocol.messages import ProduceResponse
from tallymark.protocol.wire.produce_client import Appended

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SendRules:
    """Times in seconds. ``acks`` is -1, 1 or 0; ``max_in_flight`` requests a connection."""

    acks: int
    compression: str
    compression_level: int | None
    request_timeout: float
    retry_backoff: float
    max_in_flight: int


class Answers:
    """Tells pipelines and settler. Lives in the I/O thread."""

    def __init__(
        self,
        cluster: Cluster,
        rules: SendRules,
        completion: BatchCompletion,
        stages: QueueStages,
        metrics: ProducerMetrics,
        background: BackgroundRefresh,
    ) -> None:
        self._cluster = cluster
        self._rules = rules
        self._completion = completion
        self._stages = stages
        self._metrics = metrics
        self._background = background

    def take(self, entries: Sequence[Entry], response: list[Appended] | ProduceResponse) -> None:
        """The broker has answered."""
        metadata = self._cluster.metadata
        moved = learn_leaders(entries, response, metadata)
        for answer in read_response(entries, response, metadata):
            if answer.error is not None:
                self._refused(answer.queue, answer.batch, answer.error, moved)
                continue
            self._done(answer.queue, answer.batch, answer.base_offset, answer.append_time_ms)

    def lost(self, entries: Sequence[Entry], error: TallymarkError) -> None:
        """No answer will come."""
        for queue, batch in entries:
            self._refused(queue, batch, error)

    def unseen(self, entries: Sequence[Entry]) -> None:
        """acks=0: handed to the network, and that is all."""
        for queue, batch in entries:
            queue.pipeline.acknowledged(batch)
            self._completion.acknowledged(batch, -1, -1)

    def not_sent(self, entries: Sequence[Entry], error: TallymarkError) -> None:
        """Nothing left: the connection has just died (try again), or it cannot be said."""
        for queue, batch in entries:
            if isinstance(error, KafkaError) and error.retriable:
                queue.pipeline.unsent(batch)
            else:
                self._refused(queue, batch, error)

    def _done(
        self, queue: PartitionQueue, batch: ProducerBatch, base_offset: int, append_time: int
    ) -> None:
        self._background.problem = None
        queue.pipeline.acknowledged(batch)
        if not batch.settled:
            self._completion.acknowledged(batch, base_offset, append_time)

    def _refused(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: TallymarkError,
        moved: bool = False,
    ) -> None:
        self._background.problem = error
        # Who knows the new leader already need not wait for the metadata to settle.
        known = moved and isinstance(error, KafkaError) and error.stale_metadata
        retry_at = time.monotonic() + (0.0 if known else self._rules.retry_backoff)
        verdict = queue.pipeline.refused(batch, error, retry_at)
        if verdict is Verdict.RETRY:
            self._metrics.batches_retried += 1
            self._stages.retried(batch, error)
            log.info("%s will be sent again: %s", batch.describe(), error)
        elif verdict is Verdict.SPLIT:
            log.info("%s will be sent in halves: %s", batch.describe(), error)
            queue.grows = False
            halves = batch.split()
            self._completion.split(batch, halves)
            queue.pipeline.replace(batch, halves)
        elif verdict is not Verdict.OVER:
            self._completion.failed(batch, error, verdict is Verdict.IN_DOUBT)
        if isinstance(error, KafkaError) and error.stale_metadata:
            self._background.want_metadata()
