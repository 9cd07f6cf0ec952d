"""What to throttle so that moves of replicas leave room for clients, as ``kafka-reassign-partitions
--throttle`` does it. Pure.

::

    t-0 is on 1 2, and moves to 2 3     leaders (where it may come from)   0:1,0:2
                                        followers (who has to copy it)     0:3
                                        brokers with a rate                1 2 3
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tallymark.protocol.topic_partition import TopicPartition

LONGEST_LIST: Final = 30_000
"""Characters; a longer list of a topic is written as ``*``."""
_ALL: Final = "*"


class MovingReplicas(NamedTuple):
    """A partition that moves, or is to: the brokers that have it, and those that it goes to."""

    current: Sequence[int]
    target: Sequence[int]


class ThrottledTopic(NamedTuple):
    """The two settings of a topic, ``partition:broker,...``."""

    leaders: str
    followers: str


class MoveThrottles(NamedTuple):
    """Topic -> its settings, and the brokers that need the rate."""

    topics: Mapping[str, ThrottledTopic]
    brokers: frozenset[int]


def throttles_for(moves: Mapping[TopicPartition, MovingReplicas]) -> MoveThrottles:
    """What to throttle while these partitions move. A move that copies nothing (a change of order,
    fewer replicas) needs nothing."""
    leaders: dict[str, list[str]] = defaultdict(list)
    followers: dict[str, list[str]] = defaultdict(list)
    brokers: set[int] = set()
    for (topic, index), (current, target) in sorted(moves.items()):
        new = sorted(set(target) - set(current))
        if new:
            leaders[topic] += [f"{index}:{one}" for one in sorted(current)]
            followers[topic] += [f"{index}:{one}" for one in new]
            brokers.update(current, new)
    topics = {
        topic: ThrottledTopic(_text(leaders[topic]), _text(followers[topic])) for topic in leaders
    }
    return MoveThrottles(topics, frozenset(brokers))


def _text(pairs: Sequence[str]) -> str:
    text = ",".join(pairs)
    return text if len(text) <= LONGEST_LIST else _ALL
