"""What a seed decides: who writes, by which protocol, and which faults come when."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

CHAOS_MS: Final = 20_000
FAULTS: Final = (
    "coordinator",  # its broker ends; its log may lose what is not committed
    "deposed",  # another coordinator is elected, and the one before goes on for a while
    "move",  # a partition gets another leader
    "stall",  # nothing is committed in a partition for a while
    "kill",  # a producer ends without a word, another one begins with its id
    "hijack",  # another producer begins with the id of one that goes on
    "pause",  # a producer stands still
    "worse",  # messages are late and lost
    "commit",  # a tool commits an offset outside of transactions
)


@dataclass(frozen=True, slots=True)
class Event:
    """``number`` chooses what it happens to."""

    at_ms: int
    kind: str
    number: int
    for_ms: int


@dataclass(frozen=True, slots=True)
class Plan:
    """``writers``: for each its protocol, True that of Kafka 4. ``first_epoch``: of every id."""

    seed: int
    partitions: int
    writers: tuple[bool, ...]
    copier: bool | None
    first_epoch: int
    events: tuple[Event, ...]


def plan_of(seed: int, only: Sequence[str] = FAULTS) -> Plan:
    """The plan of a seed. ``only``: all faults are of these kinds."""
    chances = random.Random(seed)
    weights = {kind: chances.choice((0, 1, 1, 3)) for kind in FAULTS}
    for kind in weights.keys() - set(only):
        weights[kind] = 0
    if not any(weights.values()):
        weights[only[0]] = 1
    kinds = chances.choices(tuple(weights), tuple(weights.values()), k=chances.randrange(2, 30))
    events = [
        Event(
            chances.randrange(CHAOS_MS),
            kind,
            chances.randrange(1_000),
            chances.choice((50, 300, 1_500, 4_000)),
        )
        for kind in kinds
    ]
    events.sort(key=lambda event: event.at_ms)
    protocols = chances.choice(((True,), (True,), (False,), (True, False)))
    return Plan(
        seed,
        chances.randint(1, 3),
        tuple(chances.choice(protocols) for _ in range(chances.randint(1, 3))),
        chances.choice((None, *protocols)),
        chances.choice((0, 0, 32_760, 32_764)),
        tuple(events),
    )
