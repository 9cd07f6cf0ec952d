"""Telling a client that asked the wrong broker whom to ask (KIP-951)."""

from __future__ import annotations

from typing import Final, NamedTuple

from tallymark.broker.image import BrokerImage
from tallymark.broker.partitions import Partitions
from tallymark.errors import CODES, KafkaError

_ABOUT_LEADERS: Final = frozenset((CODES["NOT_LEADER_OR_FOLLOWER"], CODES["FENCED_LEADER_EPOCH"]))


class LeaderHint(NamedTuple):
    """The leader as this broker's picture has it."""

    node: BrokerImage
    epoch: int


def leader_hint(
    partitions: Partitions, topic: str, index: int, error: KafkaError
) -> LeaderHint | None:
    """The partition's leader, where the error is about leaders and one is alive."""
    if error.code not in _ABOUT_LEADERS:
        return None
    image = partitions.image
    known = image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return None
    partition = known.partitions[index]
    node = image.brokers.get(partition.leader)
    if node is None:
        return None
    return LeaderHint(node, partitions.epoch_of(topic, index, partition.leader_epoch))
