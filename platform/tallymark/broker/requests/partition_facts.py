"""A partition's leader, epoch and error in responses, the same in Metadata and
DescribeTopicPartitions."""

from __future__ import annotations

from typing import NamedTuple

from tallymark.broker.metadata.image import MetadataImage, PartitionImage
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES
from tallymark.replication.model import NO_LEADER


class PartitionFacts(NamedTuple):
    """``leader`` is -1 where the client cannot reach one; ``error`` is then the error code."""

    error: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


def partition_facts(
    state: BrokerState, listener: str, topic: str, index: int, partition: PartitionImage
) -> PartitionFacts:
    """The facts for a client that is connected to ``listener``."""
    image = state.image
    leader, error = image.leader_of(partition), 0
    if leader < 0:
        error = CODES["LEADER_NOT_AVAILABLE"]
    elif image.brokers[leader].at(listener) is None:
        leader, error = NO_LEADER, CODES["LISTENER_NOT_FOUND"]
    elif state.partitions.is_offline(topic, index):  # ours, on a disk that failed
        leader, error = NO_LEADER, CODES["LEADER_NOT_AVAILABLE"]
    return PartitionFacts(
        error,
        leader,
        state.partitions.epoch_of(topic, index, partition.leader_epoch),
        partition.replicas,
        _live(partition.isr, image),
        _away(partition.replicas, image),
    )


def _live(isr: tuple[int, ...], image: MetadataImage) -> tuple[int, ...]:
    """Without members that are away: the ISR of a state node keeps them where it would get too
    small. A partition with one replica shows it, as it always did."""
    if len(isr) == 1 or image.broker_ids.issuperset(isr):  # of ten thousand, nearly all
        return isr
    return tuple(one for one in isr if one in image.brokers)


def _away(replicas: tuple[int, ...], image: MetadataImage) -> tuple[int, ...]:
    if image.broker_ids.issuperset(replicas):
        return ()
    return tuple(one for one in replicas if one not in image.brokers)
