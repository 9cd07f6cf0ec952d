"""What the answer to a produce request means for its batches: done, again, in halves, given up."""

from __future__ import annotations

import logging
import time
from typing import Final

from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.partition_queue import PartitionQueue
from tallymark.client.producing.batches.pipeline import Verdict
from tallymark.client.producing.interceptors.stages import QueueStages
from tallymark.client.producing.producer_metrics import ProducerMetrics
from tallymark.client.producing.sending.background import BackgroundRefresh
from tallymark.client.producing.sending.batch_completion import BatchCompletion
from tallymark.errors import KafkaError, TallymarkError

log: Final = logging.getLogger(__name__)


class Answers:
    """Reports to the partition's pipeline, and completes batches. Lives in the I/O thread.
    ``retry_backoff`` in seconds."""

    def __init__(
        self,
        retry_backoff: float,
        completion: BatchCompletion,
        stages: QueueStages,
        metrics: ProducerMetrics,
        background: BackgroundRefresh,
    ) -> None:
        self._retry_backoff = retry_backoff
        self._completion = completion
        self._stages = stages
        self._metrics = metrics
        self._background = background

    def acknowledged(
        self, queue: PartitionQueue, batch: ProducerBatch, base_offset: int, append_time_ms: int
    ) -> None:
        """The batch is in the log."""
        self._background.problem = None
        queue.pipeline.acknowledged(batch)
        if not batch.settled:
            self._completion.acknowledged(batch, base_offset, append_time_ms)

    def refused(
        self, queue: PartitionQueue, batch: ProducerBatch, error: TallymarkError, moved: bool
    ) -> None:
        """The attempt failed; ``moved``: the answer named the new leader."""
        self._background.problem = error
        # Where the new leader is known already, there is no need to wait for the metadata.
        known = moved and isinstance(error, KafkaError) and error.stale_metadata
        retry_at = time.monotonic() + (0.0 if known else self._retry_backoff)
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
