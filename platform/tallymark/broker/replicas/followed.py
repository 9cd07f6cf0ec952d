"""One partition that this broker follows: does the steps that
:class:`~tallymark.replication.following.Following` decides, one at a time.

::

    ask ──▶ the leader's answer ──▶ Append                       appended, high watermark, log start
                                    CutTo, StartAt               the cutter's
                                    AskRange ──▶ ListOffsets     then one of the two above
                                    SetAside                     a pause that grows, one log line
                                    Discard                      nothing

While a step is being done the partition is not asked for. What goes wrong here, at the leader or on
a disk sets this partition aside, and no other (KIP-461).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.answers import FetchedPartition, is_expected, what_to_do
from tallymark.broker.replicas.cutting import ReplicaCutter
from tallymark.errors import CODES, TABLE, KafkaError
from tallymark.log.validation.leader_batches import LeaderBatchError
from tallymark.protocol.schema import Buffer
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.following import (
    Append,
    Ask,
    AskRange,
    CutTo,
    Following,
    LogView,
    SetAside,
    StartAt,
    Step,
)

log: Final = logging.getLogger(__name__)

AskForRange = Callable[[TopicPartition, Ask], Awaitable[tuple[int, int]]]
"""Asks the leader where its log of the partition starts and ends; raises KafkaError."""
_IN_A_THREAD: Final = 128 * 1024
"""From so many bytes on checksums are computed in a thread: about 50 us."""


class FollowedPartition:
    """``partition`` is followed in its leader epoch. Belongs to the event loop."""

    def __init__(
        self,
        partition: Partition,
        leader: int,
        cutter: ReplicaCutter,
        now_ms: Callable[[], int],
        first_pause_ms: int,
    ) -> None:
        self.partition = partition
        self.key = partition.topic, partition.index
        self.following = Following(
            self.key,
            leader,
            partition.leader_epoch,
            partition.high_watermark,
            first_pause_ms=first_pause_ms,
        )
        self.lag: int | None = None
        """Records of the leader's high watermark that are not here yet; None: not known."""
        self.why_aside = ""
        """Why it is set aside; "" while it is not."""
        self._cutter = cutter
        self._now_ms = now_ms
        self._doing: asyncio.Future[None] | None = None
        self._ended = False
        self._began = False

    @property
    def view(self) -> LogView:
        """The log now."""
        found = self.partition.log
        return LogView(found.start_offset, found.end_offset, found.epochs)

    def ask(self) -> Ask | None:
        """What to ask next; None while a step is being done, or after a failure."""
        if self._ended or self._doing is not None:
            return None
        return self.following.ask(self.view, self._now_ms())

    @property
    def needs_begin(self) -> bool:
        """Whether :meth:`begin` is still to be called, before the first ask."""
        return not self._began

    async def begin(self) -> None:
        """The first step, before the first ask."""
        self._began = True
        step = self.following.begin(self.view)
        if step is not None:
            await self._do(self._step, step, None, b"")

    async def answered(self, ask: Ask, fetched: FetchedPartition, range_of: AskForRange) -> None:
        """Do what follows from the leader's answer. Raises nothing."""
        if self._ended or self._doing is not None:
            return
        step = self.following.answered(ask, fetched.answer, self.view, self._now_ms())
        await self._do(self._first, step, ask, fetched.records, range_of)

    async def end(self) -> None:
        """Nothing is asked from now on; on return nothing is being appended or cut."""
        self._ended = True
        while self._doing is not None:
            await asyncio.wait([self._doing])

    async def _do(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        doing = self._doing = asyncio.get_running_loop().create_future()
        try:
            await work(*arguments)
        except KafkaError as error:
            self._failed(error)
        except Exception as error:  # a fault of ours must not end the copying of all others
            log.exception("copying failed partition=%s", self.partition)
            self._failed(KafkaError(CODES["UNKNOWN_SERVER_ERROR"], f"{self.partition}: {error}"))
        finally:
            self._doing = None
            doing.set_result(None)

    async def _first(self, step: Step, ask: Ask, records: Buffer, range_of: AskForRange) -> None:
        if isinstance(step, AskRange):
            start, end = await range_of(self.key, ask)
            if self._ended:
                return
            step = self.following.range_told(ask, start, end, self.view, self._now_ms())
        await self._step(step, ask, records)

    async def _step(self, step: Step, ask: Ask | None, records: Buffer) -> None:
        if isinstance(step, Append):
            await self._append(step, records)
        elif isinstance(step, CutTo):
            self._report_cut(step.why, step.to)
            await self._cutter.cut(self.partition, step.to)
            self.following.is_at(self.view, -1)
        elif isinstance(step, StartAt):
            self._report_cut(step.why, step.offset)
            await self._cutter.cut(self.partition, step.offset, fully=True)
            self.following.is_at(self.view, -1)
        elif isinstance(step, SetAside):
            self._set_aside(step)

    async def _append(self, step: Append, records: Buffer) -> None:
        partition, now_ms = self.partition, self._now_ms()
        if records:
            target = partition.log
            follows = target.follows(partition.leader_epoch)
            if len(records) < _IN_A_THREAD:
                checked = target.check_leaders(records, follows)
            else:
                checked = await asyncio.to_thread(target.check_leaders, records, follows)
            try:
                copied = target.append_checked(checked, now_ms)
            finally:
                self._committed(step.high_watermark)
            partition.traffic.replicated_bytes += copied.bytes
            await self._flush_if_exposed()
        await self._start_at(step.log_start)
        self._committed(step.high_watermark)
        self.following.is_at(self.view, step.high_watermark)
        self.why_aside = ""

    def _committed(self, high_watermark: int) -> None:
        end = self.partition.log.end_offset
        self.partition.commit(min(high_watermark, end))
        self.lag = max(0, high_watermark - end)

    async def _flush_if_exposed(self) -> None:
        """With ``flush.before.expose`` the next ask says what is on the disk: then a power failure
        of all replicas takes nothing back."""
        target = self.partition.log
        if not target.config.flush_before_expose:
            return
        job = target.begin_flush()
        if job is not None:
            try:
                await asyncio.to_thread(job.run)
            finally:
                target.finish_flush(job)

    async def _start_at(self, offset: int) -> None:
        """The leader's log begins at ``offset``: records before it were deleted."""
        target = self.partition.log
        until = min(offset, self.partition.high_watermark)
        if until <= target.start_offset:
            return
        job = target.begin_deletion(until, until)
        await asyncio.to_thread(job.run)
        target.finish_deletion(job)

    def _failed(self, error: KafkaError) -> None:
        if self._ended:
            return
        now_ms = self._now_ms()
        if isinstance(error, LeaderBatchError) and error.of_leader:
            self._set_aside(self.following.corrupt(error.offset, str(error), now_ms))
        else:
            self._set_aside(self.following.failed(error.code, str(error), now_ms))

    def _set_aside(self, step: SetAside) -> None:
        """One line for each reason; a change of the leader makes an expected one for a moment."""
        known, self.why_aside = self.why_aside, step.why
        level = logging.DEBUG if known == step.why or is_expected(step.code) else logging.WARNING
        row = TABLE.get(step.code)
        log.log(
            level,
            "not copied partition=%s leader=%d for %d ms: %s [%s]; %s",
            self.partition,
            self.following.leader,
            step.until_ms - self._now_ms(),
            step.why,
            row.name if row else step.code,
            what_to_do(step.code),
        )

    def _report_cut(self, why: str, offset: int) -> None:
        log.info(
            "cuts partition=%s at=%d end=%d high_watermark=%d epoch=%d: %s",
            self.partition,
            offset,
            self.partition.log.end_offset,
            self.partition.high_watermark,
            self.partition.leader_epoch,
            why,
        )
