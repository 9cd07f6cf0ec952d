"""ElectLeaders waits no longer than its client."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from tallymark.broker.handlers.k43_elect_leaders import handle
from tallymark.broker.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tallymark.broker.security.authorizer import AllowAll
from tallymark.broker.timed_changes import TimedChanges
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import ElectLeadersRequest, ElectLeadersRequestTopic
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.election import Kind


class SlowCluster:
    """Brokers that have to tell where their logs end do not answer soon."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()
        self.elected: list[TopicPartition] = []

    async def elect_leaders(
        self, kind: Kind, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, KafkaError]:
        await self.answer.wait()
        self.elected += partitions
        return {}


def state_with(cluster: SlowCluster) -> Any:
    one = PartitionImage.of(-1, 3, (1, 2), (1,))
    topic = TopicImage("t", uuid.UUID(int=1), (one,))
    image = MetadataImage("c", brokers={2: BrokerImage(2, {})}, topics={"t": topic})
    return SimpleNamespace(
        authorizer=AllowAll(), image=image, cluster=cluster, timed_changes=TimedChanges()
    )


def test_an_election_that_takes_long_is_reported_as_such_and_goes_on() -> None:
    async def run() -> None:
        cluster = SlowCluster()
        state = state_with(cluster)
        request = ElectLeadersRequest(
            election_type=1,
            topic_partitions=[ElectLeadersRequestTopic(topic="t", partitions=[0])],
            timeout_ms=50,
        )
        call = cast(Any, SimpleNamespace(connection=None))
        answer = await handle(state, request, call)
        (one,) = answer.replica_election_results[0].partition_result
        assert one.error_code == CODES["REQUEST_TIMED_OUT"]
        assert not cluster.elected
        cluster.answer.set()
        async with asyncio.timeout(20):
            while not cluster.elected:
                await asyncio.sleep(0)
        assert cluster.elected == [("t", 0)]
        answer = await handle(state, request, call)
        (one,) = answer.replica_election_results[0].partition_result
        assert one.error_code == 0

    asyncio.run(run())
