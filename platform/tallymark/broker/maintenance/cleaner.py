"""The cleaner: finds the compacted logs with the most to remove, lets the worker compact them, and
replaces their segments while the logs are in use.

Of all logs the one with the greatest dirty ratio comes first, overdue ones before it
(``max.compaction.lag.ms``). Several may be under way, in turns
(:mod:`tallymark.broker.maintenance.cleaner_turns`). The event loop only decides and exchanges lists
(:mod:`tallymark.log.compaction.swap`); the worker reads and writes, a thread does the syncs.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from tallymark.broker.maintenance.cleaner_offsets import CleanPoints
from tallymark.broker.maintenance.cleaner_process import (
    CompactionFailedError,
    Step,
    Worker,
    worker_for,
)
from tallymark.broker.maintenance.cleaner_turns import Run, Turns
from tallymark.broker.metrics.counters import UpkeepMetrics
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.errors import KafkaError
from tallymark.log import Log
from tallymark.log.compaction.job import dirt_of, task_of
from tallymark.log.compaction.plan import Dirt
from tallymark.log.compaction.swap import Swap
from tallymark.log.compaction.task import Cleaned, Paused, Summary
from tallymark.log.config import NEVER
from tallymark.log.disk.files import Files

log = logging.getLogger(__name__)

T = TypeVar("T")
_RETRY_MS: Final = 60_000
"""A log whose compaction failed is not tried again for so long, so that others get their turn."""


class _Filthy(NamedTuple):
    log: Log
    dirt: Dirt


class Cleaner:
    """The background task of one broker, between :meth:`start` and :meth:`stop`. ``logs`` are all
    logs that existed when the broker started."""

    def __init__(
        self,
        partitions: Partitions,
        logs: Iterable[Log],
        settings: BrokerSettings,
        files: Files,
        now_ms: Callable[[], int],
        counts: UpkeepMetrics | None = None,
        worker: Worker | None = None,
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self._partitions = partitions
        self.settings = settings
        """The current settings; the next compaction uses them."""
        self._now_ms = now_ms
        self._counts = counts or UpkeepMetrics()
        self._points = CleanPoints(files, logs)
        self._worker = worker or worker_for(files)
        self._thread = threads(1, "tallymark-cleaner")
        self._loop = asyncio.get_running_loop()
        self._turns = Turns()
        self._paused: set[Log] = set()
        self._working_on: Log | None = None
        self._turn_ended = asyncio.Event()
        self._look_at = 0.0
        self._not_before: WeakKeyDictionary[Log, int] = WeakKeyDictionary()
        self._told_of: WeakKeyDictionary[Log, int] = WeakKeyDictionary()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, unless the cleaner is disabled in the settings."""
        if self.settings.log_cleaner_enable:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(_ended)

    async def stop(self) -> None:
        """End; a running compaction is aborted."""
        if self._task is not None:
            self._task.cancel()
            self._worker.kill()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)
        self._worker.close()

    async def _run(self) -> None:
        while True:
            if self._turns.has_room and self._loop.time() >= self._look_at:
                await self._look()
            if len(self._turns):
                run = self._turns.next()
                self._working_on = run.log
                self._turn_ended.clear()
                try:
                    await self._turn(run)
                finally:
                    self._working_on = None
                    self._turn_ended.set()
            else:
                await asyncio.sleep(max(self._look_at - self._loop.time(), 0))

    async def _look(self) -> None:
        """Begin to compact the filthiest log of all topics without a running compaction."""
        busy = self._turns.topics
        others = [
            (each.log, each.last_stable_offset)
            for each in self._partitions
            if each.log.config.compact and each.topic not in busy and each.log not in self._paused
        ]
        filthiest = await self._in_thread(partial(self._filthiest, others))
        if filthiest is not None and filthiest.log in self._paused:
            return  # since we began to look: look again
        if filthiest is None:
            self._look_at = self._loop.time() + self.settings.log_cleaner_backoff_ms / 1000
        else:
            memory = self.settings.log_cleaner_dedupe_buffer_size
            self._turns.begin(*filthiest, memory)

    def _filthiest(self, logs: Sequence[tuple[Log, int]]) -> _Filthy | None:
        """The filthiest of these logs, each with its last stable offset; runs in a thread."""
        now_ms = self._now_ms()
        found: list[_Filthy] = []
        for each, until in logs:
            if each.is_closed or each.is_offline or self._not_before.get(each, 0) > now_ms:
                continue
            try:
                dirt = dirt_of(each, self._points.of(each), now_ms, until)
            except (KafkaError, OSError) as error:
                if each not in self._paused:
                    self._fail(each, f"cannot be looked at: {error}")
                continue
            if dirt.worth_it(each.config):
                found.append(_Filthy(each, dirt))
        return max(found, key=lambda one: (one.dirt.overdue_ms, one.dirt.ratio), default=None)

    async def _turn(self, run: Run) -> None:
        """One turn of a compaction, and the end of the compaction with its last one."""
        target = run.log
        began = self._loop.time()
        ended = True
        try:
            step = await self._step(run)
            run.seconds += self._loop.time() - began
            ended = isinstance(step, Summary) or not await self._goes_on(run, step)
            if isinstance(step, Summary):
                await self._finish(run, step)
        except CompactionFailedError as error:
            # The log may have been deleted, or shortened, while the worker read it.
            if run.is_of_this_log:
                self._fail(target, str(error), for_good=error.damaged)
        except KafkaError as error:
            if target.cuts == run.cuts:
                self._fail(target, str(error))
        except Exception as error:  # a bug must not end the compaction of all other logs
            log.exception("the compaction of %s broke off", target.name)
            self._fail(target, repr(error), for_good=True)
        if ended:
            self._turns.end(run)
            self._look_at = 0.0  # the next one may be waiting for this
        else:
            self._turns.end_turn()

    async def _step(self, run: Run) -> Step:
        if run.begun:
            return await self._in_thread(partial(self._worker.next, run.directory))
        run.begun = True
        settings = self.settings
        rate = settings.log_cleaner_io_max_bytes_per_second
        task = task_of(run.log, run.dirt, self._now_ms(), run.map_bytes, rate)
        return await self._in_thread(partial(self._worker.begin, task))

    async def _goes_on(self, run: Run, step: Cleaned | Paused) -> bool:
        """Whether the log is still as it was when the compaction began, so that it may continue."""
        if isinstance(step, Cleaned):
            there = await self._put_in_place(run, step)
        else:
            there = run.is_of_this_log
        if not there:  # retention has removed segments meanwhile, or a cut; begin again
            await self._in_thread(partial(self._worker.drop, run.directory))
        return there

    async def pause(self, target: Log) -> None:
        """The log is to be cut: no compaction of it begins until :meth:`resume`. One that is under
        way is given up; its turn has ended on return, so nothing reads or replaces its files."""
        self._paused.add(target)
        while self._working_on is target:
            await self._turn_ended.wait()
        run = self._turns.of(target)
        if run is not None:
            self._turns.end(run)
            await self._in_thread(partial(self._worker.drop, run.directory))

    def resume(self, target: Log) -> None:
        """The end of :meth:`pause`."""
        self._paused.discard(target)

    async def note_cut(self, target: Log, offset: int) -> None:
        """The log is being cut at ``offset``: what follows there later has never been cleaned."""
        if self._points.of(target) > offset:
            await self._move(target, offset)

    async def _move(self, target: Log, offset: int) -> None:
        self._points.move(target, offset)
        home = os.path.dirname(target.directory)
        entries = self._points.entries(home)
        await self._in_thread(lambda: self._points.save(home, entries))

    async def _finish(self, run: Run, done: Summary) -> None:
        target = run.log
        if target.cuts == run.cuts:
            await self._move(target, done.until)
        self._counts.cleaner_runs += 1
        self._counts.cleaner_seconds += run.seconds
        self._counts.cleaner_removed_records += done.removed
        self._counts.cleaner_whole_batches += done.undecodable + done.too_large
        _log_compacted(target, run.dirt, done, run.seconds)
        if done.last_whole > self._told_of.get(target, -1):
            self._told_of[target] = done.last_whole
            _log_kept_whole(target, done)

    async def _put_in_place(self, run: Run, cleaned: Cleaned) -> bool:
        job = Swap(run.log, cleaned, run.cuts)
        await self._in_thread(job.prepare)
        # From here to the exchange nothing else may run on the loop that exchange() does not see.
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
        return await self._loop.run_in_executor(self._thread, work)


def _log_compacted(target: Log, dirt: Dirt, done: Summary, seconds: float) -> None:
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


def _log_kept_whole(target: Log, done: Summary) -> None:
    """Log the batches that are kept whole: each once, though every compaction finds them again."""
    log.warning(
        "partition=%s keeps %d batches as they are, whatever replaces their records: %d do not "
        "decode, %d hold more than is unpacked; the last one is at offset %d",
        target.name,
        done.undecodable + done.too_large,
        done.undecodable,
        done.too_large,
        done.last_whole,
    )


def _ended(task: asyncio.Task[None]) -> None:
    """Log the error of a background task that died."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("the cleaner died", exc_info=error)
