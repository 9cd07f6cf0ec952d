"""What happens by itself: flushes, recovery points, retention. The disk is waited for in a thread,
so the event loop goes on serving."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tallymark.broker.partitions import Partitions
from tallymark.broker.settings import BrokerSettings
from tallymark.errors import KafkaError
from tallymark.log import Log, LogManager

log = logging.getLogger(__name__)


class Housekeeper:
    """The background tasks of one broker, between :meth:`start` and :meth:`stop`."""

    def __init__(
        self,
        partitions: Partitions,
        manager: LogManager,
        settings: BrokerSettings,
        now_ms: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._manager = manager
        self._settings = settings
        self._now_ms = now_ms
        self._flush_wanted = asyncio.Event()
        self._disk = ThreadPoolExecutor(1, "tallymark-flush")
        self._tasks: list[asyncio.Task[None]] = []

    def want_flush(self) -> None:
        """A partition has reached its number of unflushed messages: look now, not at the tick."""
        self._flush_wanted.set()

    def start(self) -> None:
        """Begin."""
        for work in (self._flush(), self._checkpoint(), self._retain()):
            task = asyncio.create_task(work)
            task.add_done_callback(_ended)
            self._tasks.append(task)

    async def stop(self) -> None:
        """End; a flush that is under way is waited for."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._disk.shutdown)

    async def _flush(self) -> None:
        tick = self._settings.log_flush_scheduler_interval_ms / 1000
        while True:
            try:
                async with asyncio.timeout(tick):
                    await self._flush_wanted.wait()
            except TimeoutError:
                pass
            self._flush_wanted.clear()
            now_ms = self._now_ms()
            for partition in self._partitions:
                if partition.log.flush_due(now_ms):
                    await self._flush_one(partition.log)

    async def _flush_one(self, due: Log) -> None:
        try:
            job = due.take_flush()
            if job is not None:
                try:
                    await asyncio.get_running_loop().run_in_executor(self._disk, job.run)
                finally:
                    due.finish_flush(job)
        except KafkaError as error:
            log.error("flush failed partition=%s: %s", due.name, error)

    async def _checkpoint(self) -> None:
        while True:
            await asyncio.sleep(self._settings.log_flush_offset_checkpoint_interval_ms / 1000)
            await asyncio.to_thread(self._manager.checkpoint)

    async def _retain(self) -> None:
        while True:
            await asyncio.sleep(self._settings.log_retention_check_interval_ms / 1000)
            now_ms = self._now_ms()
            for partition in self._partitions:
                try:
                    deleted = partition.log.apply_retention(now_ms)
                except KafkaError as error:
                    log.error("retention failed partition=%s: %s", partition, error)
                    continue
                if deleted:
                    log.info(
                        "retention deleted partition=%s segments=%d start=%d",
                        partition,
                        deleted,
                        partition.log.start_offset,
                    )
                    partition.wake()
                await asyncio.sleep(0)  # one partition a turn of the loop


def _ended(task: asyncio.Task[None]) -> None:
    """A background task that dies must be heard of."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("a background task of the broker died", exc_info=error)
