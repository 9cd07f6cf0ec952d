"""One partition that this broker follows: does the steps that
:class:`~tallymark.replication.following.Following` decides, one at a time.

::

    ask ──▶ the leader's answer ──▶ Append                       appended, high watermark
                                    CutTo, StartAt               the cutter's
                                    AskRange ──▶ ListOffsets     then one of the two above
                                    SetAside                     a pause that grows, one log line
                                    Discard                      nothing

What waits for the disk (cuts, flushes, a log start that moves) is a task of its own: the others of
the fetcher go on. While a step is being done this partition is not asked for. What goes wrong here,
at the leader or on a disk sets this partition aside, and no other (KIP-461).

With ``flush.before.expose`` a partition is asked for when all of it is on the disk: then what the
leader counts of it outlives a power failure.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.answers import FetchedPartition, is_expected, what_to_do
from tallymark.broker.replicas.cutting import ReplicaCutter
from tallymark.broker.replicas.sessions import Key
from tallymark.errors import CODES, TABLE, KafkaError
from tallymark.log.copying import CheckedBatches
from tallymark.log.validation.leader_batches import LeaderBatchError
from tallymark.protocol.schema import Buffer
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

_IN_A_THREAD: Final = 64 * 1024
"""From so many bytes on checksums are computed in a thread."""
_PIECE: Final = 500
"""Batches that are appended before the event loop gets its turn: about 2 ms."""
_LASTS: Final = 7
"""Failures in a row, some seconds."""
_FLUSH_IS_UNDER_WAY: Final = 0.002
"""Seconds until it is looked at again whether another flush of the log has ended."""


class FollowedPartition:
    """``partition`` is followed in its leader epoch. Belongs to the event loop. ``now_ms`` is
    the wall clock, ``clock_ms`` a monotonic clock, for pauses. ``changed`` is called when a step
    that took long is done: it may be asked for again."""

    def __init__(
        self,
        partition: Partition,
        leader: int,
        cutter: ReplicaCutter,
        now_ms: Callable[[], int],
        clock_ms: Callable[[], int],
        first_pause_ms: int,
        changed: Callable[[Key], None] = lambda _: None,
    ) -> None:
        self.partition = partition
        self.key = partition.topic, partition.index
        self.id: Key = partition.topic_id, partition.index
        self.following = Following(
            self.key,
            leader,
            partition.leader_epoch,
            partition.high_watermark,
            first_pause_ms=first_pause_ms,
        )
        self.is_member = False
        """Whether it was in the ISR when it began to be followed in this leader epoch."""
        self.lag: int | None = None
        """Records below the leader's high watermark that are not here yet; None: not known."""
        self.aside: SetAside | None = None
        """Why it is set aside; None while it is not."""
        self._cutter = cutter
        self._now_ms = now_ms
        self._clock_ms = clock_ms
        self._changed = changed
        self._doing: asyncio.Future[None] | None = None
        self._ended = False
        self._began = False

    @property
    def view(self) -> LogView:
        """The log now."""
        found = self.partition.log
        return LogView(found.start_offset, found.end_offset, found.epochs, found.corrupt_from)

    @property
    def doing(self) -> asyncio.Future[None] | None:
        """Done when the step that is under way is; None while there is none."""
        return self._doing

    def ask(self) -> Ask | None:
        """What to ask next; None while a step is being done, or after a failure. Begins the step
        that must be done first."""
        if self._ended or self._doing is not None:
            return None
        now_ms, found = self._clock_ms(), self.partition.log
        if now_ms < self.following.pause_until_ms:
            return None
        if found.is_offline:
            self._failed(KafkaError(CODES["KAFKA_STORAGE_ERROR"], f"{found.name}: disk offline"))
            return None
        if not self._began:
            step = self.following.begin(self.view, is_member=self.is_member)
            if step is not None:
                self._start(partial(self._cut, step))
                return None
            self._began = True
        if found.config.flush_before_expose and found.recovery_point < found.end_offset:
            self._start(self._flush)
            return None
        return self.following.ask(self.view, now_ms)

    async def answered(self, ask: Ask, fetched: FetchedPartition) -> bool:
        """Do what follows from the leader's answer, or begin to. Returns whether the leader has to
        be asked for its range, see :meth:`range_told`. Raises nothing."""
        if self._ended or self._doing is not None:
            return False
        step = self.following.answered(ask, fetched.answer, self.view, self._clock_ms())
        if isinstance(step, Append) and fetched.records:
            await self._do_now(partial(self._append, ask, step, fetched.records))
            self._start_at(step.log_start)
            return False
        self._do(step)
        return isinstance(step, AskRange)

    def range_told(self, ask: Ask, start: int, end: int) -> None:
        """The leader has its log from ``start`` to ``end``."""
        if not self._ended and self._doing is None:
            self._do(self.following.range_told(ask, start, end, self.view, self._clock_ms()))

    def failed(self, error: KafkaError) -> None:
        """The leader refused to say something of this partition alone."""
        if self._doing is None:
            self._failed(error)

    def retry(self) -> None:
        """Something has changed that may have been the reason of a failure: a pause ends now."""
        self.following.pause_until_ms = self.following.failures = 0

    def cease(self) -> None:
        """Nothing is asked from now on."""
        self._ended = True

    async def end(self) -> None:
        """:meth:`cease`; on return nothing is being appended or cut."""
        self.cease()
        while self._doing is not None:
            await asyncio.wait([self._doing])

    # --- steps

    def _do(self, step: Step) -> None:
        if isinstance(step, Append):
            self._commit(step.high_watermark)
            self._is_at(step.high_watermark)
            self._start_at(step.log_start)
        elif isinstance(step, CutTo | StartAt):
            self._start(partial(self._cut, step))
        elif isinstance(step, SetAside):
            self._set_aside(step)

    async def _do_now(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do a step of which the disk is not waited for, without a task."""
        doing = self._doing = asyncio.get_running_loop().create_future()
        try:
            await self._guarded(work)
        finally:
            self._doing = None
            doing.set_result(None)

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do a step that waits for the disk."""
        doing = asyncio.create_task(self._guarded(work), name=f"step of {self.partition}")
        doing.add_done_callback(self._stepped)
        self._doing = doing

    def _stepped(self, _: object) -> None:
        self._doing = None
        self._changed(self.id)

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except KafkaError as error:
            self._failed(error)
        except Exception as error:  # a fault of ours must not end the copying of all others
            log.exception("copying failed partition=%s", self.partition)
            self._failed(KafkaError(CODES["UNKNOWN_SERVER_ERROR"], f"{self.partition}: {error}"))

    async def _append(self, ask: Ask, step: Append, records: Buffer) -> None:
        partition = self.partition
        target = partition.log
        follows = target.follows(partition.leader_epoch)
        if len(records) < _IN_A_THREAD:
            checked = target.check_leaders(records, follows)
        else:
            checked = await asyncio.to_thread(target.check_leaders, records, follows)
        if self._ended or not self.following.is_current(ask, self.view):
            return
        try:
            for number, piece in enumerate(pieces(checked, _PIECE)):
                if number:
                    await asyncio.sleep(0)
                copied = target.append_checked(piece, self._now_ms())
                partition.traffic.replicated_bytes += copied.bytes
        finally:  # the batches before a bad one are written
            self._commit(step.high_watermark)
        self._is_at(step.high_watermark)

    async def _cut(self, step: CutTo | StartAt) -> None:
        fully = isinstance(step, StartAt)
        at = step.offset if isinstance(step, StartAt) else step.to
        log.info(
            "cuts partition=%s at=%d end=%d high_watermark=%d epoch=%d leader=%d: %s",
            self.partition,
            at,
            self.partition.log.end_offset,
            self.partition.high_watermark,
            self.partition.leader_epoch,
            self.following.leader,
            step.why,
        )
        await self._remove(at, fully=fully)
        self._began = True
        self._is_at(self.partition.high_watermark)

    async def _remove(self, at: int, *, fully: bool) -> None:
        """Cut the log; where it cannot be read at its corrupt batch, all of it goes."""
        target = self.partition.log
        try:
            await self._cutter.cut(self.partition, at, fully=fully)
        except KafkaError as error:
            if target.corrupt_from != at or error.code != CODES["CORRUPT_MESSAGE"]:
                raise
            log.error(
                "the log is copied anew partition=%s: it cannot be read at %d", self.partition, at
            )
            await self._cutter.cut(self.partition, target.start_offset, fully=True)

    async def _flush(self) -> None:
        target = self.partition.log
        while target.recovery_point < target.end_offset:
            job = target.begin_flush()
            if job is None:
                await asyncio.sleep(_FLUSH_IS_UNDER_WAY)
                continue
            try:
                await asyncio.to_thread(job.run)
            finally:
                target.finish_flush(job)

    def _start_at(self, offset: int) -> None:
        """The leader's log begins at ``offset``: records before it were deleted."""
        until = min(offset, self.partition.high_watermark)
        if until > self.partition.log.start_offset and self._doing is None and not self._ended:
            self._start(partial(self._delete, until))

    async def _delete(self, until: int) -> None:
        target = self.partition.log
        job = target.begin_deletion(until, until)
        try:
            await asyncio.to_thread(job.run)
        finally:
            target.finish_deletion(job)
        self.partition.wake()

    # --- what is known then

    def _is_at(self, high_watermark: int) -> None:
        self.following.is_at(self.view, high_watermark)
        if self.aside is not None:
            log.info("copied again partition=%s leader=%d", self.partition, self.following.leader)
            self.aside = None

    def _commit(self, high_watermark: int) -> None:
        end = self.partition.log.end_offset
        if high_watermark >= 0:
            self.partition.commit(min(high_watermark, end))
            self.lag = max(0, high_watermark - end)

    def _failed(self, error: KafkaError) -> None:
        if self._ended:
            return
        following, now_ms = self.following, self._clock_ms()
        # A cut that failed may have taken something.
        following.high_watermark = min(following.high_watermark, self.partition.log.end_offset)
        if isinstance(error, LeaderBatchError) and error.of_leader:
            self._set_aside(following.corrupt(error.offset, self.view.end, str(error), now_ms))
        else:
            self._set_aside(following.failed(error.code, str(error), now_ms))

    def _set_aside(self, step: SetAside) -> None:
        """One line for each reason. A change of the leader makes an expected one for a moment: this
        is told when it lasts."""
        known, self.aside = self.aside, step
        told = known is not None and (known.code, known.why) == (step.code, step.why)
        if is_expected(step.code):
            told = self.following.failures != _LASTS
        row = TABLE.get(step.code)
        log.log(
            logging.DEBUG if told else logging.WARNING,
            "not copied partition=%s leader=%d for %d ms: %s [%s]; %s",
            self.partition,
            self.following.leader,
            step.until_ms - self._clock_ms(),
            step.why,
            row.name if row else step.code,
            what_to_do(step.code),
        )


def pieces(checked: CheckedBatches, most: int) -> Iterator[CheckedBatches]:
    """The same batches, at most ``most`` in each; the fault comes with the last piece."""
    data, headers, fault = checked
    if len(headers) <= most:
        yield checked
        return
    view = memoryview(data)
    position = 0
    for first in range(0, len(headers), most):
        part = headers[first : first + most]
        end = position + sum(header.size for header in part)
        is_last = first + most >= len(headers)
        yield CheckedBatches(view[position:end], part, fault if is_last else None)
        position = end
