"""Places the replicas of new partitions on brokers.

Every broker that creates a topic computes this from what it has just read, so the result is a
function of its arguments alone, without a random start as in Kafka.

::

    brokers 1 2 3 4 in racks a a b b, fewest partitions first, racks alternate: 1 3 2 4
    partition   0      1      2      3      4 (followers shifted by one more each round)
    replicas    1 3    3 2    2 4    4 1    1 4
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Final

from tallymark.errors import CODES, KafkaError

NO_RACKS: Final[Mapping[int, str]] = {}


def spread(
    partitions: int,
    factor: int,
    load: Mapping[int, int],
    racks: Mapping[int, str] = NO_RACKS,
    avoid: Set[int] = frozenset(),
) -> tuple[tuple[int, ...], ...]:
    """``factor`` replicas of each new partition, the leader first.

    ``load`` has the number of replicas on every live broker, ``racks`` the rack of those that have
    one. Leaders go round over the brokers, those with the fewest partitions first: a topic is
    spread evenly whatever the load is, since topics differ in traffic. Each follower goes to the
    rack with the fewest replicas of the partition, so each replica to another rack while there are
    racks. With a factor of 1 racks do not count. Brokers of ``avoid`` (they leave, or are gone
    while they are registered still) get nothing, unless the others are too few.

    KafkaError BROKER_NOT_AVAILABLE without brokers, INVALID_REPLICATION_FACTOR for a factor below 1
    or above their number, INVALID_REPLICA_ASSIGNMENT where some of them have a rack and some not.
    """
    _check_factor(factor, load)
    staying = [broker for broker in load if broker not in avoid]
    taken = staying if len(staying) >= factor else load
    ordered = sorted(taken, key=lambda broker: (load[broker], broker))
    if factor > 1:
        _check_racks(load, racks)
        ordered = _alternating(ordered, racks)
    count = len(ordered)
    return tuple(
        _replicas(
            [ordered[(index + step) % count] for step in range(count)],
            index // count,
            factor,
            racks,
        )
        for index in range(partitions)
    )


def check_manual(
    assignment: Sequence[Sequence[int]], brokers: Mapping[int, object], factor: int | None = None
) -> tuple[tuple[int, ...], ...]:
    """The replicas that a client chose, if they are possible: for each partition different live
    brokers, and the same number of them for all (``factor`` where the topic has one already).

    KafkaError INVALID_REPLICA_ASSIGNMENT.
    """
    for index, replicas in enumerate(assignment):
        expected = len(assignment[0]) if factor is None else factor
        away = [broker for broker in replicas if broker not in brokers]
        if not replicas:
            problem = "has no replica"
        elif len(set(replicas)) < len(replicas):
            problem = f"names a broker twice: {list(replicas)}"
        elif away:
            problem = f"on {list(replicas)}, the live brokers are {sorted(brokers)}"
        elif len(replicas) != expected:
            problem = f"has {len(replicas)} replicas, others of the topic have {expected}"
        else:
            continue
        raise KafkaError(CODES["INVALID_REPLICA_ASSIGNMENT"], f"partition {index} {problem}")
    return tuple(tuple(replicas) for replicas in assignment)


def _replicas(
    brokers: Sequence[int], shift: int, factor: int, racks: Mapping[int, str]
) -> tuple[int, ...]:
    """The first of ``brokers`` leads; the others follow in their order, begun ``shift`` later."""
    leader, others = brokers[0], list(brokers[1:])
    begin = shift % len(others) if others else 0
    others = others[begin:] + others[:begin]
    found = [leader]
    while len(found) < factor:
        used = Counter(racks.get(broker, "") for broker in found)
        best = min(others, key=lambda broker: used[racks.get(broker, "")])  # the first of equals
        others.remove(best)
        found.append(best)
    return tuple(found)


def _alternating(ordered: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    """The brokers so that neighbours are in different racks while there are racks: one of each
    rack, in the order of the racks' first brokers, then the next one of each."""
    seen: Counter[str] = Counter()
    turns: dict[int, int] = {}
    for broker in ordered:
        rack = racks.get(broker, "")
        turns[broker] = seen[rack]
        seen[rack] += 1
    return sorted(ordered, key=lambda broker: turns[broker]) if len(seen) > 1 else list(ordered)


def _check_factor(factor: int, load: Mapping[int, int]) -> None:
    if not load:
        raise KafkaError(CODES["BROKER_NOT_AVAILABLE"], "no broker is registered")
    if not 1 <= factor <= len(load):
        raise KafkaError(
            CODES["INVALID_REPLICATION_FACTOR"],
            f"{factor} replicas are asked for, there are {len(load)} brokers",
        )


def _check_racks(load: Mapping[int, int], racks: Mapping[int, str]) -> None:
    without = sorted(broker for broker in load if not racks.get(broker))
    if without and len(without) < len(load):
        raise KafkaError(
            CODES["INVALID_REPLICA_ASSIGNMENT"],
            f"brokers {without} have no broker.rack, the others have: give it to all or none",
        )
