"""A simulated consumer: reads all partitions in order, checks the epochs as KIP-320 says, and
commits offsets for a group of its own."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from tallymark.client.reading.committed import AbortedTransaction, committed
from tallymark.errors import CODES, TallymarkError
from tallymark.protocol.messages import (
    FetchRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from tallymark.protocol.messages.k01_fetch import (
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponsePartition,
)
from tallymark.protocol.messages.k02_list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from tallymark.protocol.messages.k08_offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tallymark.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tallymark.protocol.records.batch import Batch, split_batches
from tallymark.testing.simulation.caller import Caller
from tallymark.testing.simulation.history import History

_OUT_OF_RANGE: Final = CODES["OFFSET_OUT_OF_RANGE"]
_LATEST: Final = -1
_EARLIEST: Final = -2


class SimulatedConsumer:
    """Its history: ``polled`` (partition, offset, epoch, value), ``cut to`` (partition, offset:
    what it had read is no longer there), ``commits`` and then, where it was acknowledged,
    ``committed`` (partition, offset, coordinator),
    ``committed is`` (partition, offset, the one acknowledged last before the question,
    coordinator)."""

    def __init__(
        self, name: str, caller: Caller, partitions: int, chance: Random, history: History
    ) -> None:
        self.name = name
        self.ending = False
        self.committed_only = False
        """Whether it reads what is committed: then its records are ``read committed``, not
        ``polled``."""
        self.positions = dict.fromkeys(range(partitions), 0)
        self.acknowledged: dict[int, int] = {}
        """Partition -> the offset whose commit was acknowledged last."""
        self._epochs: dict[int, int] = {}
        self.caller = caller
        self._chance = chance
        self._history = history
        self._coordinator: int | None = None

    async def run(self) -> None:
        """Read until :attr:`ending` is set."""
        while not self.ending:
            for partition in self.positions:
                await self.poll(partition)
            if self._chance.random() < 0.3:
                await self.commit(self._chance.choice(list(self.positions)))
            if self._chance.random() < 0.1:
                await self.ask_committed(self._chance.choice(list(self.positions)))
        self.caller.close()

    async def poll(self, partition: int, wait_ms: int = 100) -> bool:
        """One fetch. Returns whether it was answered without an error."""
        led = await self.caller.leader(partition)
        if led is None:
            await self._pause(partition)
            return False
        position = self.positions[partition]
        wanted = FetchRequestPartition(
            partition=partition,
            current_leader_epoch=led.epoch,
            fetch_offset=position,
            last_fetched_epoch=self._epochs.get(partition, -1),
            partition_max_bytes=100_000,
        )
        topic = FetchRequestTopic(
            topic=self.caller.topic, topic_id=self.caller.topic_id, partitions=(wanted,)
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            isolation_level=int(self.committed_only),
            topics=(topic,),
        )
        try:
            answer = await self.caller.ask(led.broker, request)
        except TallymarkError:
            await self._pause(partition)
            return False
        if answer.error_code or not answer.responses:
            await self._pause(partition)
            return False
        return await self._take(partition, answer.responses[0].partitions[0])

    async def end_of(self, partition: int) -> int | None:
        """The offset after the last record, None where that is not known now."""
        return await self._list(partition, _LATEST)

    async def commit(self, partition: int) -> None:
        """Commit the position."""
        offset = self.positions[partition]
        coordinator = await self._find()
        if coordinator is None:
            return
        wanted = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        topic = OffsetCommitRequestTopic(
            name=self.caller.topic, topic_id=self.caller.topic_id, partitions=(wanted,)
        )
        request = OffsetCommitRequest(
            group_id=self.name, generation_id_or_member_epoch=-1, member_id="", topics=(topic,)
        )
        self._history.add(self.name, "commits", partition, offset, coordinator)
        try:
            answer = await self.caller.ask(coordinator, request)
        except TallymarkError:
            self._coordinator = None
            return
        if answer.topics[0].partitions[0].error_code:
            self._coordinator = None
            return
        self.acknowledged[partition] = offset
        self._history.add(self.name, "committed", partition, offset, coordinator)

    async def ask_committed(self, partition: int) -> bool:
        """Look at what is committed. Returns whether there was an answer."""
        coordinator = await self._find()
        if coordinator is None:
            return False
        before = self.acknowledged.get(partition, -1)
        topic = OffsetFetchRequestTopic(
            name=self.caller.topic, topic_id=self.caller.topic_id, partition_indexes=(partition,)
        )
        request = OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup(group_id=self.name, topics=(topic,)),)
        )
        try:
            answer = await self.caller.ask(coordinator, request)
        except TallymarkError:
            self._coordinator = None
            return False
        (group,) = answer.groups
        if group.error_code:
            self._coordinator = None
            return False
        (found,) = group.topics[0].partitions
        if found.error_code:
            return False
        # A commit of a lower offset, after a cut, may have come before the answer.
        before = min(before, self.acknowledged.get(partition, -1))
        self._history.add(
            self.name, "committed is", partition, found.committed_offset, before, coordinator
        )
        return True

    async def _take(self, partition: int, answer: FetchResponsePartition) -> bool:
        if answer.error_code == _OUT_OF_RANGE:
            await self._reset(partition)
            return False
        if answer.error_code:
            await self._pause(partition)
            return False
        if answer.diverging_epoch.end_offset >= 0:
            self._cut(partition, answer.diverging_epoch.end_offset)
            return False
        what = "read committed" if self.committed_only else "polled"
        batches = split_batches(answer.records or b"")
        for batch in self._visible(batches, answer):
            for record in batch.records():
                if record.offset >= self.positions[partition]:
                    value = (record.value or b"").decode().rstrip(".")
                    epoch = batch.header.partition_leader_epoch
                    self._history.add(self.name, what, partition, record.offset, epoch, value)
        for batch in batches:
            if batch.header.next_offset > self.positions[partition]:
                self.positions[partition] = batch.header.next_offset
                self._epochs[partition] = batch.header.partition_leader_epoch
        return True

    def _visible(self, batches: list[Batch], answer: FetchResponsePartition) -> list[Batch]:
        if self.committed_only:
            told = answer.aborted_transactions or ()
            aborted = [AbortedTransaction(each.producer_id, each.first_offset) for each in told]
            batches = committed(batches, aborted)
        return [batch for batch in batches if not batch.header.is_control]

    async def _reset(self, partition: int) -> None:
        """The position is outside of the log: a power failure has taken its end."""
        end = await self._list(partition, _LATEST)
        if end is None:
            return
        self._cut(partition, min(end, self.positions[partition]))

    def _cut(self, partition: int, offset: int) -> None:
        self._history.add(self.name, "cut to", partition, offset)
        self.positions[partition] = min(offset, self.positions[partition])
        self._epochs.pop(partition, None)
        self.caller.forget(partition)

    async def _list(self, partition: int, timestamp: int) -> int | None:
        led = await self.caller.leader(partition)
        if led is None:
            await self._pause(partition)
            return None
        wanted = ListOffsetsRequestPartition(partition_index=partition, timestamp=timestamp)
        topic = ListOffsetsRequestTopic(name=self.caller.topic, partitions=(wanted,))
        try:
            request = ListOffsetsRequest(isolation_level=int(self.committed_only), topics=(topic,))
            answer = await self.caller.ask(led.broker, request)
        except TallymarkError:
            await self._pause(partition)
            return None
        found = answer.topics[0].partitions[0]
        if found.error_code:
            await self._pause(partition)
            return None
        return found.offset

    async def _find(self) -> int | None:
        if self._coordinator is None:
            answer = await self.caller.ask_any(
                FindCoordinatorRequest(key_type=0, coordinator_keys=(self.name,))
            )
            (found,) = answer.coordinators
            if found.error_code:
                await asyncio.sleep(0.1)
                return None
            self._coordinator = found.node_id
        return self._coordinator

    async def _pause(self, partition: int) -> None:
        self.caller.forget(partition)
        await asyncio.sleep(self._chance.uniform(0.02, 0.2))
