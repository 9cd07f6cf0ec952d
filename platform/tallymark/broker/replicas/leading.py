"""All partitions with several replicas that this broker leads.

:mod:`.lead` is one of them, :mod:`.isr_writing` writes what they wish for. Here is who they are,
and what all of them hear of: time, brokers, states and settings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from tallymark.broker.metadata.port import StateWriter
from tallymark.broker.metrics.counters import ReplicationMetrics
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.bad_batches import BadBatches
from tallymark.broker.replicas.isr_writing import IsrWriter
from tallymark.broker.replicas.lead import ReplicatedLead
from tallymark.broker.yielding import in_turns
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.leading import LAG_TIME_MAX_MS, Leader
from tallymark.replication.model import Assignment, BrokerView, PartitionState, PartitionView
from tallymark.replication.progress import LogAtElection

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
_TURN: Final = 200
"""Partitions looked over in one turn of the event loop: about a millisecond."""


class Leads:
    """The leads of broker ``me``. Belongs to the event loop. ``now_ms`` is a monotonic clock
    (ms since some moment): a jump of the wall clock would put all followers out of sync. ``lag_ms``
    is ``replica.lag.time.max.ms``."""

    def __init__(
        self,
        me: int,
        writer: StateWriter,
        now_ms: Callable[[], int],
        lag_ms: int = LAG_TIME_MAX_MS,
        metrics: ReplicationMetrics | None = None,
    ) -> None:
        self._me = me
        self._now_ms = now_ms
        self._lag_ms = lag_ms
        self._leads: dict[TopicPartition, ReplicatedLead] = {}
        self._brokers: Mapping[int, BrokerView] = {}
        self._look = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.bad_batches = BadBatches()
        """Looks at what followers found to be corrupt."""
        self.writer = IsrWriter(writer, metrics or ReplicationMetrics())
        """Writes what the leads wish for."""

    def __iter__(self) -> Iterator[ReplicatedLead]:
        return iter(tuple(self._leads.values()))

    def __len__(self) -> int:
        return len(self._leads)

    def get(self, key: TopicPartition) -> ReplicatedLead | None:
        """The lead of a partition; None where this broker has none, or it has one replica."""
        return self._leads.get(key)

    def begin(self, partition: Partition, view: PartitionView) -> None:
        """This broker leads ``partition`` in the epoch of ``view.state``, which the log has
        already. :meth:`brokers_changed` comes before it: a follower that is not known to be
        registered is not in sync. Raises ValueError where the partition is of another epoch, the
        state names another leader, or the partition is led already."""
        state = view.state
        if (state.leader, state.leader_epoch) != (self._me, partition.leader_epoch):
            raise ValueError(
                f"{partition} of epoch {partition.leader_epoch} is not the one of which broker "
                f"{state.leader} is the leader in epoch {state.leader_epoch}"
            )
        if partition.lead is not None:
            raise ValueError(f"{partition} is led already in epoch {state.leader_epoch}")
        key = (partition.topic, partition.index)
        self.end(key)
        known = LogAtElection(partition.log.end_offset, partition.high_watermark)
        now_ms = self._now_ms()
        leader = Leader(self._me, key, view, known, self._brokers, now_ms, self._lag_ms)
        lead = ReplicatedLead(
            partition,
            leader,
            self._now_ms,
            self.writer.wished,
            self._brokers,
            self.bad_batches.named,
        )
        self._leads[key] = lead
        partition.replicate(lead)
        lead.look_at_own_log()
        lead.grown()

    def end(self, key: TopicPartition, *, deleted: bool = False) -> None:
        """This broker does not lead the partition any more; ``deleted``: no broker does. What waits
        gets NOT_LEADER_OR_FOLLOWER, or UNKNOWN_TOPIC_OR_PARTITION."""
        lead = self._leads.pop(key, None)
        if lead is not None:
            lead.end(deleted=deleted)

    def state_seen(self, key: TopicPartition, state: PartitionState) -> None:
        """The partition's state node holds ``state``, or held it. With another leader or a newer
        epoch the lead is lost: nothing is appended from then on, and what waits is answered."""
        lead = self._leads.get(key)
        if lead is not None:
            # Brokers first: one that leaves, and that the controller has taken out of the ISR,
            # would be taken in again.
            lead.looked_over(self._brokers)
            lead.seen(state)

    def configured(self, key: TopicPartition, assignment: Assignment, min_insync: int) -> None:
        """The partition's assignment and its topic's ``min.insync.replicas`` as they are now."""
        lead = self._leads.get(key)
        if lead is not None:
            lead.configured(assignment, min_insync)

    def brokers_changed(self, brokers: Mapping[int, BrokerView]) -> None:
        """These are the registered brokers. The partitions hear of it in turns of the event
        loop."""
        self._brokers = dict(brokers)
        self._look.set()

    async def look_over(self) -> None:
        """Let every partition look at the time, and at the brokers."""
        async for lead in in_turns(tuple(self._leads.values()), _TURN):
            if not lead.is_over:
                lead.looked_over(self._brokers)

    def start(self) -> None:
        """Begin to look over the partitions, each second, and to write changes of ISRs."""
        for work in (self._look_over(), self.writer.run()):
            task = asyncio.create_task(work)
            task.add_done_callback(_ended)
            self._tasks.append(task)

    async def stop(self) -> None:
        """End. A write under way may still be done: it changes nothing but what was decided."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.bad_batches.stop()

    async def _look_over(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._look.wait()
            self._look.clear()
            await self.look_over()


def _ended(task: asyncio.Task[None]) -> None:
    """Log the error of a task that died."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("a task of the leader of replicas died", exc_info=error)
