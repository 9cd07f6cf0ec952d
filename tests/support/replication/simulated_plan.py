"""What happens to a simulated partition from outside: clients' writes and faults, drawn by a seed.

Each seed draws how often each kind comes (swarm testing, Groce et al. 2012): a run full of cuts
finds other faults than one full of crashes.

==========  =====================================================================================
produce     a client sends a record, acks=all or 1, to whom it takes for the leader or to any broker
kill        the process ends, the kernel lives: what was written stays (kill -9)
power       the machine ends: what was not flushed is gone in part or as a whole
wipe        the machine ends and comes back with an empty disk
pause       the process stands still, then goes on as if nothing had been (SIGSTOP)
cut         messages from one to another are lost, in this direction; 0 is the state node
slow        messages from one to another take seconds
expire      ZooKeeper ends the session of a broker that lives
deaf        the next answers of ZooKeeper to a broker are lost, after the commit
leave       a broker announces that it will stop; it does not join an ISR meanwhile
controller  another broker becomes the controller
==========  =====================================================================================
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

FAULTS: Final = (
    "kill",
    "power",
    "wipe",
    "pause",
    "cut",
    "slow",
    "expire",
    "deaf",
    "leave",
    "controller",
)
CHAOS_MS: Final = 12_000


@dataclass(frozen=True, slots=True)
class Event:
    """``broker`` is whom it hits, ``other`` the receiver of a cut link or the kind of write."""

    at_ms: int
    kind: str
    broker: int = 0
    other: int = 0
    for_ms: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. ``may_lose``: as many may lose their tails at once as the seed wants, so committed
    records may be lost; otherwise always fewer than min ISR."""

    seed: int
    replicas: tuple[int, ...]
    min_insync: int
    may_lose: bool
    events: tuple[Event, ...]


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(seed)
    replicas = tuple(range(1, rng.choice((3, 3, 3, 3, 2, 4)) + 1))
    min_insync = rng.choice((2, 2, 2, 2, 2, 1, 3))
    weights = [rng.choice((0, 0, 1, 1, 3)) for _ in FAULTS]
    weights[2] = min(weights[2], 1)
    if not any(weights):
        weights[0] = 1
    events = [
        _fault(rng, kind, replicas) for kind in rng.choices(FAULTS, weights, k=rng.randrange(3, 22))
    ]
    for _ in range(rng.randrange(10, 60)):
        other = rng.choices((0, 1, 2), (6, 2, 1))[0]
        events.append(Event(rng.randrange(CHAOS_MS), "produce", rng.choice(replicas), other))
    events.sort(key=lambda event: event.at_ms)
    return Plan(seed, replicas, min_insync, rng.random() < 0.15, tuple(events))


def _fault(rng: random.Random, kind: str, replicas: tuple[int, ...]) -> Event:
    broker, other = rng.sample((0, *replicas), 2)
    if kind not in ("cut", "slow") and broker == 0:
        broker = other
    for_ms = rng.choice((300, 1_000, 2_000, 4_000, 8_000))
    return Event(rng.randrange(CHAOS_MS), kind, broker, other, for_ms)
