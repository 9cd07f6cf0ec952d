"""A follower got a corrupt batch: is it the disk of the leader, or the way between the two?

::

    a follower's Fetch names the offset ──▶ the leader reads its own bytes again, in a thread
                                              good: a line in the log; the follower asks again
                                              bad:  another member of the ISR could lead ─▶ resign
                                                    none could: lead on, until there is one

A report alone never makes a leader resign: its own bytes must be wrong. It leaves the ISR with
the offset as the end of what it has for sure, and no broker leads: the controller elects another
member. As its follower this broker cuts its log at that offset and copies the rest again
(:meth:`tallymark.replication.following.Following.begin`), and is in the ISR again only then: so it
resigns once for each corrupt batch. That it has to copy is known to the running process only: one
that is killed in between has the corrupt batch still, and it is found as this one was.

The follower names a batch with each ask until it has a good one. One partition is looked at once a
second for each follower, one batch of the broker at a time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from tallymark.errors import CODES, KafkaError
from tallymark.log import Log
from tallymark.log.disk.health import is_of_the_disk
from tallymark.log.validation.leader_batches import Follows, check_leader_batches
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import UNKNOWN_EPOCH

if TYPE_CHECKING:
    from tallymark.broker.replicas.lead import ReplicatedLead

log: Final = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 1.0
_CORRUPT: Final = CODES["CORRUPT_MESSAGE"]


class BadBatches:
    """The looks of one broker. Belongs to the event loop."""

    def __init__(self) -> None:
        self._looking: dict[TopicPartition, asyncio.Task[None]] = {}
        self._one_looks = asyncio.Lock()
        self._good: dict[tuple[TopicPartition, int], tuple[int, float]] = {}
        """By follower, the offset that was found good last, and when (loop time)."""

    def named(self, lead: ReplicatedLead, broker: int, offset: int) -> None:
        """A follower got a corrupt batch at ``offset`` of the partition."""
        key = (lead.partition.topic, lead.partition.index)
        _, when = self._good.get((key, broker), (-1, float("-inf")))
        is_known = asyncio.get_running_loop().time() - when < AGAIN_SECONDS
        if is_known or key in self._looking or lead.leader.resigns:
            return
        task = asyncio.create_task(self._look(lead, broker, offset), name=f"look at {key} {offset}")
        self._looking[key] = task
        task.add_done_callback(lambda _: self._looking.pop(key, None))

    @property
    def is_busy(self) -> bool:
        """Whether a batch is being looked at."""
        return bool(self._looking)

    async def stop(self) -> None:
        """Look at nothing any more."""
        tasks = list(self._looking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, lead: ReplicatedLead, broker: int, offset: int) -> None:
        partition = lead.partition
        async with self._one_looks:
            fault = await asyncio.to_thread(fault_at, partition.log, offset)
        if lead.is_over:
            return
        if fault is not None:
            log.error(
                "a batch is corrupt on this disk partition=%s offset=%d, as broker %d found: %s; "
                "tallymark verify-log finds what else is bad",
                *(partition, offset, broker, fault),
            )
            lead.found_corrupt(offset)
            return
        key = (partition.topic, partition.index), broker
        known, _ = self._good.get(key, (-1, 0.0))
        self._good[key] = (offset, asyncio.get_running_loop().time())
        log.log(
            logging.DEBUG if known == offset else logging.WARNING,
            "broker %d got a corrupt batch partition=%s offset=%d: it is good on this disk; "
            "look at the network between the two, and at the memory of that machine",
            *(broker, partition, offset),
        )


def fault_at(target: Log, offset: int) -> str | None:
    """What is wrong with the batch at ``offset`` on this disk; None: it is good, or not there any
    more. It has to be wrong twice: between two looks compaction may have replaced the segment.
    Blocks; any thread may call it."""
    return _fault_at(target, offset) and _fault_at(target, offset)


def _fault_at(target: Log, offset: int) -> str | None:
    try:
        data = target.read(offset, 1).read()
    except KafkaError as error:
        return str(error) if error.code == _CORRUPT or target.is_offline else None
    except (EOFError, OSError) as error:
        return str(error) if isinstance(error, EOFError) or is_of_the_disk(error) else None
    if not data:
        return None
    # A follower may name an offset inside of a batch: that is no fault of the batch.
    asked = Follows(target.name, offset, UNKNOWN_EPOCH, target.latest_epoch, empty=True)
    _, fault = check_leader_batches(data, asked)
    return None if fault is None else str(fault)
