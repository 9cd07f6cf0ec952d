"""All partitions that this broker follows, and the fetchers that copy them.

A leader has ``num.replica.fetchers`` connections; a partition belongs to one of them, so its
answers come in order. A fetcher lives as long as something is followed through it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from tallymark.broker.connections.port import BrokerConnections
from tallymark.broker.metrics.counters import FollowersNow
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.cutting import ReplicaCutter
from tallymark.broker.replicas.fetch_settings import FetchSettings, slot_of
from tallymark.broker.replicas.fetcher import Copying, Fetcher
from tallymark.broker.replicas.followed import FollowedPartition
from tallymark.broker.replicas.suspects import HearsOfConnections
from tallymark.errors import TABLE
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.throttle import ReplicationThrottle

_Slot: TypeAlias = tuple[int, int]
"""Leader, number of the connection."""


class Followers:
    """Those of one broker, ``me``. Belongs to the event loop. ``now_ms`` is the wall clock, for the
    logs; ``clock_ms`` a monotonic clock, for pauses, default: the loop's. ``is_throttled``:
    whether a partition counts for :attr:`throttle` now. ``suspects`` hears of leaders
    that refuse a connection, and of connections that end."""

    def __init__(
        self,
        me: int,
        connections: BrokerConnections,
        cutter: ReplicaCutter,
        settings: FetchSettings,
        now_ms: Callable[[], int],
        is_throttled: Callable[[TopicPartition], bool] = lambda _: False,
        suspects: HearsOfConnections | None = None,
        clock_ms: Callable[[], int] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        clock_ms = clock_ms or (lambda: int(loop.time() * 1000))
        self.throttle = ReplicationThrottle(None, clock_ms())
        """``follower.replication.throttled.rate``; see :meth:`set_throttle`."""
        self._copying = Copying(
            me, connections, settings, clock_ms, self.throttle, is_throttled, suspects
        )
        self._now_ms = now_ms
        self._cutter = cutter
        self._followed: dict[TopicPartition, tuple[FollowedPartition, Fetcher]] = {}
        self._fetchers: dict[_Slot, Fetcher] = {}
        self._is_stopped = False

    def __iter__(self) -> Iterator[FollowedPartition]:
        return (followed for followed, _ in tuple(self._followed.values()))

    def follow(self, partition: Partition, leader: int, *, is_member: bool = False) -> None:
        """Copy the partition from broker ``leader``, in the partition's leader epoch.
        ``is_member``: this broker is in the ISR.
        ``begin_replicated`` was called for it. The one before is to be ended first
        (:meth:`unfollow`); ValueError where it was not. After :meth:`stop` nothing is copied: an
        image may still be applied then."""
        if self._is_stopped:
            return
        copying = self._copying
        key = partition.topic, partition.index
        if key in self._followed:
            raise ValueError(f"{partition} is followed already")
        slot = leader, slot_of(key, copying.settings)
        fetcher = self._fetchers.get(slot)
        if fetcher is None:
            fetcher = self._fetchers[slot] = Fetcher(leader, copying)
        followed = FollowedPartition(
            partition,
            leader,
            self._cutter,
            self._now_ms,
            copying.clock_ms,
            copying.settings.replica_fetch_backoff_ms,
            fetcher.touch,
        )
        followed.is_member = is_member
        self._followed[key] = followed, fetcher
        fetcher.add(followed)

    async def unfollow(self, keys: Iterable[TopicPartition]) -> None:
        """Stop copying these; those that are not followed are left out. On return nothing of them
        is being appended or cut."""
        gone = [self._followed.pop(key) for key in set(keys) if key in self._followed]
        for followed, fetcher in gone:
            followed.cease()
            fetcher.drop(followed)
        busy = [followed for followed, _ in gone if followed.doing is not None]
        await asyncio.gather(*(followed.end() for followed in busy))
        idle = [slot for slot, fetcher in self._fetchers.items() if not len(fetcher)]
        await asyncio.gather(*[self._fetchers.pop(slot).stop() for slot in idle])

    def registered(self, epoch: int) -> None:
        """This broker is registered under ``epoch``: each Fetch says so from now on, sessions begin
        anew, and what was set aside is tried at once (STALE_BROKER_EPOCH). -1: it is not
        registered, and copies nothing."""
        if epoch == self._copying.epoch:
            return
        self._copying.epoch = epoch
        for followed in self:
            followed.retry()
        for fetcher in self._fetchers.values():
            fetcher.look_again()

    def set_throttle(self, rate: int | None) -> None:
        """``follower.replication.throttled.rate`` in bytes per second from now on, None for no
        limit; or which partitions it is for has changed."""
        self.throttle.set_rate(rate, self._copying.clock_ms())
        for fetcher in self._fetchers.values():
            fetcher.look_again()

    def now(self) -> FollowersNow:
        """For metrics."""
        aside = Counter[str]()
        lag = 0
        for followed in self:
            lag = max(lag, followed.lag or 0)
            if followed.aside is not None:
                row = TABLE.get(followed.aside.code)
                aside[row.name if row else str(followed.aside.code)] += 1
        count = len(self._fetchers)
        connected = sum(each.is_connected for each in self._fetchers.values())
        return FollowersNow(connected, count - connected, len(self._followed), aside, lag)

    async def stop(self) -> None:
        """Copy nothing any more. On return nothing is being appended or cut."""
        self._is_stopped = True
        await self.unfollow(tuple(self._followed))
