"""Reports that ZooKeeper has lost states of partitions with several replicas.

Its data may have been put back from an older copy. Then a state names a leader in an epoch that is
in a log already, and members of an ISR that is not the last one::

    the log     epochs 0 .. 5        the state     leader epoch 2, isr 1,2,3: as it was in the copy
                                                       │
    this broker neither leads nor follows in it ───────┘   it writes: no leader, epoch 5, and each
                                                           replica is incomplete
    the controller waits for all replicas, asks where their logs end, and the longest leads in
    epoch 6, as after an unclean election: reported, and what is cut is saved aside
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tallymark.broker.metadata.port import StateWriter
from tallymark.coordination.replicas.writing import Fate
from tallymark.log import Log
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.isr_change import epochs_lost
from tallymark.replication.model import ChangeState, PartitionView, Tail

log: Final = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
_ATTEMPTS: Final = 30


class LostEpochs:
    """What broker ``me`` reports. Belongs to the event loop."""

    def __init__(self, me: int, writer: StateWriter) -> None:
        self._me = me
        self._writer = writer
        self._writing: dict[TopicPartition, asyncio.Task[None]] = {}

    def found(self, key: TopicPartition, view: PartitionView, found: Log, epoch: int) -> None:
        """The log of the partition was in leader epoch ``epoch`` before the state of ``view``."""
        state, own = view.state, Tail(found.latest_epoch, found.end_offset)
        log.error(
            "leader epochs are lost partition=%s-%d log_epoch=%d epoch=%d leader=%d: ZooKeeper's"
            " data are an older copy; the longest log leads when all of its replicas %s are up",
            *key,
            epoch,
            state.leader_epoch,
            state.leader,
            list(view.assignment.replicas),
        )
        if (before := self._writing.pop(key, None)) is not None:
            before.cancel()
        change = epochs_lost(key, view, self._me, own, epoch)
        task = asyncio.create_task(self._write(change), name=f"report lost epochs of {key}")
        self._writing[key] = task
        task.add_done_callback(lambda _: self._ended(key, task))

    async def stop(self) -> None:
        """Write nothing any more."""
        tasks = list(self._writing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: TopicPartition, task: asyncio.Task[None]) -> None:
        if self._writing.get(key) is task:
            del self._writing[key]

    async def _write(self, change: ChangeState) -> None:
        """Until it is written, or the node is of another version: then an image comes with it. The
        first image of a broker is not applied yet when this begins."""
        why = ""
        for _ in range(_ATTEMPTS):
            (outcome,) = await self._writer.write_states([change])
            state, why = outcome.state, outcome.why
            if outcome.fate is Fate.DONE or (
                state is not None and state.version != change.expected
            ):
                return
            await asyncio.sleep(RETRY_SECONDS)
        log.error(
            "lost leader epochs of %s-%d are not written after %d attempts: %s; restart this broker"
            " when ZooKeeper answers",
            *change.partition,
            _ATTEMPTS,
            why,
        )
