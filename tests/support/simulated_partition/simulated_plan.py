"""What happens to a simulated partition from outside: clients' writes and faults, drawn by a seed.

Each seed draws how often each kind comes (swarm testing, Groce et al. 2012): a run full of cuts
finds other faults than one full of crashes.

==========  =====================================================================================
produce     a client sends records, acks=all or 1, to whom it takes for the leader or to any broker
stop        the process stops in order
kill        the process ends, the kernel lives: what was written stays (kill -9). After this and the
            next two the start may be stopped in order, ``other`` ms after it began
power       the machine ends: what was not flushed is gone in part or as a whole
wipe        the machine ends and comes back with an empty disk
pause       the process stands still, then goes on as if nothing had been (SIGSTOP)
cut         messages from one to another are lost, in this direction; 0 is ZooKeeper
slow        messages from one to another take seconds
expire      ZooKeeper ends the session of a broker that lives
deaf        the next answers of ZooKeeper to a broker are lost, after the commit
leave       a broker announces that it will stop; it does not join an ISR meanwhile
suspect     connections to a broker that lives are refused: it is taken for dead, wrongly
depose      ZooKeeper gives the controller's term to another session; the old one goes on
reassign    an operator moves the partition to ``target``
cancel      an operator cancels that
configure   an operator sets min.insync.replicas to ``other``
rot         bytes of a record change on a disk, as long as others in the ISR have it. In such runs
            the network changes bytes, too (``flips``): the leader's disk is good then; and no
            operator asks for fewer replicas
==========  =====================================================================================
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

FAULTS: Final = (
    "stop",
    "kill",
    "power",
    "wipe",
    "pause",
    "cut",
    "slow",
    "expire",
    "deaf",
    "leave",
    "suspect",
    "depose",
    "reassign",
    "cancel",
    "configure",
    "rot",
)
RARE: Final = ("wipe", "configure")
CHAOS_MS: Final = 12_000


@dataclass(frozen=True, slots=True)
class Event:
    """``broker`` is whom it hits (of rot, 0 is the leader), ``other`` the receiver of a cut link or
    the kind of write."""

    at_ms: int
    kind: str
    broker: int = 0
    other: int = 0
    for_ms: int = 0
    target: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. ``brokers`` are all, ``replicas`` those of the first assignment. ``may_lose``: as
    many may lose their tails at once as the seed wants, so committed records may be lost; otherwise
    always fewer than the least ISR."""

    seed: int
    brokers: tuple[int, ...]
    replicas: tuple[int, ...]
    min_insync: int
    unclean_allowed: bool
    flushes_first: bool
    may_lose: bool
    events: tuple[Event, ...]
    flips: float = 0.0
    """The part of the answers of leaders of which a record is changed on the way."""


def plan_of(seed: int, only: Sequence[str] = FAULTS) -> Plan:
    """The plan of a seed. ``only``: all faults are of these kinds."""
    chances = random.Random(seed)
    replicas = tuple(range(1, chances.choice((3, 3, 3, 3, 2, 4)) + 1))
    brokers = tuple(range(1, len(replicas) + 1 + chances.choice((0, 0, 1, 2))))
    weights = {kind: chances.choice((0, 0, 1, 1, 3)) for kind in FAULTS if kind != "rot"}
    for kind in RARE:
        weights[kind] = min(weights[kind], 1)
    for kind in weights.keys() - set(only):
        weights[kind] = 0
    if not any(weights.values()):
        weights[only[0] if only is not FAULTS else "kill"] = 1
    kinds = chances.choices(tuple(weights), tuple(weights.values()), k=chances.randrange(3, 24))
    events = [_fault(chances, kind, brokers) for kind in kinds]
    for _ in range(chances.randrange(10, 60)):
        other = chances.choices((0, 1, 2), (6, 2, 1))[0]
        broker = chances.choice(brokers)
        events.append(Event(chances.randrange(CHAOS_MS), "produce", broker, other))
    rotting = _rot(random.Random(f"rot {seed}"), brokers) if "rot" in only else []
    events.sort(key=lambda event: event.at_ms)
    plan = Plan(
        seed,
        brokers,
        replicas,
        chances.choice((2, 2, 2, 2, 2, 1, 3)),
        chances.random() < 0.1,
        chances.random() < 0.1,
        chances.random() < 0.15,
        tuple(events),
    )
    if not rotting or plan.unclean_allowed or plan.may_lose:
        return plan  # where committed records may be lost anyway, rot shows nothing
    kept = [one for one in events if not _leaves_fewer(one, len(replicas))]
    events = sorted([*kept, *rotting], key=lambda event: event.at_ms)
    return replace(plan, events=tuple(events), flips=0.05)


def _leaves_fewer(event: Event, replicas: int) -> bool:
    """The one copy that is left may be the one that has rotted."""
    is_small = event.kind == "reassign" and len(event.target) < replicas
    return is_small or event.kind == "configure"


def _rot(chances: random.Random, brokers: tuple[int, ...]) -> list[Event]:
    """In one run of four."""
    if chances.random() < 0.75:
        return []
    return [
        Event(chances.randrange(CHAOS_MS), "rot", chances.choice((0, *brokers)), number)
        for number in range(chances.randrange(1, 6))
    ]


def _fault(chances: random.Random, kind: str, brokers: tuple[int, ...]) -> Event:
    broker, other = chances.sample((0, *brokers), 2)
    if kind not in ("cut", "slow") and broker == 0:
        broker = other
    if kind == "configure":
        other = chances.choice((1, 2, 2, 3))
    target: tuple[int, ...] = ()
    if kind == "reassign":
        size = chances.choice((1, 2, 3, 3, 3))
        target = tuple(chances.sample(brokers, min(size, len(brokers))))
    if kind in ("kill", "power", "wipe"):
        other = chances.choice((0, 0, 0, 0, 20, 200))
    for_ms = chances.choice((300, 1_000, 2_000, 4_000, 8_000))
    return Event(chances.randrange(CHAOS_MS), kind, broker, other, for_ms, target)
