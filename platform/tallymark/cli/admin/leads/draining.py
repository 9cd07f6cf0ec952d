"""What it takes to empty a broker. Pure.

A broker is drained of leads when it is the last of each partition's replicas and leads none: the
automatic return to preferred leaders gives nothing back to it then. Its replicas stay where they
are, or move to other brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.rebalancing import rebalanced


class Held(NamedTuple):
    """A partition as the cluster describes it: leader (-1: none), replicas, those in sync."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class LeadsAway(NamedTuple):
    """``orders``: the replicas of each partition in which the broker is not the last yet, with it
    at the end. ``elections``: partitions that it leads and another can. ``stay``: those that it
    leads and no other can take now, with the reason."""

    orders: Mapping[TopicPartition, tuple[int, ...]]
    elections: Sequence[TopicPartition]
    stay: Mapping[TopicPartition, str]


def leads_away(
    partitions: Mapping[TopicPartition, Held],
    broker: int,
    live: Collection[int],
    moving: Collection[TopicPartition] = (),
) -> LeadsAway:
    """What is left to do so that ``broker`` leads nothing. Where it leads, a replica that is in
    sync on a live broker comes first, so that it can be elected; the others keep their order.
    Partitions that are ``moving`` are left alone: another order would be another target."""
    orders: dict[TopicPartition, tuple[int, ...]] = {}
    elections: list[TopicPartition] = []
    stay: dict[TopicPartition, str] = {}
    for key, held in sorted(partitions.items()):
        if broker not in held.replicas:
            continue
        if key in moving:
            if held.leader == broker:
                stay[key] = "its replicas are moving"
            continue
        others = [one for one in held.replicas if one != broker]
        able = [one for one in others if one in held.isr and one in live]
        if held.leader == broker and not able:
            stay[key] = "no other replica is in sync" if others else "it has one replica"
            continue
        if held.leader == broker:
            elections.append(key)
        first = able[:1] if held.leader == broker else others[:1]
        order = (*first, *(one for one in others if one not in first), broker)
        if order != held.replicas:
            orders[key] = order
    return LeadsAway(orders, elections, stay)


def replicas_away(
    partitions: Mapping[TopicPartition, Held],
    broker: int,
    live: Mapping[int, str],
    moving: Mapping[TopicPartition, tuple[int, ...]],
) -> dict[TopicPartition, tuple[int, ...]]:
    """The moves that are left to begin so that ``broker`` holds no replica: partition -> its new
    replicas. ``live``: broker -> its rack, "" for none. ``moving``: partition -> its target; one
    that leads away from the broker already goes on as it is. Replicas on other brokers that are
    away move with those of this one.

    KafkaError INVALID_REPLICATION_FACTOR where fewer brokers are left than a partition has
    replicas."""
    current = {key: moving.get(key, held.replicas) for key, held in partitions.items()}
    others = {one: rack for one, rack in live.items() if one != broker}
    racks = others if all(others.values()) else {}
    found = rebalanced(current, others, racks)
    return {key: replicas for key, replicas in found.items() if broker in current[key]}
