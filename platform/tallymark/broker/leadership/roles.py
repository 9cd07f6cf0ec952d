"""What this broker is to a partition with several replicas. Pure.

::

    the state node says                     this broker
    it leads, and it counts as itself       LEADER    appends, and others follow
    it leads, as it was before a start      IDLE      its lead is given up, a new state will come
    another broker leads                    FOLLOWER  copies from that one
    there is no leader                      IDLE      the log stays as it is
    it is not among the replicas            none      its log is set aside

A role is one of a leader epoch: with a new epoch it ends and another one begins, also where leader
and follower are the same brokers. A partition with one replica has no such role: its broker leads
it, and raises the epoch by itself (:mod:`tallymark.broker.metadata.leader_epoch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from tallymark.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import NO_LEADER


class Duty(Enum):
    """See the module."""

    LEADER = "leader"
    FOLLOWER = "follower"
    IDLE = "idle"


class Role(NamedTuple):
    """``leader`` is the broker that leads in leader epoch ``epoch``, -1 for none. ``topic_id``: a
    topic that was created again has the same partitions and epochs, and other logs."""

    duty: Duty
    leader: int
    epoch: int
    topic_id: UUID


class Changes(NamedTuple):
    """What changes of the roles: ``over`` ends, ``begun`` begins, ``same`` goes on (its state or
    assignment may have changed)."""

    over: Mapping[TopicPartition, Role]
    begun: Mapping[TopicPartition, Role]
    same: Mapping[TopicPartition, Role]


def is_replicated(partition: PartitionImage) -> bool:
    """Whether the partition has several replicas."""
    return len(partition.replicas) > 1


def role_of(partition: PartitionImage, topic_id: UUID, me: int, *, counts: bool) -> Role | None:
    """The role of broker ``me``; None where it has none. ``counts``: the image was read after the
    present registration of this broker, so a lead that it finds is its own and not that of the
    process before (KIP-380)."""
    if me not in partition.replicas or not is_replicated(partition):
        return None
    leader, epoch = partition.leader, partition.leader_epoch
    if leader == me and counts:
        return Role(Duty.LEADER, leader, epoch, topic_id)
    if leader in (me, NO_LEADER):
        return Role(Duty.IDLE, NO_LEADER, epoch, topic_id)
    return Role(Duty.FOLLOWER, leader, epoch, topic_id)


def counts_as_registered(image: MetadataImage, me: int, epoch: int) -> bool:
    """Whether ``image`` shows this broker as it registered last, with broker epoch ``epoch`` (-1:
    it is not registered). Leads of the process before were given up before that."""
    found = image.brokers.get(me)
    return epoch >= 0 and found is not None and found.epoch == epoch


def roles_in(
    topics: Iterable[TopicImage], me: int, *, counts: bool
) -> Iterator[tuple[TopicPartition, Role]]:
    """The roles of broker ``me`` in these topics."""
    for topic in topics:
        for index, partition in enumerate(topic.partitions):
            role = role_of(partition, topic.topic_id, me, counts=counts)
            if role is not None:
                yield (topic.name, index), role


def changes(before: Mapping[TopicPartition, Role], after: Mapping[TopicPartition, Role]) -> Changes:
    """From the roles before to those after, of the same topics."""
    same = {key: role for key, role in after.items() if before.get(key) == role}
    return Changes(
        {key: role for key, role in before.items() if key not in same},
        {key: role for key, role in after.items() if key not in same},
        same,
    )
