"""Cuts the logs of replicas: the one place in a broker that removes records at the end of a log.

A follower gives up what its leader does not have (:mod:`tallymark.replication.truncation` says
where). Others have looked at these records, so each is told, in this order::

    the cleaner       works no longer on the log, and its clean point is not above the cut: what is
                      written there later has never been cleaned
    the log           :mod:`tallymark.log.cutting`, durably
    high watermark    is not above the log's end, in the same turn of the event loop
    hooks             those that keep something of the records, in the same turn
    its checkpoint    is not above it either, durably, before anything is appended
    the cleaner       may work again

A crash between any two of these leaves a log that opens, and a high watermark within it: a start
lowers what is beyond the end before anything is appended. Cuts of one log come one after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

from tallymark.broker.partitions.partition import Partition
from tallymark.errors import KafkaError
from tallymark.log import Log, LogManager
from tallymark.log.cutting import Cut
from tallymark.log.disk.partition_folder import LogKey

log = logging.getLogger(__name__)

T = TypeVar("T")
CutHook: TypeAlias = Callable[[Partition, Cut], None]
"""Hears of a cut that is done, on the event loop; must return at once."""
_CUTTERS: Final = 4
"""Logs cut at a time: a disk does several syncs as fast as one."""


class PausedForCuts(Protocol):
    """The cleaner (:mod:`tallymark.broker.maintenance.cleaner`), which this room does not know."""

    async def pause(self, target: Log) -> None:
        """No compaction of the log begins or goes on until :meth:`resume`."""
        ...

    def resume(self, target: Log) -> None:
        """The end of :meth:`pause`."""
        ...

    async def note_cut(self, target: Log, offset: int) -> None:
        """What comes to stand at ``offset`` or behind it has never been cleaned."""
        ...


class ReplicaCutter:
    """Those of one broker. Belongs to the event loop; stop it before the cleaner, and await
    :meth:`settled` before logs are deleted."""

    def __init__(
        self,
        cleaner: PausedForCuts,
        manager: LogManager,
        now_ms: Callable[[], int],
        hooks: Sequence[CutHook] = (),
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self._cleaner = cleaner
        self._manager = manager
        self._now_ms = now_ms
        self._hooks = hooks
        self._thread = threads(_CUTTERS, "tallymark-cut")
        self._running: dict[LogKey, asyncio.Task[Cut]] = {}

    async def cut(self, partition: Partition, offset: int, *, fully: bool = False) -> Cut:
        """Remove the records from ``offset`` on (:meth:`~tallymark.log.log.Log.truncate_to`), or
        with ``fully`` all: the log begins at ``offset``. The caller appends nothing meanwhile. A
        caller that is cancelled does not end the cut.

        Raises KAFKA_STORAGE_ERROR and CORRUPT_MESSAGE: the log ends where it ended, or further
        down, and the cut is to be tried again. Hooks then hear of the cut that succeeds.
        """
        key = LogKey(partition.topic, partition.index)
        await self.settled([key])
        task = asyncio.create_task(self._cut(partition, offset, fully), name=f"cut {partition}")
        self._running[key] = task
        task.add_done_callback(lambda _: self._running.pop(key, None))
        return await asyncio.shield(task)

    async def settled(self, partitions: Iterable[LogKey]) -> None:
        """Return when no cut of these logs is under way: of a deleted one a thread would go on with
        the files of its successor."""
        for key in partitions:
            while (running := self._running.get(key)) is not None:
                await asyncio.wait([running])

    async def stop(self) -> None:
        """Return when no cut is under way; there must be no new one."""
        await self.settled(tuple(self._running))
        await asyncio.to_thread(self._thread.shutdown)

    async def _cut(self, partition: Partition, offset: int, fully: bool) -> Cut:
        target = partition.log
        await self._cleaner.pause(target)
        try:
            await self._cleaner.note_cut(target, await self._end(target, offset, fully))
            return await self._cut_paused(partition, offset, fully)
        except KafkaError as error:
            log.error("cut failed partition=%s offset=%d: %s", partition, offset, error)
            raise
        finally:
            self._cleaner.resume(target)

    async def _end(self, target: Log, offset: int, fully: bool) -> int:
        """Where the log will end: a batch with records on both sides goes as a whole."""
        if fully:
            return offset
        planned = await self._in_thread(partial(target.tail, offset))
        return planned.end_offset

    async def _cut_paused(self, partition: Partition, offset: int, fully: bool) -> Cut:
        target, committed = partition.log, partition.high_watermark
        job = target.begin_cut(offset, self._now_ms(), fully=fully)
        await self._in_thread(job.run)
        try:
            cut = target.finish_cut(job)
        finally:  # a cut that failed may have taken something, too
            partition.lower(target.end_offset)
        if cut.is_below(committed):
            log.error(
                "committed records are cut partition=%s high_watermark=%d: %s",
                partition,
                committed,
                cut,
            )
        for hook in self._hooks:
            _tell(hook, partition, cut)
        lowered = partition.high_watermark
        lower = self._manager.high_watermarks.lower
        await self._in_thread(lambda: lower(partition.topic, partition.index, lowered))
        return cut

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _tell(hook: CutHook, partition: Partition, cut: Cut) -> None:
    try:
        hook(partition, cut)
    except Exception:  # the others must hear of it
        log.exception("a cut of %s was not taken note of: %s", partition, cut)
