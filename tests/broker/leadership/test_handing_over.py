"""How long a clean stop waits until others lead, and for what."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from tallymark.broker.leadership.handing_over import hand_over, movable
from tallymark.broker.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tallymark.broker.replicas.leading import Leads

ME = 1


def image(
    isrs: Sequence[tuple[int, ...]], live: Sequence[int] = (1, 2, 3), *, leaving: int = 0
) -> Any:
    """Broker 1 leads all partitions of "t"; their ISRs."""
    brokers = {one: BrokerImage(one, {}, epoch=7, leaving=one == leaving) for one in live}
    partitions = tuple(PartitionImage.of(ME, 4, (1, 2, 3), isr) for isr in isrs)
    topic = TopicImage("t", uuid.UUID(int=1), partitions)
    return MetadataImage("c", brokers=brokers, topics={"t": topic})


def leads(of: MetadataImage) -> Any:
    """As :class:`Leads` shows those of the image."""
    return [
        SimpleNamespace(
            partition=SimpleNamespace(topic="t", index=index),
            leader=SimpleNamespace(state=one.state),
        )
        for index, one in enumerate(of.topics["t"].partitions)
    ]


@dataclass
class World:
    """A controller that takes the leads away after it was asked ``patience`` times."""

    now: MetadataImage
    patience: int = 1
    is_reachable: bool = True
    asked: int = 0
    held: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        self.held = leads(self.now)

    async def announce_leaving(self) -> bool:
        self.asked += 1
        if self.asked >= self.patience and self.is_reachable:
            self.held.clear()
        return self.is_reachable

    async def stop(self, seconds: float = 30) -> bool:
        return await hand_over(self, cast(Leads, self.held), lambda: self.now, seconds)


def test_a_lead_moves_where_another_member_is_up_and_stays() -> None:
    isrs = [(1, 2, 3), (1, 2), (1, 3), (1,)]

    def found(of: MetadataImage) -> list[int]:
        return [index for _, index in asyncio.run(movable(cast(Leads, leads(of)), of))]

    assert found(image(isrs)) == [0, 1, 2]
    assert found(image(isrs, [1, 3])) == [0, 2], "2 is away"
    assert found(image(isrs, leaving=3)) == [0, 1], "3 stops, too"
    assert found(image(isrs, [1])) == []


def test_a_stop_waits_until_others_lead_and_says_again_that_it_leaves() -> None:
    world = World(image([(1, 2, 3)]), patience=2)
    assert asyncio.run(world.stop())
    assert world.asked == 2


def test_what_only_this_broker_can_lead_is_not_waited_for() -> None:
    world = World(image([(1,), (1, 2)], [1, 3]))
    assert asyncio.run(world.stop())
    assert (world.asked, len(world.held)) == (0, 2)


def test_without_zookeeper_or_a_controller_the_stop_goes_on() -> None:
    world = World(image([(1, 2)]), is_reachable=False)
    assert not asyncio.run(world.stop())
    assert world.asked == 1
    world = World(image([(1, 2)]), patience=1000)
    assert not asyncio.run(world.stop(0.2))
    assert len(world.held) == 1
