"""Elections that an operator asks for, for the event loop.

Decisions and writes are :class:`tallymark.coordination.replicas.electing.Elector`'s, in the thread
for ZooKeeper. Where no replica surely has everything, brokers are asked in between where their logs
end, on the loop: no thread waits for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from tallymark.broker.metadata.port import Membership
from tallymark.coordination import ZooKeeper
from tallymark.coordination.replicas.electing import Elector
from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.election import Kind

T = TypeVar("T")


class RunsThere(Protocol):
    """Runs a command in the thread for ZooKeeper."""

    def __call__(self, command: Callable[[], T], /) -> Awaitable[T]: ...


async def elect_leaders(
    zookeeper: ZooKeeper,
    membership: Membership,
    kind: Kind,
    partitions: Sequence[TopicPartition],
    run: RunsThere,
    now_ms: Callable[[], int],
) -> Mapping[TopicPartition, KafkaError]:
    """See :meth:`~tallymark.broker.metadata.port.Cluster.elect_leaders`."""
    elector = Elector(zookeeper, now_ms, membership.defaults())
    first = await run(lambda: elector.elect(kind, partitions))
    if not first.ask:
        return first.failed
    tails = await membership.asker.tails(first.views, first.ask)
    second = await run(lambda: elector.elect(kind, list(first.ask), tails))
    return {**first.failed, **second.failed}
