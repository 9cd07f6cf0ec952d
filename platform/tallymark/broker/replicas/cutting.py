"""Cuts the logs of replicas: the one place in a broker that removes records at the end of a log.

A follower gives up what its leader does not have (:mod:`tallymark.replication.truncation` says
where). Others have looked at these records, so each is told, in this order::

    the cleaner       works no longer on the log, and its clean point is not above the cut: what is
                      written there later has never been cleaned
    records that were committed are saved aside, durably (:mod:`tallymark.log.saved_tails`)
    the log           :mod:`tallymark.log.cutting`, durably
    high watermark    is not above the log's end, in the same turn of the event loop
    hooks             those that keep something of the records, in the same turn
    its checkpoint    is not above it either, durably, before anything is appended
    the cleaner       may work again

A crash between any two of these leaves a log that opens, and a high watermark within it: a start
lowers what is beyond the end before anything is appended. Cuts of one log come one after the other.

What was committed is not always known here: the own high watermark is that of a checkpoint after a
kill. So what leaders before an unclean election wrote is saved when it is cut, whatever the high
watermark. What leaders since then wrote is not: a later leader that was elected from the ISR has
all of it that was committed, so what it lacks never was, as where there was no unclean election.
Where the disk does not take these records, the log is cut all the same: a replica that is not cut
cannot follow its leader, and no consumer reads its records. The report then says that they were not
saved, and why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

from tallymark.broker.partitions.partition import Partition
from tallymark.errors import KafkaError
from tallymark.log import Log, LogManager
from tallymark.log.cutting import Cut
from tallymark.log.disk.partition_folder import LogKey
from tallymark.log.saved_tails import TailNotSavedError, save_tail, tail_of
from tallymark.protocol.records.saved_tail import Tail

log = logging.getLogger(__name__)

T = TypeVar("T")
CutHook: TypeAlias = Callable[[Partition, Cut], None]
"""Hears of a cut that is done, on the event loop; must return at once."""
_CUTTERS: Final = 4
"""Logs cut at a time: a disk does several syncs as fast as one."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Committed records that a cut has taken, or records from before an unclean election.
    ``folder``: where they are saved; "": they are not, and ``why`` says why not."""

    tail: Tail
    folder: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Saving:
    """How records that are given up are saved. ``unclean_epoch``: the leader epoch of the
    partition's last unclean election, -1 where it is not known in which it was, None where there
    was none: of what was written before it is not known what was committed. ``given_up`` hears of
    each such cut when it is done, on the event loop; it must return at once."""

    broker: int
    most_bytes: int
    unclean_epoch: Callable[[Partition], int | None]
    given_up: Callable[[GivenUp], object]


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
        saving: Saving | None = None,
    ) -> None:
        """``saving`` None: nothing is saved."""
        self._saving = saving
        self._one_saves = asyncio.Lock()
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
            planned = await self._in_thread(partial(target.tail, offset, fully=fully))
            await self._cleaner.note_cut(target, planned.end_offset)
            saved = await self._save(partition, planned)
            return await self._cut_paused(partition, offset, fully, saved)
        except KafkaError as error:
            log.error("cut failed partition=%s offset=%d: %s", partition, offset, error)
            raise
        finally:
            self._cleaner.resume(target)

    async def _save(self, partition: Partition, planned: Cut) -> GivenUp | None:
        """Save what was committed; None where nothing of it goes. A cut that is tried again after a
        failure saves what is left."""
        saving, committed = self._saving, partition.high_watermark
        if saving is None or not planned.offsets:
            return None
        # What is copied again because it is corrupt here is whole at the leader.
        given_up = planned.is_below(committed) and not partition.log.is_corrupt
        if not (given_up or _is_older(planned, saving.unclean_epoch(partition))):
            return None
        home = self._manager.home_of(partition.topic, partition.index)
        tail = tail_of(
            planned,
            cluster_id=self._manager.cluster_id or "",
            broker=saving.broker,
            saved_at=self._now_ms(),
            topic=partition.topic,
            partition=partition.index,
            topic_id=partition.topic_id,
            leader_epoch=partition.leader_epoch,
            high_watermark=committed,
        )
        if home is None:
            return GivenUp(tail, "", "its data directory is not known")
        save = partial(
            save_tail, partition.log.files, home.path, partition.log, tail, saving.most_bytes
        )
        async with self._one_saves:  # each makes room for itself
            try:
                return GivenUp(tail, await self._in_thread(save))
            except TailNotSavedError as error:
                return GivenUp(tail, "", str(error))

    async def _cut_paused(
        self, partition: Partition, offset: int, fully: bool, saved: GivenUp | None
    ) -> Cut:
        target, committed = partition.log, partition.high_watermark
        was_corrupt = target.is_corrupt
        job = target.begin_cut(offset, self._now_ms(), fully=fully)
        await self._in_thread(job.run)
        try:
            cut = target.finish_cut(job)
        finally:  # a cut that failed may have taken something, too
            partition.lower(target.end_offset)
        if cut.is_below(committed) and not was_corrupt:
            log.error(
                "committed records are cut partition=%s high_watermark=%d: %s",
                partition,
                committed,
                cut,
            )
        if saved is not None and self._saving is not None:
            _report(saved)
            self._saving.given_up(saved)
        for hook in self._hooks:
            _tell(hook, partition, cut)
        lowered = partition.high_watermark
        lower = self._manager.high_watermarks.lower
        await self._in_thread(lambda: lower(partition.topic, partition.index, lowered))
        return cut

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _is_older(planned: Cut, unclean_epoch: int | None) -> bool:
    """Whether the cut takes records from before that unclean election, as far as is known."""
    if unclean_epoch is None:
        return False
    # The epochs rise, so the first record is of the oldest one, if it is of a known one at all.
    known = [epoch for epoch, offset in planned.epochs if offset <= planned.first_offset]
    return not known or unclean_epoch < 0 or known[-1] < unclean_epoch


def _report(found: GivenUp) -> None:
    tail = found.tail
    log.error(
        "records are given up partition=%s-%d offsets=%d-%d epochs=%s for_epoch=%d "
        "high_watermark=%d bytes=%d: %s",
        tail.topic,
        tail.partition,
        tail.from_offset,
        tail.to_offset,
        tail.epochs,
        tail.leader_epoch,
        tail.high_watermark,
        tail.bytes,
        f"saved in {found.folder}" if found.folder else f"NOT SAVED: {found.why}",
    )


def _tell(hook: CutHook, partition: Partition, cut: Cut) -> None:
    try:
        hook(partition, cut)
    except Exception:  # the others must hear of it
        log.exception("a cut of %s was not taken note of: %s", partition, cut)
