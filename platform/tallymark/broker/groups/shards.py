"""The partitions of ``__consumer_offsets`` that this broker leads, and the groups in them. A broker
that becomes leader of one replays it from its start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tallymark.broker.groups.log import replay_log
from tallymark.broker.groups.shard import GroupShard
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.errors import CODES, KafkaError
from tallymark.groups.group import GroupConfig, Now
from tallymark.protocol.coordinator_partition import coordinator_partition

log = logging.getLogger(__name__)


class GroupShards:
    """The groups whose partition of ``__consumer_offsets`` is led here."""

    def __init__(self, settings: BrokerSettings, now_ms: Callable[[], int]) -> None:
        self._config = group_config(settings)
        self._now_ms = now_ms
        self._loading: dict[int, _Loading] = {}
        self._shards: dict[int, GroupShard] = {}

    async def take(self, partition: Partition) -> None:
        """Take over a partition. Until its log is replayed, requests about its groups are answered
        with COORDINATOR_LOAD_IN_PROGRESS."""
        index = partition.index
        loading = self._loading[index] = _Loading(partition)
        try:
            state = await asyncio.to_thread(replay_log, partition.log)
            shard = GroupShard(partition, state, self._config, self._now)
            await put_in_force(shard)
            if self._loading.get(index) is not loading:
                shard.close()  # given up meanwhile
                return
            for topic in loading.deleted:
                _forget(shard, topic)
            self._shards[index] = shard
        finally:
            # After an error, too: the broker does not coordinate a partition that it cannot load,
            # and clients look for another broker.
            if self._loading.get(index) is loading:
                del self._loading[index]
        log.info(
            "groups loaded partition=%s groups=%d end=%d",
            partition,
            len(state.groups()),
            partition.log.end_offset,
        )

    def give_up(self, partition: Partition) -> None:
        """Stop coordinating a partition: parked requests of its groups are answered."""
        loading = self._loading.get(partition.index)
        if loading is not None and loading.partition is partition:
            del self._loading[partition.index]
        shard = self._shards.get(partition.index)
        if shard is not None and shard.partition is partition:
            del self._shards[partition.index]
            shard.close()

    def close(self) -> None:
        """Give up all partitions: the broker stops."""
        self._loading.clear()
        shards, self._shards = self._shards, {}
        for shard in shards.values():
            shard.close()

    def of(self, group: str, partitions: int) -> GroupShard:
        """The shard of a group, where the topic has ``partitions`` partitions.

        Raises NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        index = coordinator_partition(group, partitions)
        if index in self._loading:
            raise KafkaError(CODES["COORDINATOR_LOAD_IN_PROGRESS"], f"group {group}")
        try:
            return self._shards[index]
        except KeyError:
            raise KafkaError(CODES["NOT_COORDINATOR"], f"group {group}") from None

    @property
    def loading(self) -> bool:
        """Whether a partition is still being replayed, so that some groups are not known yet."""
        return bool(self._loading)

    def shards(self) -> Iterator[GroupShard]:
        """Every partition whose log is replayed."""
        return iter(tuple(self._shards.values()))

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted: delete the offsets that groups committed on it."""
        for loading in self._loading.values():
            loading.deleted.add(topic)
        for shard in self.shards():
            _forget(shard, topic)

    def _now(self) -> Now:
        return Now(int(asyncio.get_running_loop().time() * 1000), self._now_ms())


@dataclass(slots=True, eq=False)
class _Loading:
    """A partition that is being replayed. ``deleted``: topics that were deleted since the replay
    began; their commits may have been read before. Later replays must not use this set: a new topic
    may have the same name."""

    partition: Partition
    deleted: set[str] = field(default_factory=set[str])


async def put_in_force(shard: GroupShard) -> None:
    """Activate the replayed groups: this broker coordinates them from now on."""
    try:
        await shard.take_over()
    except BaseException:
        shard.close()  # otherwise its timers would still decide about groups of another broker
        raise


def _forget(shard: GroupShard, topic: str) -> None:
    """Delete the topic's offsets in one shard. If the disk of that partition has failed, only log
    it, so that the other shards delete theirs."""
    try:
        shard.forget_topic(topic)
    except KafkaError as error:
        log.error("%s: offsets of the deleted topic %s stay: %s", shard.partition, topic, error)


def group_config(settings: BrokerSettings) -> GroupConfig:
    """The limits of groups from the broker's settings."""
    return GroupConfig(
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        max_size=settings.group_max_size,
        max_protocol_bytes=settings.message_max_bytes,
    )
