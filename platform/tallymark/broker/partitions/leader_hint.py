"""The partition's present leader, for a response of a broker that does not lead it (KIP-951)."""

from __future__ import annotations

from typing import Final, NamedTuple

from tallymark.broker.partitions.table import Partitions
from tallymark.errors import CODES, KafkaError

_ABOUT_LEADERS: Final = frozenset((CODES["NOT_LEADER_OR_FOLLOWER"], CODES["FENCED_LEADER_EPOCH"]))


class LeaderNode(NamedTuple):
    """The leader's address for the client."""

    node_id: int
    host: str
    port: int


class LeaderHint(NamedTuple):
    """The leader in this broker's image."""

    node: LeaderNode
    epoch: int


def leader_hint(
    partitions: Partitions, topic: str, index: int, error: KafkaError, listener: str
) -> LeaderHint | None:
    """The partition's leader, where the error is about leaders, and the leader is alive and has the
    client's ``listener``; else None."""
    if error.code not in _ABOUT_LEADERS:
        return None
    image = partitions.image
    known = image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return None
    partition = known.partitions[index]
    broker = image.brokers.get(partition.leader)
    reached = None if broker is None else broker.at(listener)
    if reached is None:
        return None
    return LeaderHint(
        LeaderNode(partition.leader, reached.host, reached.port),
        partitions.epoch_of(topic, index, partition.leader_epoch),
    )
