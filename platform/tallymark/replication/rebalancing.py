"""Where replicas should go when the brokers of a cluster change. Pure.

A replica that is on one of the wanted brokers stays there, since each one that moves is copied over
the network. Missing ones go to the wanted broker with the fewest replicas, in another rack where
there are several; then leaders are evened out by the order of the replicas, which copies nothing::

    brokers 1 2 3 4 wanted, 3 replicas              brokers 1 2 3, broker 4 is to be drained
    t-0  1 2 3  ──▶  1 2 3                          t-0  1 2 4  ──▶  1 2 3
    t-1  1 2 3  ──▶  1 2 4   4 was empty            t-1  4 2 3  ──▶  1 2 3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import TopicPartition

Replicas = Mapping[TopicPartition, Sequence[int]]
_NOBODY: Final = -1


def rebalanced(
    current: Replicas,
    brokers: Collection[int],
    racks: Mapping[int, str],
    *,
    even: bool = False,
    factor: int | None = None,
) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of each partition on ``brokers`` only, the preferred leader first; partitions
    for which nothing changes are left out. ``even``: also move replicas from brokers that have more
    than others, as after brokers were added. ``factor``: how many replicas each is to have; the
    first ones stay. Default: as many as it has.

    KafkaError INVALID_REPLICATION_FACTOR where a partition has more replicas than there are
    brokers.
    """
    load: Counter[int] = Counter(dict.fromkeys(sorted(brokers), 0))
    kept = current if factor is None else {key: _sized(current[key], factor) for key in current}
    for replicas in kept.values():
        load.update(one for one in replicas if one in brokers)
    placed: dict[TopicPartition, list[int]] = {}
    for key in sorted(current):
        if len(kept[key]) > len(brokers):
            raise KafkaError(
                CODES["INVALID_REPLICATION_FACTOR"],
                f"{key[0]}-{key[1]} would have {len(kept[key])} replicas on {len(brokers)} brokers",
            )
        placed[key] = _filled(kept[key], load, racks)
    if even:
        _even_out(placed, load, racks)
    moved = {key: one for key, one in placed.items() if set(one) != set(current[key])}
    leads = Counter(replicas[0] for key, replicas in placed.items() if key not in moved)
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for key, replicas in moved.items():
        found[key] = _leader_first(replicas, leads)
        leads[found[key][0]] += 1
    return found


def _sized(replicas: Sequence[int], factor: int) -> list[int]:
    """The first ``factor`` replicas; places of no broker where there are fewer."""
    return [*replicas[:factor], *[_NOBODY] * (factor - len(replicas))]


def _filled(replicas: Sequence[int], load: Counter[int], racks: Mapping[int, str]) -> list[int]:
    """Those that may stay, in their places, and new ones for the others."""
    found = [one if one in load else _NOBODY for one in replicas]
    for place, one in enumerate(found):
        if one < 0:
            found[place] = _best([each for each in found if each >= 0], load, racks)
            load[found[place]] += 1
    return found


def _best(taken: Sequence[int], load: Counter[int], racks: Mapping[int, str]) -> int:
    """The broker for one more replica: of another rack, and with the fewest replicas."""
    used = Counter(racks.get(one, "") for one in taken) if racks else Counter[str]()
    free = [one for one in load if one not in taken]
    return min(free, key=lambda one: (used[racks.get(one, "")], load[one], one))


def _even_out(
    placed: Mapping[TopicPartition, list[int]], load: Counter[int], racks: Mapping[int, str]
) -> None:
    """Move one replica after the other from the fullest broker to the emptiest that may have it,
    until no move makes the difference smaller."""
    for replicas in placed.values():
        for place in range(len(replicas) - 1, -1, -1):  # a leader last
            here = replicas[place]
            others = [one for at, one in enumerate(replicas) if at != place]
            there = _best(others, load, racks)
            if load[here] - load[there] > 1:
                replicas[place] = there
                load[here] -= 1
                load[there] += 1


def _leader_first(replicas: Sequence[int], leads: Counter[int]) -> tuple[int, ...]:
    """The replica with the fewest leads first; the others in their order."""
    leader = min(replicas, key=lambda one: (leads[one], replicas.index(one)))
    return (leader, *(one for one in replicas if one != leader))
