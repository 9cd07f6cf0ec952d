"""Limits of moves (KIP-73): set before they begin, changed while they run, gone when they end.

The lists of replicas are settings of topics, the rates settings of each broker that takes part. A
limit that is left over would slow down every replica that has to catch up later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.configs import Change, ConfigResource
from tallymark.client.admin.moves import Move
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.throttle import MovingReplicas, throttles_for

_LEADERS: Final = "leader.replication.throttled"
_FOLLOWERS: Final = "follower.replication.throttled"
_LISTS: Final = (f"{_LEADERS}.replicas", f"{_FOLLOWERS}.replicas")
_RATES: Final = (f"{_LEADERS}.rate", f"{_FOLLOWERS}.rate")


def limit(admin: Admin, moves: Mapping[TopicPartition, MovingReplicas], rate: int) -> list[int]:
    """Limit these moves to ``rate`` bytes per second, at each broker that sends and at each that
    copies. Returns the brokers that are away: their rate is not set. Raises the first error."""
    wanted = throttles_for(moves)
    live = {one.id for one in admin.describe_cluster().brokers}
    changes: dict[ConfigResource, Mapping[str, Change]] = {
        ConfigResource("broker", str(one)): dict.fromkeys(_RATES, str(rate))
        for one in sorted(wanted.brokers & live)
    }
    for topic, lists in wanted.topics.items():
        changes[ConfigResource("topic", topic)] = dict(zip(_LISTS, lists, strict=True))
    admin.alter_configs(changes).check()
    return sorted(wanted.brokers - live)


def in_motion(moving: Mapping[TopicPartition, Move]) -> dict[TopicPartition, MovingReplicas]:
    """Moves under way, as :func:`limit` takes them."""
    found: dict[TopicPartition, MovingReplicas] = {}
    for key, move in moving.items():
        before = [one for one in move.replicas if one not in move.adding]
        found[key] = MovingReplicas(before, move.target)
    return found


def lifted(admin: Admin) -> bool:
    """Remove all limits of the cluster; returns whether there were any. Raises the first error."""
    brokers = [ConfigResource("broker", str(one.id)) for one in admin.describe_cluster().brokers]
    topics = _limited(admin, [ConfigResource("topic", one) for one in admin.topics()], _LISTS)
    if not (topics or _limited(admin, brokers, _RATES)):
        return False
    changes: dict[ConfigResource, Mapping[str, Change]] = {
        **{one: dict.fromkeys(_RATES) for one in brokers},  # Apache Kafka does not tell all rates
        **{one: dict.fromkeys(_LISTS) for one in topics},
    }
    admin.alter_configs(changes).check()
    return True


def limited_topics(admin: Admin) -> list[str]:
    """The topics with limits."""
    topics = [ConfigResource("topic", one) for one in admin.topics()]
    return [one.name for one in _limited(admin, topics, _LISTS)]


def _limited(
    admin: Admin, resources: Sequence[ConfigResource], names: Sequence[str]
) -> list[ConfigResource]:
    """Those that have one of these settings themselves."""
    if not resources:
        return []
    described = admin.describe_configs(resources, names=names).check()
    return [
        one
        for one, configs in described.items()
        if any(entry.source == one.kind for entry in configs.values())
    ]
