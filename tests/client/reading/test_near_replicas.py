"""Where a client reads after a leader has named a follower (KIP-392)."""

from __future__ import annotations

from tallymark.client.core.metadata import Metadata
from tallymark.client.reading.nearer import NearReplicas
from tallymark.net.addresses import Address
from tallymark.protocol.messages import FetchResponse, FetchResponsePartition, FetchResponseTopic

HERE = Address("here", 1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def answer(broker: int) -> FetchResponse:
    part = FetchResponsePartition(partition_index=7, preferred_read_replica=broker)
    return FetchResponse(responses=[FetchResponseTopic(topic="t", partitions=[part])])


def name(topic: str, _: object) -> str:
    return topic


def known() -> Metadata:
    metadata = Metadata()
    metadata.brokers = {2: HERE}
    return metadata


def test_a_named_follower_is_read_until_the_leader_is_to_be_asked_again() -> None:
    clock = Clock()
    near = NearReplicas(clock)
    assert near.take(answer(-1), name) == set()
    assert near.address(("t", 7), known()) is None
    assert near.take(answer(2), name) == {("t", 7)}
    clock.now = 299
    assert near.address(("t", 7), known()) == HERE
    assert near.address(("t", 8), known()) is None
    clock.now = 300
    assert near.address(("t", 7), known()) is None


def test_one_that_fails_or_is_gone_is_forgotten() -> None:
    near = NearReplicas(Clock())
    near.take(answer(2), name)
    near.forget(("t", 7))
    assert near.address(("t", 7), known()) is None
    near.take(answer(3), name)
    assert near.address(("t", 7), known()) is None, "no such broker is known"
