"""What a broker coordinates, on one partition of its own topic with several replicas, without
followers: the test moves the high watermark, takes and gives the lead, and sends requests to the
broker's handlers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from tallymark.broker.handlers import served
from tallymark.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.requests.registry import Call
from tallymark.broker.state import BrokerState
from tallymark.log import Log, LogConfig
from tallymark.protocol.schema import Message
from tallymark.testing.memory_files import MemoryFiles

WALL: Final = 3_600_000_000
"""The time at which everything happens, ms."""


class _Shards(Protocol):
    async def take(self, partition: Partition) -> None: ...
    def give_up(self, partition: Partition) -> None: ...


S = TypeVar("S", bound=_Shards)


class ReplicatedShard(Generic[S]):
    """Use it on an event loop. Subclasses set ``state`` and ``shards``."""

    TURNS = 5
    """Of the event loop, that a request may take without the followers."""
    state: BrokerState
    shards: S
    partition: Partition

    def __init__(self, topic: str, connection: Any) -> None:
        """``connection`` is the client's."""
        self._topic, self._connection = topic, connection
        folder, files = f"/d/{topic}-0", MemoryFiles()
        files.make_dirs(folder)
        files.sync_dir("/")
        files.sync_dir("/d")
        config = LogConfig(retention_ms=-1)
        self.log = Log.open(files, folder, config, clean=False, now_ms=WALL)

    def lead_of(self, epoch: int, known: int) -> Partition:
        """This broker leads, in ``epoch``; the high watermark is ``known`` at first."""
        if epoch > self.log.latest_epoch:
            self.log.start_epoch(epoch)
        self.follow(epoch, known)
        return self.partition

    def follow(self, epoch: int, known: int) -> None:
        """Another broker leads, in ``epoch``: the same log, with a high watermark of its own."""
        self.partition = Partition(self._topic, 0, uuid.UUID(int=1), self.log, epoch)
        self.partition.begin_replicated(known)

    def commit_all(self) -> None:
        """The followers have all records."""
        self.partition.commit(self.log.end_offset)

    def lose(self) -> None:
        """Another broker leads."""
        self.partition.withdraw()
        self.shards.give_up(self.partition)

    async def start(self, request: Message, version: int) -> asyncio.Future[Any]:
        """Send a request. The future is done where the answer has left in the same turn, or, for
        those that look at many groups, in the next ones."""
        handle = next(a.handle for a in served().values() if a.request_class is type(request))
        assert handle is not None
        result = handle(self.state, request, Call(version, "c", self._connection))
        if isinstance(result, Awaitable):
            task = asyncio.ensure_future(result)
            await turns(self.TURNS)
            return task
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(result)
        return future


def partitions_of(topics: Sequence[str]) -> Partitions:
    """The broker's partitions, in whose image each topic has one of three replicas."""
    one = PartitionImage.of(1, 0, (1, 2, 3), (1, 2, 3))
    found = {
        name: TopicImage(name, uuid.UUID(int=number), (one,))
        for number, name in enumerate(topics, 1)
    }
    partitions = Partitions()
    partitions.image = MetadataImage("c", 1, {}, found)
    return partitions


async def turns(count: int = 20) -> None:
    """Some turns of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def run(story: Awaitable[None]) -> None:
    """Run a test's story on an event loop; it fails if that takes 20 seconds."""

    async def bounded() -> None:
        await asyncio.wait_for(story, 20)

    asyncio.run(bounded())
