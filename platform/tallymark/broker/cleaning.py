"""The cleaner: looks for compacted logs with much to remove, has them compacted, and puts the new
segments in their place while the log goes on.

Of all logs the one with the greatest dirty ratio comes first, overdue ones before it
(``max.compaction.lag.ms``). The event loop only decides and exchanges lists
(:mod:`tallymark.log.compaction_swap`); reading and writing is the worker's, syncs are a thread's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from tallymark.broker.cleaning_points import CleanPoints
from tallymark.broker.cleaning_worker import CompactionFailedError, ProcessWorker, worker_for
from tallymark.broker.metrics import UpkeepMetrics
from tallymark.broker.partitions import Partitions
from tallymark.broker.settings import BrokerSettings
from tallymark.errors import KafkaError
from tallymark.log import Log
from tallymark.log.compaction_job import dirt_of, task_of
from tallymark.log.compaction_plan import Dirt
from tallymark.log.compaction_swap import Swap
from tallymark.log.compaction_task import Cleaned, Summary
from tallymark.log.config import NEVER
from tallymark.log.files import Files

log = logging.getLogger(__name__)

T = TypeVar("T")
_RETRY_MS: Final = 60_000
"""A log whose compaction failed is left alone so long: the next one may be fine."""


class _Filthy(NamedTuple):
    log: Log
    dirt: Dirt


class Cleaner:
    """The background task of one broker, between :meth:`start` and :meth:`stop`. ``logs`` are all
    that were there when the broker started."""

    def __init__(
        self,
        partitions: Partitions,
        logs: Iterable[Log],
        settings: BrokerSettings,
        files: Files,
        now_ms: Callable[[], int],
        counts: UpkeepMetrics | None = None,
    ) -> None:
        self._partitions = partitions
        self.settings = settings
        """Those in force; the next compaction goes by them."""
        self._now_ms = now_ms
        self._counts = counts or UpkeepMetrics()
        self._points = CleanPoints(files, logs)
        self._worker = worker_for(files)
        self._thread = ThreadPoolExecutor(1, "tallymark-cleaner")
        self._not_before: WeakKeyDictionary[Log, int] = WeakKeyDictionary()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, unless the settings say that nothing is to be cleaned."""
        if self.settings.log_cleaner_enable:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(_ended)

    async def stop(self) -> None:
        """End; a compaction under way is given up."""
        if self._task is not None:
            self._task.cancel()
            self._worker.kill()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)
        if isinstance(self._worker, ProcessWorker):
            self._worker.close()

    async def _run(self) -> None:
        while True:
            compacted = [each.log for each in self._partitions if each.log.config.compact]
            filthiest = await self._in_thread(partial(self._filthiest, compacted))
            if filthiest is None:
                await asyncio.sleep(self.settings.log_cleaner_backoff_ms / 1000)
            else:
                await self._try(filthiest)

    def _filthiest(self, logs: Sequence[Log]) -> _Filthy | None:
        """In a thread."""
        now_ms = self._now_ms()
        found: list[_Filthy] = []
        for each in logs:
            if each.is_closed or each.is_offline or self._not_before.get(each, 0) > now_ms:
                continue
            try:
                dirt = dirt_of(each, self._points.of(each), now_ms)
            except (KafkaError, OSError) as error:
                self._fail(each, f"cannot be looked at: {error}")
                continue
            if dirt.worth_it(each.config):
                found.append(_Filthy(each, dirt))
        return max(found, key=lambda one: (one.dirt.overdue_ms, one.dirt.ratio), default=None)

    async def _try(self, filthy: _Filthy) -> None:
        target = filthy.log
        start = target.segment_start
        try:
            await self._clean(target, filthy.dirt)
        except CompactionFailedError as error:
            if target.is_closed or target.segment_start != start:
                return  # it was deleted, or retention was at it, under the worker's hands
            self._fail(target, str(error), for_good=error.damaged)
        except KafkaError as error:
            self._fail(target, str(error))
        except Exception as error:  # a bug must not end the compaction of all other logs
            log.exception("the compaction of %s broke off", target.name)
            self._fail(target, repr(error), for_good=True)

    async def _clean(self, target: Log, dirt: Dirt) -> None:
        began = time.monotonic()
        settings = self.settings
        task = task_of(
            target,
            dirt,
            self._now_ms(),
            settings.log_cleaner_dedupe_buffer_size,
            settings.log_cleaner_io_max_bytes_per_second,
        )
        step = await self._in_thread(lambda: self._worker.begin(task))
        while isinstance(step, Cleaned):
            if not await self._put_in_place(target, step):
                return  # retention was faster; what is there now is looked at anew
            step = await self._in_thread(self._worker.next)
        self._points.move(target, step.until)
        home = os.path.dirname(target.directory)
        entries = self._points.entries(home)
        await self._in_thread(lambda: self._points.save(home, entries))
        seconds = time.monotonic() - began
        self._counts.cleaner_runs += 1
        self._counts.cleaner_seconds += seconds
        self._counts.cleaner_removed_records += step.removed
        _tell(target, dirt, step, seconds)

    async def _put_in_place(self, target: Log, cleaned: Cleaned) -> bool:
        job = Swap(target, cleaned)
        await self._in_thread(job.prepare)
        # From here to the exchange nothing may come between on the loop but what exchange() sees.
        if job.exchange():
            await asyncio.shield(self._in_thread(job.finish))
            return True
        await asyncio.shield(self._in_thread(job.withdraw))
        return False

    def _fail(self, target: Log, why: str, *, for_good: bool = False) -> None:
        self._counts.cleaner_failures += 1
        self._not_before[target] = NEVER if for_good else self._now_ms() + _RETRY_MS
        later = "it is not compacted any more" if for_good else "tried again later"
        log.error("compaction failed partition=%s, %s: %s", target.name, later, why)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _tell(target: Log, dirt: Dirt, done: Summary, seconds: float) -> None:
    log.info(
        "compacted partition=%s from=%d to=%d records=%d removed=%d bytes=%d->%d seconds=%.1f",
        target.name,
        dirt.first_dirty,
        done.until,
        done.records,
        done.removed,
        done.bytes_before,
        done.bytes_after,
        seconds,
    )
    if done.undecodable:
        log.warning(
            "partition=%s has %d batches that do not decode; they stay as they are",
            target.name,
            done.undecodable,
        )


def _ended(task: asyncio.Task[None]) -> None:
    """A background task that dies must be heard of."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("the cleaner died", exc_info=error)
