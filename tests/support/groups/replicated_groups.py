"""Groups on a partition of ``__consumer_offsets`` with several replicas, without followers: the
test moves the high watermark, and takes and gives the lead. Requests go through the broker's
handlers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Final, cast

from replicated_shard import WALL, ReplicatedShard, partitions_of

from tallymark.broker.coordinators.state_log import append_batch
from tallymark.broker.groups.shard import GroupShard
from tallymark.broker.groups.shards import GroupShards
from tallymark.broker.metrics.error_codes import error_codes
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.state import BrokerState
from tallymark.groups.records import CommittedOffset, OffsetKey, encode_key, encode_value
from tallymark.groups.state import GroupsState
from tallymark.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tallymark.protocol.messages.k08_offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tallymark.protocol.messages.k09_offset_fetch import OffsetFetchRequestTopic
from tallymark.protocol.messages.k11_join_group import JoinGroupRequestProtocol
from tallymark.protocol.messages.k14_sync_group import SyncGroupRequestAssignment
from tallymark.protocol.schema import Message
from tallymark.protocol.topic_partition import OFFSETS_TOPIC

NO_DELAY: Final = BrokerSettings(group_initial_rebalance_delay_ms=0)
_CONNECTION: Final = cast(Any, SimpleNamespace(host="h", listener=""))


class ReplicatedGroups(ReplicatedShard[GroupShards]):
    """A broker's groups; :meth:`lead` first."""

    def __init__(self) -> None:
        super().__init__(OFFSETS_TOPIC, _CONNECTION)
        self.shards = GroupShards(NO_DELAY, lambda: WALL)
        partitions, nothing = partitions_of((OFFSETS_TOPIC, "t")), cast(Any, None)
        self.state = BrokerState(
            NO_DELAY, partitions, nothing, self.shards, lambda: WALL, nothing, nothing
        )

    # --- the lead, and the replicas

    async def lead(self, epoch: int = 0, known: int = 0) -> GroupShard:
        """:meth:`lead_of`, and the groups are loaded."""
        await self.shards.take(self.lead_of(epoch, known))
        return self.shard

    @property
    def shard(self) -> GroupShard:
        """The shard of all groups."""
        return self.shards.of("g", 1)

    def cut(self, offset: int) -> None:
        """This broker follows, and has records from ``offset`` on that the new leader has not."""
        self.log.truncate_to(offset, WALL)

    def copy(self, batches: bytes, epoch: int) -> None:
        """The records of the leader in ``epoch``."""
        self.log.append_leaders(batches, epoch, WALL)

    # --- requests

    async def ask(self, request: Message, version: int) -> Any:
        """A request whose answer leaves at once."""
        future = await self.start(request, version)
        assert future.done(), request
        return future.result()

    async def answered(self, waiting: asyncio.Future[Any]) -> Any:
        """The answer, which has to leave in the next turns of the event loop."""
        for _ in range(10):
            await asyncio.sleep(0)
        assert waiting.done()
        return waiting.result()

    async def stable(self, group: str = "g") -> str:
        """A group with one member in generation 1, all of it committed; returns the member's id."""
        joined = await self.ask(join(group), 3)
        assert error_codes(joined) == []
        synced = await self.start(sync(group, joined.member_id), 3)
        self.commit_all()
        assert error_codes(await self.answered(synced)) == []
        return joined.member_id  # type: ignore[no-any-return]


def join(group: str, member: str = "") -> JoinGroupRequest:
    """A member joins."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def sync(group: str, member: str, generation: int = 1) -> SyncGroupRequest:
    """The leader sends the assignment: all for itself."""
    part = SyncGroupRequestAssignment(member_id=member, assignment=b"all")
    return SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member, assignments=[part]
    )


def heartbeat(group: str, member: str, generation: int = 1) -> HeartbeatRequest:
    """A member reports that it is alive."""
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)


def commit(group: str, offset: int) -> OffsetCommitRequest:
    """A consumer without a member id commits an offset of partition 0 of topic t."""
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name="t", partitions=[part])],
    )


def fetch(group: str) -> OffsetFetchRequest:
    """What is the offset of partition 0 of topic t?"""
    asked = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    return OffsetFetchRequest(group_id=group, topics=[asked])


def fetched(answer: Any) -> int:
    """The offset in the answer to :func:`fetch`."""
    return int(answer.topics[0].partitions[0].committed_offset)


def batch_of(epoch: int, base: int, group: str, offset: int) -> bytes:
    """A batch as another leader writes it: a commit of ``offset``, at offset ``base`` of the
    log."""
    other = ReplicatedGroups()
    other.log.truncate_fully_and_start_at(base, WALL)
    partition = other.lead_of(epoch, base)
    record = (encode_key(OffsetKey(group, "t", 0)), encode_value(CommittedOffset(offset)))
    append_batch(partition, GroupsState(), [record], WALL)
    return bytes(other.log.read(base, 10**6).read())
