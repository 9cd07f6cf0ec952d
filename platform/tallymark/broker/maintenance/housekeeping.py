"""Background work: flushes, recovery points, high watermarks, retention, and log lines about failed
disks. Threads wait for the disk, so the event loop continues to serve."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Final

from tallymark.broker.metrics.counters import UpkeepMetrics
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.errors import CODES, KafkaError
from tallymark.log import Log, LogManager
from tallymark.log.disk.partition_folder import LogKey
from tallymark.net.limits.log_rate import LogRate

log = logging.getLogger(__name__)

_FLUSHES: Final = 4
"""Partitions flushed at a time: a disk does several syncs as fast as one."""
_BEING_CUT: Final = CODES["REPLICA_NOT_AVAILABLE"]
"""A follower's log that is being cut is looked at the next time."""
_TURN: Final = 500
"""Partitions looked at before the event loop gets its turn."""


class Housekeeper:
    """The background tasks of one broker, between :meth:`start` and :meth:`stop`."""

    def __init__(
        self,
        partitions: Partitions,
        manager: LogManager,
        settings: BrokerSettings,
        now_ms: Callable[[], int],
        counts: UpkeepMetrics | None = None,
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self._partitions = partitions
        self._manager = manager
        self._settings = settings
        self._now_ms = now_ms
        self._counts = counts or UpkeepMetrics()
        self._wanted: dict[Partition, None] = {}
        self._flush_wanted = asyncio.Event()
        self._flushing = threads(_FLUSHES, "tallymark-flush")
        self._upkeep = threads(1, "tallymark-upkeep")
        self._logged: set[str] = set()
        self._failures = LogRate()
        self._tasks: list[asyncio.Task[None]] = []

    def want_flush(self, partition: Partition) -> None:
        """Flush the partition now, not at the next tick."""
        self._wanted[partition] = None
        self._flush_wanted.set()

    def start(self) -> None:
        """Begin."""
        flushers = [self._flush() for _ in range(_FLUSHES)]
        others = self._look_over(), self._checkpoint(), self._save_watermarks(), self._retain()
        for work in (*flushers, *others):
            task = asyncio.create_task(work)
            task.add_done_callback(_ended)
            self._tasks.append(task)

    async def stop(self) -> None:
        """End; waits for disk work that is under way. The logs are closed after this, which writes
        the high watermarks of now."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._flushing.shutdown)
        await asyncio.to_thread(self._upkeep.shutdown)
        await self._note_watermarks()

    # --- flushes

    async def _look_over(self) -> None:
        tick = self._settings.log_flush_scheduler_interval_ms / 1000
        while True:
            await asyncio.sleep(tick)
            now_ms = self._now_ms()
            short = self._manager.take_shortage()
            for number, partition in enumerate(self._partitions):
                if short or partition.log.flush_due(now_ms):
                    self.want_flush(partition)
                if number % _TURN == _TURN - 1:
                    await asyncio.sleep(0)
            self._log_failed_folders()

    async def _flush(self) -> None:
        while True:
            while not self._wanted:
                self._flush_wanted.clear()
                await self._flush_wanted.wait()
            partition = next(iter(self._wanted))
            del self._wanted[partition]
            try:
                await self._flush_one(partition)
            except KafkaError as error:
                self._counts.flush_failures += 1
                self._log_failure("flush", partition, error)
                partition.failed(error)

    async def _flush_one(self, partition: Partition) -> None:
        job = partition.log.begin_flush()
        if job is None:
            return
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await loop.run_in_executor(self._flushing, job.run)
        finally:
            partition.log.finish_flush(job)
        self._counts.flushes += 1
        self._counts.flush_seconds += loop.time() - began
        partition.flushed()

    def _log_failure(self, what: str, partition: Partition, error: KafkaError) -> None:
        """Log a failure at a limited rate: without free descriptors every partition fails at every
        tick."""
        cause = error.__cause__
        held = self._failures.passes((what, getattr(cause, "errno", None)))
        if held is not None:
            log.error("%s failed partition=%s: %s; repeated=%d", what, partition, error, held)

    def _log_failed_folders(self) -> None:
        """Log once for each failed disk which acknowledged records may not be on it."""
        for folder, why in self._manager.offline_dirs.items():
            if folder in self._logged:
                continue
            self._logged.add(folder)
            log.critical("data directory offline path=%s: %s", folder, why)
            for name, flushed, end in self._manager.at_risk(folder):
                log.critical(
                    "partition=%s: records from offset %d to before %d were acknowledged and may "
                    "be lost with the disk",
                    name,
                    flushed,
                    end,
                )
            error = KafkaError(CODES["KAFKA_STORAGE_ERROR"], f"{folder} is offline: {why}")
            for partition in self._partitions:
                if partition.log.is_offline:
                    partition.failed(error)

    async def _checkpoint(self) -> None:
        while True:
            await asyncio.sleep(self._settings.log_flush_offset_checkpoint_interval_ms / 1000)
            await asyncio.to_thread(self._manager.checkpoint)

    # --- high watermarks

    async def _save_watermarks(self) -> None:
        """Write ``replication-offset-checkpoint`` where a high watermark has moved."""
        loop = asyncio.get_running_loop()
        while True:
            pause = self._settings.replica_high_watermark_checkpoint_interval_ms
            await asyncio.sleep(pause / 1000)
            await self._note_watermarks()
            await loop.run_in_executor(self._upkeep, self._manager.high_watermarks.save)
            await loop.run_in_executor(self._upkeep, self._manager.flushed_first.save)

    async def _note_watermarks(self) -> None:
        for number, each in enumerate(self._partitions, 1):
            # One that went in another's turn may have a successor of the same name by now.
            if self._partitions.is_held(each):
                self._manager.high_watermarks.note(each.topic, each.index, each.high_watermark)
                if each.is_replicated and is_flushed_first(each.log):
                    self._manager.flushed_first.note(LogKey(each.topic, each.index))
            if number % _TURN == 0:
                await asyncio.sleep(0)

    # --- retention

    async def _retain(self) -> None:
        while True:
            await asyncio.sleep(self._settings.log_retention_check_interval_ms / 1000)
            now_ms = self._now_ms()
            for partition in self._partitions:
                try:
                    await self._retain_one(partition, now_ms)
                except KafkaError as error:
                    if self._partitions.is_held(partition) and error.code != _BEING_CUT:
                        self._log_failure("retention", partition, error)

    async def _retain_one(self, partition: Partition, now_ms: int) -> None:
        found, loop = partition.log, asyncio.get_running_loop()
        found.expire_producers(now_ms)
        old = await loop.run_in_executor(self._upkeep, partial(found.find_expired, now_ms))
        job = found.take_expired(old, partition.high_watermark)
        if job is None:
            return
        try:
            await loop.run_in_executor(self._upkeep, job.run)
        finally:
            found.finish_deletion(job)
        self._counts.retention_segments += len(job.segments)
        log.info(
            "retention deleted partition=%s segments=%d start=%d",
            partition,
            len(job.segments),
            job.start_offset,
        )
        partition.wake()


def is_flushed_first(target: Log) -> bool:
    """Whether nothing of the log is reported before it is flushed, and all of it is flushed."""
    return target.config.flush_before_expose and target.recovery_point >= target.end_offset


def _ended(task: asyncio.Task[None]) -> None:
    """Log the error of a background task that died."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("a background task of the broker died", exc_info=error)
