"""Leads go back to the preferred leaders, the first of each assignment.

After a broker was away it leads nothing. Every 300 s the controller looks whether a broker leads
clearly less than it should, and then gives all of its leads back, a bounded number in one round:
each move is a gap of one metadata round for clients, and a broker that just came back has cold
caches.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final, NamedTuple

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication import election
from tallymark.replication.election import Elected
from tallymark.replication.model import ChangeState, Picture

MOST_MOVES: Final = 500
"""Leads that move in one round."""


class Balancing(NamedTuple):
    """Kafka's auto.leader.rebalance.enable, leader.imbalance.check.interval.seconds and
    leader.imbalance.per.broker.percentage: so large a part (0.1 are 10 %) of the partitions that a
    broker should lead may be led by others."""

    is_on: bool = True
    every_ms: int = 300_000
    tolerated: float = 0.1


BALANCING: Final = Balancing()
"""Kafka's defaults."""


def preferred_leaders(
    picture: Picture,
    *,
    unknown: Set[TopicPartition] = frozenset(),
    tolerated: float = BALANCING.tolerated,
    most: int = MOST_MOVES,
) -> tuple[ChangeState, ...]:
    """The next leads to move: all of brokers beyond ``tolerated`` that can, at most ``most``, those
    of the least balanced broker first. ``unknown`` as in :func:`.planner.plan`."""
    should: dict[int, int] = {}
    away: dict[int, list[TopicPartition]] = {}
    for partition, view in picture.partitions.items():
        first = view.assignment.target[0]
        should[first] = should.get(first, 0) + 1
        if view.state.leader != first:
            away.setdefault(first, []).append(partition)
    excess = {broker: len(away[broker]) - tolerated * should[broker] for broker in away}
    moves: list[ChangeState] = []
    for broker in sorted(excess, key=lambda one: (-excess[one], one)):
        if excess[broker] <= 0:
            break
        for partition in away[broker]:
            if len(moves) == most:
                return tuple(moves)
            view = picture.partitions[partition]
            outcome = election.preferred(view, picture)
            if partition not in unknown and isinstance(outcome, Elected):
                moves.append(ChangeState(partition, view.state.version, outcome.state, outcome.why))
    return tuple(moves)
