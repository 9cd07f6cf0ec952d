"""One follower of orders-0 and its scripted leader, both with real logs in memory."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from replica_broker import CONFIG, ReplicaBroker, batch
from scripted_leader import LeadersLog, ScriptedLeader

from tallymark.broker.maintenance.cleaner import Cleaner
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.cutting import ReplicaCutter
from tallymark.broker.replicas.fetch_settings import FetchSettings
from tallymark.broker.replicas.fetching import Followers
from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig
from tallymark.testing.memory_files import MemoryFiles

SETTINGS = FetchSettings(replica_fetch_wait_max_ms=1, replica_fetch_backoff_ms=1)
ME = 2
REGISTERED = 5


@dataclass
class Connections:
    """What the fetchers told of connections that went wrong: ids of leaders."""

    refusals: list[int] = field(default_factory=list[int])
    losses: list[int] = field(default_factory=list[int])

    def refused(self, broker: int) -> None:
        self.refusals.append(broker)

    def lost(self, broker: int) -> None:
        self.losses.append(broker)


class Copying:
    """``leaders`` is the partition as its leader has it; a test may stop the ``clock`` of the
    follower, which otherwise goes on by a second at each look, so that no pause is long."""

    def __init__(
        self, epoch: int = 0, config: LogConfig = CONFIG, settings: FetchSettings = SETTINGS
    ) -> None:
        self.follower = ReplicaBroker(MemoryFiles(), config)
        self.leader = ScriptedLeader()
        self.leaders = LeadersLog("orders", self.follower.partition.topic_id, epoch)
        self.leader.lead(self.leaders)
        self.settings = settings
        self.connections = Connections()
        self.throttled: set[tuple[str, int]] = set()
        self.clock = 0
        self.clock_runs = True

    @property
    def partition(self) -> Partition:
        return self.follower.partition

    def lead(self, *epochs: int) -> None:
        """Append a batch of each of these epochs to the leader's log, and be in the last one."""
        for epoch in epochs:
            found = self.leaders.log
            found.append_leaders(batch(found.end_offset, epoch), epoch, 0)
        self.leaders.epoch = max(self.leaders.epoch, *epochs)
        self.leaders.high_watermark = self.leaders.log.end_offset

    def run(self, work: Callable[[Followers], Awaitable[None]]) -> None:
        """``work`` with followers that copy the partition in the leader's present epoch."""

        async def with_cutter(cutter: ReplicaCutter, _: Cleaner) -> None:
            followers = Followers(
                ME,
                self.leader.connections,
                cutter,
                self.settings,
                lambda: 0,
                self.throttled.__contains__,
                self.connections,
                self.clock_ms,
            )
            followers.registered(REGISTERED)
            self.partition.leader_epoch = self.leaders.epoch
            followers.follow(self.partition, self.leader.id)
            try:
                await work(followers)
            finally:
                await followers.stop()

        self.follower.run(with_cutter)

    def clock_ms(self) -> int:
        self.clock += 1000 * self.clock_runs
        return self.clock

    def until_equal(self) -> None:
        self.run(lambda _: eventually(self.is_equal))

    def is_equal(self) -> bool:
        try:
            self.follower.log.check_usable()
        except KafkaError:
            return False  # it is being cut
        return content(self.follower.log) == content(self.leaders.log) and (
            self.partition.high_watermark == self.leaders.high_watermark
        )

    def another(self, name: str = "other", index: int = 0) -> Copying:
        """A second partition of the same leader, with one batch. It is not followed yet."""
        other = Copying()
        topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, name)
        other.leader = self.leader
        other.leaders = LeadersLog(name, topic_id, self.leaders.epoch, index)
        self.leader.lead(other.leaders)
        log = other.follower.manager.create(name, index, topic_id, 0)
        other.follower.log = log
        other.follower.partition = Partition(name, index, topic_id, log, self.leaders.epoch)
        other.follower.partition.begin_replicated(0)
        other.lead(self.leaders.epoch)
        return other


def content(log: Log) -> tuple[int, int, bytes, Any]:
    """Start, end, bytes and epochs."""
    data = b""
    at = log.start_offset
    while at < log.end_offset:
        found = log.read(at, 1 << 20)
        data += bytes(found.read())
        at = found.next_offset
    return log.start_offset, log.end_offset, data, log.epochs


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.001)
