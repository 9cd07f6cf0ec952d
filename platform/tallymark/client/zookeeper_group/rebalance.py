"""Algorithm 1 of the Kafka paper: which stream of which consumer gets a partition. Pure.

    For each topic T that Ci subscribes to:
      PT = partitions of T, CT = streams of all consumers in the group that consume T; sort both
      j = index of Ci in CT, N = |PT| / |CT|
      assign partitions j*N to (j+1)*N - 1 of PT to Ci

Every consumer computes it for itself from the same nodes of ZooKeeper, so all get the same
assignment without messages to each other. Partitions are assigned to streams, not to consumers;
where N is no whole number the first streams take one partition more. Partitions are sorted by
number: range partitioning gives a stream neighbouring partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tallymark.client.consuming.assignment import split_range
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.protocol.topic_partition import TopicPartition


class StreamId(NamedTuple):
    """A stream of a consumer; streams sort by consumer, then by number."""

    consumer: str
    number: int


def assign(
    members: Mapping[str, Subscription], partitions: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, StreamId]:
    """The assignment of the whole group: every partition of all topics with a subscription.

    ``members``: consumer id -> subscription; ``partitions``: topic -> its partitions.
    """
    division: dict[TopicPartition, StreamId] = {}
    for topic in sorted(partitions):
        streams = streams_of(topic, members)
        if streams:
            shares = split_range(sorted(partitions[topic]), len(streams))
            for stream, share in zip(streams, shares, strict=True):
                division.update({(topic, partition): stream for partition in share})
    return division


def assignment_of(
    consumer: str, members: Mapping[str, Subscription], partitions: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, int]:
    """One consumer's partitions in :func:`assign`; empty for a consumer that is no member.
    ``partitions`` may leave out topics that the consumer does not subscribe to."""
    subscription = members.get(consumer)
    if subscription is None:
        return {}
    own = {t: numbers for t, numbers in partitions.items() if subscription.streams_of(t)}
    division = assign(members, own)
    return {place: s.number for place, s in division.items() if s.consumer == consumer}


def streams_of(topic: str, members: Mapping[str, Subscription]) -> list[StreamId]:
    """All streams of the group that consume the topic, sorted."""
    return [
        StreamId(consumer, number)
        for consumer in sorted(members)
        for number in range(members[consumer].streams_of(topic))
    ]
