"""The partitions of a coordinator's topic that this broker coordinates: those that it leads. A
broker that becomes leader of one replays it from its start.

Which leader epoch a message is about decides, not which partition: a lead may be lost and regained
while the log of the first one is still being replayed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from tallymark.broker.coordinators.refusals import LOADING, NOT_COORDINATOR
from tallymark.broker.coordinators.replayed import ReplayedState
from tallymark.broker.coordinators.state_log import Replays, replay_log
from tallymark.broker.metrics.counters import CoordinatorMetrics
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.yielding import Slices, turn_of
from tallymark.errors import KafkaError
from tallymark.protocol.coordinator_partition import coordinator_partition

log = logging.getLogger(__name__)


class Shard(Protocol):
    """What this broker coordinates in one partition, in one leader epoch."""

    @property
    def partition(self) -> Partition:
        """The partition; its leader epoch is the shard's."""
        ...

    async def take_over(self) -> None:
        """Begin: set timers, decide what is due. Answers may be asked from now on."""
        ...

    def close(self) -> None:
        """The lead is lost: answer everything that waits with NOT_COORDINATOR, and decide nothing
        any more. Idempotent."""
        ...


T = TypeVar("T", bound=Shard)
S = TypeVar("S", bound=Replays)


class Shards(Generic[T, S]):
    """The shards of one topic, by the partition's index. ``empty`` makes the state of an empty log,
    ``make`` the shard of a state that is replayed. ``kind`` is for log lines. Belongs to the event
    loop."""

    def __init__(
        self,
        kind: str,
        empty: Callable[[], S],
        make: Callable[[ReplayedState[S]], T],
        metrics: CoordinatorMetrics,
    ) -> None:
        self.metrics = metrics
        self._kind = kind
        self._empty = empty
        self._make = make
        self._loading: dict[int, _Loading[T]] = {}
        self._shards: dict[int, T] = {}

    async def take(self, partition: Partition) -> None:
        """This broker leads ``partition``, in its epoch. Until its log is replayed, requests are
        answered with COORDINATOR_LOAD_IN_PROGRESS. An older epoch ends. Raises what a log that
        cannot be read raises: then the broker does not coordinate the partition, and clients look
        for another one."""
        index, epoch = partition.index, partition.leader_epoch
        if self._newest(index) > epoch:
            log.info("%s not loaded partition=%s epoch=%d: led anew", self._kind, partition, epoch)
            return
        self.give_up(partition)
        loading = self._loading[index] = _Loading[T](partition)
        try:
            await self._load(loading)
        except KafkaError as error:
            if self._loading.get(index) is loading:
                self.metrics.load_failures += 1
                raise
            # The new leader's records replace what was read here.
            log.info("%s not loaded partition=%s: lead lost: %s", self._kind, partition, error)
        finally:
            if self._loading.get(index) is loading:
                del self._loading[index]

    async def _load(self, loading: _Loading[T]) -> None:
        partition, index = loading.partition, loading.partition.index
        loop = asyncio.get_running_loop()
        clock = loop.time
        began = clock()

        def wanted() -> bool:
            return self._loading.get(index) is loading

        look = Slices(clock, turn_of(loop)).look
        state = await asyncio.to_thread(replay_log, partition.log, self._empty(), wanted, look)
        if not wanted():
            return
        replayed = ReplayedState(partition, state, self.metrics)
        shard = self._make(replayed)
        await put_in_force(shard)
        if not wanted():
            shard.close()
            return
        for do in loading.afterwards:
            do(shard)
        self._shards[index] = shard
        took = clock() - began
        self.metrics.loaded(took)
        log.info(
            "%s loaded partition=%s epoch=%d end=%d high_watermark=%d seconds=%.3f",
            self._kind,
            partition,
            partition.leader_epoch,
            replayed.end,
            partition.high_watermark,
            took,
        )

    def _newest(self, index: int) -> int:
        led = [each.partition.leader_epoch for each in self._of(index)]
        return max(led, default=-1)

    def _of(self, index: int) -> Iterator[_Loading[T] | T]:
        if index in self._loading:
            yield self._loading[index]
        if index in self._shards:
            yield self._shards[index]

    def give_up(self, partition: Partition) -> None:
        """This broker does not lead the partition any more in the epoch of ``partition``, nor in
        an older one: everything that waits is answered. A newer epoch is not touched, nor is
        anything by a partition of another topic."""
        index = partition.index
        loading, shard = self._loading.get(index), self._shards.get(index)
        if loading is not None and _ends(loading.partition, partition):
            del self._loading[index]
        if shard is not None and _ends(shard.partition, partition):
            del self._shards[index]
            shard.close()

    def close(self) -> None:
        """Give up all partitions: the broker stops."""
        self._loading.clear()
        shards, self._shards = self._shards, {}
        for shard in shards.values():
            shard.close()

    def of(self, key: str, partitions: int) -> T:
        """The shard of a group (or another key), where the topic has ``partitions`` partitions.

        Raises NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        return self.at(coordinator_partition(key, partitions), key)

    def at(self, index: int, key: str = "") -> T:
        """The shard of a partition; as :meth:`of`. ``key`` is for the error."""
        if index in self._loading:
            raise KafkaError(LOADING, f"{self._kind} {key or index}")
        try:
            return self._shards[index]
        except KeyError:
            raise KafkaError(NOT_COORDINATOR, f"{self._kind} {key or index}") from None

    @property
    def loading(self) -> bool:
        """Whether a partition is still being replayed, so that some of its keys are not known
        yet."""
        return bool(self._loading)

    def shards(self) -> Iterator[T]:
        """Every partition whose log is replayed."""
        return iter(tuple(self._shards.values()))

    def each(self, do: Callable[[T], None]) -> None:
        """Do something in every shard; in those that are being loaded, when they are. A shard that
        is loaded later does not get it."""
        for loading in self._loading.values():
            loading.afterwards.append(do)
        for shard in self.shards():
            do(shard)


@dataclass(slots=True, eq=False)
class _Loading(Generic[T]):
    """A partition that is being replayed. ``afterwards``: what has to be done in it since; the
    replay may have read what was before."""

    partition: Partition
    afterwards: list[Callable[[T], None]] = field(default_factory=list[Callable[[T], None]])


async def put_in_force(shard: Shard) -> None:
    """Begin to coordinate what was replayed."""
    try:
        await shard.take_over()
    except BaseException:
        shard.close()  # otherwise its timers would still decide what is another broker's
        raise


def _ends(mine: Partition, given_up: Partition) -> bool:
    return mine.topic == given_up.topic and mine.leader_epoch <= given_up.leader_epoch
