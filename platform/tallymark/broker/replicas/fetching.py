"""All partitions that this broker follows, and the fetchers that copy them.

A leader has ``num.replica.fetchers`` connections; a partition belongs to one of them, so its
answers come in order. A fetcher lives as long as something is followed through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from tallymark.broker.connections.port import BrokerConnections
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.cutting import ReplicaCutter
from tallymark.broker.replicas.fetch_settings import FetchSettings, slot_of
from tallymark.broker.replicas.fetcher import Fetcher
from tallymark.broker.replicas.followed import FollowedPartition
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.throttle import ReplicationThrottle

_Slot: TypeAlias = tuple[int, int]
"""Leader, number of the connection."""


class Followers:
    """Those of one broker, ``me``. Belongs to the event loop."""

    def __init__(
        self,
        me: int,
        connections: BrokerConnections,
        cutter: ReplicaCutter,
        settings: FetchSettings,
        now_ms: Callable[[], int],
        is_throttled: Callable[[TopicPartition], bool] = lambda _: False,
    ) -> None:
        self.throttle = ReplicationThrottle(None, now_ms())
        """``follower.replication.throttled.rate``."""
        self._me = me
        self._connections = connections
        self._cutter = cutter
        self._settings = settings
        self._now_ms = now_ms
        self._is_throttled = is_throttled
        self._epoch = -1
        self._followed: dict[TopicPartition, tuple[FollowedPartition, Fetcher]] = {}
        self._fetchers: dict[_Slot, Fetcher] = {}

    def __iter__(self) -> Iterator[FollowedPartition]:
        return (followed for followed, _ in tuple(self._followed.values()))

    def follow(self, partition: Partition, leader: int) -> None:
        """Copy the partition from broker ``leader``, in the partition's leader epoch. The one
        before is to be ended first (:meth:`unfollow`)."""
        followed = FollowedPartition(
            partition,
            leader,
            self._cutter,
            self._now_ms,
            self._settings.replica_fetch_backoff_ms,
        )
        assert followed.key not in self._followed, f"{partition} is followed already"
        slot = leader, slot_of(followed.key, self._settings)
        fetcher = self._fetchers.get(slot)
        if fetcher is None:
            fetcher = self._fetchers[slot] = Fetcher(
                self._me,
                leader,
                self._connections,
                self._settings,
                self._now_ms,
                lambda: self._epoch,
                self.throttle,
                self._is_throttled,
            )
        self._followed[followed.key] = followed, fetcher
        fetcher.add(followed)

    async def unfollow(self, keys: Iterable[TopicPartition]) -> None:
        """Stop copying these. On return nothing of them is being appended or cut."""
        gone = [self._followed.pop(key) for key in keys if key in self._followed]
        for followed, fetcher in gone:
            fetcher.drop(followed)
        for followed, _ in gone:
            await followed.end()
        idle = [slot for slot, fetcher in self._fetchers.items() if not len(fetcher)]
        await asyncio.gather(*(self._fetchers.pop(slot).stop() for slot in idle))

    def registered(self, epoch: int) -> None:
        """This broker is registered under ``epoch``: each Fetch says so from now on. -1: it is not
        registered, and copies nothing."""
        self._epoch = epoch
        for fetcher in self._fetchers.values():
            fetcher.wake()

    async def stop(self) -> None:
        """Copy nothing any more. On return nothing is being appended or cut."""
        await self.unfollow(tuple(self._followed))
