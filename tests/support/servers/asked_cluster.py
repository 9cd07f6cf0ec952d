"""What is asked about partitions of a cluster of several brokers, of ours or of Apache Kafka."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from eventually import eventually

from tallymark.protocol.messages import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)
from tallymark.testing.wire import WireClient

T = TypeVar("T")


class AskedCluster:
    """A subclass has brokers."""

    def living(self) -> Sequence[str]:
        """``host:port`` of the brokers whose processes are there now."""
        raise NotImplementedError

    def partition(self, topic: str) -> MetadataResponsePartition:
        """Partition 0 of the topic as the first broker that answers has it."""
        for address in self.living():
            with contextlib.suppress(OSError), WireClient(address, timeout=2) as wire:
                request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
                partitions = wire.ask(request, 12).topics[0].partitions
                if partitions:
                    return partitions[0]
        return MetadataResponsePartition(leader_id=-1)

    def leader(self, topic: str) -> int:
        """The broker that leads the topic's partition, when there is one."""
        return wait_for(
            lambda: leader if (leader := self.partition(topic).leader_id) >= 0 else None,
            f"a leader of {topic}",
        )

    def followers(self, topic: str) -> list[int]:
        """The other replicas."""
        leader = self.leader(topic)
        return [node for node in self.partition(topic).replica_nodes if node != leader]

    def wait_until_whole(self, topic: str) -> None:
        """Until the ISR has all replicas."""

        def is_whole() -> bool:
            found = self.partition(topic)
            return bool(found.replica_nodes) and set(found.isr_nodes) == set(found.replica_nodes)

        wait_for(is_whole, f"the whole ISR of {topic}")


def wait_for(look: Callable[[], T | None], what: str, seconds: float = 60) -> T:
    """What ``look`` returns once that is true."""
    found = eventually(look, seconds=seconds, what=what, every=0.05)
    assert found is not None
    return found
