"""Pictures of a small cluster for tests of what the controller decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import (
    Assignment,
    BrokerView,
    PartitionState,
    PartitionView,
    Picture,
    Tail,
)

HERE: TopicPartition = ("clicks", 0)


def view_of(
    leader: int,
    isr: Iterable[int],
    replicas: Iterable[int] = (1, 2, 3),
    *,
    least: int = 2,
    incomplete: Mapping[int, Tail] | None = None,
    unclean_allowed: bool = False,
) -> PartitionView:
    """A partition in leader epoch 7 whose state node has version 20."""
    state = PartitionState(leader, 7, tuple(isr), 1, 20, incomplete or {})
    return PartitionView(Assignment(tuple(replicas)), state, least, unclean_allowed)


def cluster(
    view: PartitionView,
    up: Iterable[int],
    *,
    suspects: Iterable[int] = (),
    leaving: Iterable[int] = (),
) -> Picture:
    """One partition, and the brokers that are registered. The controller's epoch is 4."""
    stopping = set(leaving)
    brokers = {one: BrokerView(one, 0, leaving=one in stopping) for one in up}
    return Picture(brokers, {HERE: view}, 4, frozenset(suspects))


def many(picture: Picture, count: int) -> Picture:
    """The picture with so many partitions of the same view, ("clicks", 0) to ("clicks", n)."""
    view = picture.partitions[HERE]
    return replace(picture, partitions={("clicks", index): view for index in range(count)})
