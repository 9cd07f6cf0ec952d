"""The partitions of ``__consumer_offsets`` that this broker leads, and the groups in them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tallymark.broker.coordinators.replayed import ReplayedState
from tallymark.broker.coordinators.shards import Shards
from tallymark.broker.groups.shard import GroupShard
from tallymark.broker.metrics.counters import CoordinatorMetrics
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.errors import KafkaError
from tallymark.groups.group import GroupConfig, Now
from tallymark.groups.state import GroupsState

log = logging.getLogger(__name__)


class GroupShards(Shards[GroupShard, GroupsState]):
    """The groups whose partition of ``__consumer_offsets`` is led here."""

    def __init__(self, settings: BrokerSettings, now_ms: Callable[[], int]) -> None:
        super().__init__("groups", GroupsState, self._shard_of, CoordinatorMetrics())
        self._config = group_config(settings)
        self._now_ms = now_ms

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted: delete the offsets that groups committed on it. Later replays must
        not do that: a new topic may have the same name."""

        def forget(shard: GroupShard) -> None:
            try:
                shard.forget_topic(topic)
            except KafkaError as error:  # the other shards delete theirs
                log.error("%s: offsets of deleted topic %s stay: %s", shard.partition, topic, error)

        self.each(forget)

    def _shard_of(self, replayed: ReplayedState[GroupsState]) -> GroupShard:
        return GroupShard(replayed, self._config, self._now)

    def _now(self) -> Now:
        return Now(int(asyncio.get_running_loop().time() * 1000), self._now_ms())


def group_config(settings: BrokerSettings) -> GroupConfig:
    """The limits of groups from the broker's settings."""
    return GroupConfig(
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        max_size=settings.group_max_size,
        max_protocol_bytes=settings.message_max_bytes,
    )
