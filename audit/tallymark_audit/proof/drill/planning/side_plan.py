"""What happens beside the main traffic: to which topics, where, and how late. Pure, part of
:mod:`.plan`.

A fault on the wire is one among many of its hop. What is planned here happens to a topic as a whole
(it is made again, its segments rot) or to a group, so it gets a topic of its own, named like the
fault, or a hop of its own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.planning.topology import (
    AGGREGATE,
    CONSUMER_HOP,
    DATACENTERS,
    PARTITIONS,
    SideTopic,
)

SHRINKS_FROM: Final = 4
"""Partitions of the topic that comes back with half of them."""
SEGMENT_BYTES: Final = 16_384
"""Of topics that lose closed segments: several a partition within the shortest drill."""
_STEPS: Final = (3, 7, 4, 6)
"""How far apart a seed's two faults are in their list, by the decade of the seed."""
_WITH_TOPIC: Final = (
    *kinds.TOPIC_FAULTS,
    *kinds.REST_FAULTS,
    *kinds.LAKE_FAULTS,
    *kinds.FAILOVER_FAULTS,
    kinds.TRANSACTIONS,
)
_OF_SEVERAL_COPIES: Final = tuple(
    kind for kind in kinds.DRAWN_FAULTS if kind not in kinds.ONE_COPY_FAULTS
)
_UNCLEAN: Final = (("unclean.leader.election.enable", "true"), ("min.insync.replicas", "1"))


@dataclass(frozen=True, slots=True)
class SideAction:
    """``kind`` happens at ``place`` (a cluster, a hop) after this ``share`` of the traffic."""

    kind: str
    place: str
    share: float


@dataclass(frozen=True, slots=True)
class SidePlan:
    """See the module."""

    topics: tuple[SideTopic, ...]
    actions: tuple[SideAction, ...]
    chance: random.Random

    def flips(self, hops: Sequence[str]) -> list[str]:
        """The hops on which events' bits are turned: one of producers and one of a mirror, where
        there are both."""
        found: list[str] = []
        for producers in (True, False):
            there = [hop for hop in hops if hop.startswith("producer-") is producers]
            if there:
                found.append(self.chance.choice(there))
        return found


def side_faults_of(seed: int) -> tuple[str, str]:
    """The two side faults of a seed: of any ten seeds from a full ten on each kind is in two, and
    the pairs change from ten to ten."""
    known = kinds.DRAWN_FAULTS
    step = _STEPS[seed // len(known) % len(_STEPS)]
    return known[seed % len(known)], known[(seed + step) % len(known)]


def side_faults_with_replicas(seed: int) -> tuple[str, str]:
    """The two side faults of a seed where clusters have three brokers: one of a failover, and one
    that damages no log. Of any ten seeds from a full ten on each of the first is in five, each of
    the others in two."""
    failovers, others = kinds.FAILOVER_FAULTS, _OF_SEVERAL_COPIES
    return failovers[seed % len(failovers)], others[seed // len(failovers) % len(others)]


def side_plan(chance: random.Random, chosen: Sequence[str]) -> SidePlan:
    """The plan of those of the chosen kinds that happen beside the main traffic."""
    topics = tuple(_topic(chance, kind) for kind in chosen if kind in _WITH_TOPIC)
    homes = {topic.name: topic.home for topic in topics}
    actions = [
        _side_action(chance, kind, homes.get(kind, ""))
        for kind in chosen
        if kind in _WITH_TOPIC or kind in kinds.CONSUMER_KILLS
    ]
    return SidePlan(topics, tuple(actions), chance)


def _topic(chance: random.Random, kind: str) -> SideTopic:
    home = chance.choice(DATACENTERS)
    if kind in kinds.TOPIC_FAULTS:
        return SideTopic(kind, home, SHRINKS_FROM if kind == kinds.SHRINK_TOPIC else PARTITIONS)
    if kind in kinds.FAILOVER_FAULTS:
        # With one partition the leader of all that is lost is one broker.
        at_home = _UNCLEAN if kind == kinds.UNCLEAN_ELECTION else ()
        return SideTopic(kind, home, 1, at_home=at_home)
    if kind in (*kinds.LAKE_FAULTS, kinds.TRANSACTIONS):
        return SideTopic(kind, home, PARTITIONS)
    # One partition: its segments are closed sooner, and what holds it holds the whole window.
    return SideTopic(kind, home, 1, SEGMENT_BYTES)


def _side_action(chance: random.Random, kind: str, home: str) -> SideAction:
    """Topics are made again in the middle; damage at rest comes late, when something rests."""
    late = chance.random() * 0.3
    if kind in kinds.CONSUMER_KILLS:
        return SideAction(kind, CONSUMER_HOP, 0.35 + late)
    if kind in kinds.TOPIC_FAULTS:
        return SideAction(kind, home, 0.35 + late)
    if kind in (*kinds.FAILOVER_FAULTS, kinds.TRANSACTIONS):
        return SideAction(kind, home, 0.2 + late)
    # What is wrong upstream only, downstream still has: both are drilled where both are repaired.
    place = chance.choice((home, AGGREGATE)) if kind in kinds.SCRUBBED_FAULTS else AGGREGATE
    return SideAction(kind, place, 0.6 + late)
