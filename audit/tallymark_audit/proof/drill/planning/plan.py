"""What a drill does, and when: made from a seed, before anything runs. Pure.

Times are seconds since the producers began. The traffic's time is cut into :data:`SLOTS`, and every
fault of a hop gets one: faults of different slots do not meet in a cell, those of one slot do. Loss
and duplication meet on purpose; a changed value is kept apart from both, since a block that lacks
records cannot show it.

What happens beside that traffic
(:data:`tallymark_audit.proof.drill.faults.kinds.SIDE_FAULTS`) has topics of its own, so that
each seed can have two kinds of it and every finding says which one it is of.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tallymark.errors import UserError
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.faults.kinds import Order
from tallymark_audit.proof.drill.planning.side_plan import (
    side_faults_of,
    side_faults_with_replicas,
    side_plan,
)
from tallymark_audit.proof.drill.planning.topology import (
    AGGREGATE,
    CONSUMER_HOP,
    DATACENTERS,
    PARTITIONS,
    SKEW_MS,
    TOPIC,
    SideTopic,
    all_hops,
    broker_of,
)

KILL: Final = ("kill-producer", "kill-mirror", "kill-collector", "kill-broker")
LOST_HOST: Final = "lost-host"
"""A producer is killed, and with it goes its journal."""
PAUSE: Final = ("pause-producer", "pause-mirror", "pause-collector", "pause-broker")
LOG_FAULTS: Final = (kinds.TORN_TAIL, kinds.CUT_OUT)
SKEW: Final = "clock-skew"
_ON_WIRE: Final = tuple(kind for kind in kinds.WIRE_FAULTS if kind not in kinds.SIDE_FAULTS)
MAIN_FAULTS: Final = (*_ON_WIRE, *KILL, LOST_HOST, *PAUSE, *LOG_FAULTS, SKEW)
ALL_FAULTS: Final = (*MAIN_FAULTS, kinds.KILL_LEADER, *kinds.SIDE_FAULTS)
SLOTS: Final = 4
_ALWAYS: Final = (kinds.DROP, kinds.DUPLICATE, kinds.CORRUPT)
_MORE: Final = 4
_RATES: Final = {
    kinds.DROP: 0.03,
    kinds.DROP_BATCH: 0.3,
    kinds.DUPLICATE: 0.03,
    kinds.DUPLICATE_BATCH: 0.3,
    kinds.CORRUPT: 0.02,
    kinds.LOST_ACK: 0.3,
    kinds.DELAY: 0.3,
    kinds.REORDER: 0.5,
    kinds.DROP_EVENTS: 0.8,
    kinds.FLIP_EVENTS: 0.5,
    kinds.DROP_FETCHED: 0.02,
}
_MOST: Final = {
    kinds.DROP_BATCH: 5,
    kinds.DUPLICATE_BATCH: 5,
    kinds.LOST_ACK: 3,
    kinds.DELAY: 2,
}
_ACTIONS: Final = (*KILL, LOST_HOST, *PAUSE, *LOG_FAULTS, kinds.KILL_LEADER)
_DELAY_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """``kind`` happens to the process ``name`` (of faults of logs and leaders: to the cluster) at
    ``at``."""

    at: float
    kind: str
    name: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Sender:
    """One producer: ``offset_ms`` is how wrong its clock is."""

    name: str
    cluster: str
    offset_ms: int = 0
    topic: str = TOPIC
    partitions: int = PARTITIONS


@dataclass(frozen=True, slots=True)
class DrillPlan:
    """``orders``: for the proxy of each hop, times in ms since the producers began. ``topics``:
    those beside the main one. ``brokers``: of each cluster."""

    seed: int
    duration: float
    faults: tuple[str, ...]
    senders: tuple[Sender, ...]
    orders: dict[str, list[Order]] = field(default_factory=dict[str, list[Order]])
    actions: tuple[PlannedAction, ...] = ()
    topics: tuple[SideTopic, ...] = ()
    brokers: int = 1

    @property
    def lake_topics(self) -> tuple[SideTopic, ...]:
        """The topics that are loaded into a lake."""
        return tuple(topic for topic in self.topics if topic.name in kinds.LAKE_FAULTS)

    def orders_from(self, hop: str, start: int) -> list[Order]:
        """The orders of a hop on the wall's clock, the producers having begun at ``start`` (ms)."""
        return [
            replace(order, start=order.start + start, end=order.end + start)
            for order in self.orders.get(hop, [])
        ]


def make_drill_plan(
    seed: int,
    duration: float,
    wanted: Sequence[str] = (),
    hops: Sequence[str] = (),
    rate: float | None = None,
    brokers: int = 1,
) -> DrillPlan:
    """A plan; without ``wanted`` the seed chooses: loss, duplication and corruption always,
    :data:`_MORE` others, and two side faults. ``rate`` replaces the usual share of what is hit.
    With several ``brokers`` a cluster the others are the kill of a leader and fewer that are drawn,
    and no log is damaged. UserError: no such fault or hop, or not with so many brokers."""
    _check("fault", wanted, ALL_FAULTS)
    _check_copies(wanted, brokers)
    _check("hop", hops, all_hops())
    chance = random.Random(seed)
    chosen = tuple(wanted) or _drawn(chance, seed, brokers)
    senders = [Sender(f"{name}-{number}", name) for name in DATACENTERS for number in (1, 2)]
    if SKEW in chosen:
        senders.append(Sender(f"{DATACENTERS[0]}-skewed", DATACENTERS[0], -2 * SKEW_MS))
    orders = _orders(chance, duration, chosen, list(hops) or all_hops(), rate)
    actions = _actions(chance, duration, chosen, brokers)
    aside = side_plan(random.Random(f"beside {seed}"), chosen)
    senders += [
        Sender(topic.name, topic.home, topic=topic.name, partitions=topic.partitions)
        for topic in aside.topics
    ]
    actions += [
        PlannedAction(round(duration * deed.share, 3), deed.kind, deed.place)
        for deed in aside.actions
    ]
    if kinds.FLIP_EVENTS in chosen:
        # What a killed producer's journal says is said once: nothing makes up for it.
        last_words = {
            f"producer-to-{action.name.split('-')[1]}"
            for action in actions
            if action.kind == "kill-producer"
        }
        share = _RATES[kinds.FLIP_EVENTS] if rate is None else rate
        start, end = _slot(duration, 0)[0], _slot(duration, SLOTS - 1)[1]
        for hop in aside.flips([hop for hop in hops or all_hops() if hop not in last_words]):
            orders.setdefault(hop, []).append(Order(kinds.FLIP_EVENTS, start, end, share))
    if any(kind in chosen for kind in kinds.CONSUMER_KILLS):
        orders.setdefault(CONSUMER_HOP, [])
    return DrillPlan(
        seed=seed,
        duration=duration,
        faults=chosen,
        senders=tuple(senders),
        orders=orders,
        actions=tuple(sorted(actions, key=lambda action: action.at)),
        topics=aside.topics,
        brokers=brokers,
    )


def _drawn(chance: random.Random, seed: int, brokers: int) -> tuple[str, ...]:
    others = [kind for kind in MAIN_FAULTS if kind not in _ALWAYS]
    if brokers == 1:
        return (*_ALWAYS, *sorted(chance.sample(others, _MORE)), *side_faults_of(seed))
    whole = [kind for kind in others if kind not in kinds.ONE_COPY_FAULTS]
    drawn = sorted(chance.sample(whole, _MORE - 1))
    beside = (*side_faults_with_replicas(seed), kinds.TRANSACTIONS)
    return (*_ALWAYS, *drawn, kinds.KILL_LEADER, *beside)


def _orders(
    chance: random.Random,
    duration: float,
    chosen: Sequence[str],
    hops: Sequence[str],
    rate: float | None,
) -> dict[str, list[Order]]:
    """Every fault on the wire on one hop; loss and duplication also together, corruption also on
    the other kind of hop. UserError: there are more faults than slots."""
    schedule = _Schedule(chance, duration, rate)
    if kinds.DROP_FETCHED in chosen:
        schedule.place(kinds.DROP_FETCHED, CONSUMER_HOP, chance.randrange(SLOTS))
    on_wire = [kind for kind in chosen if kind in _ON_WIRE and kind != kinds.DROP_FETCHED]
    together = [kind for kind in on_wire if kind in (kinds.DROP, kinds.DUPLICATE)]
    if len(together) > 1:
        hop, slot = chance.choice(hops), chance.randrange(SLOTS)
        for kind in together:
            schedule.place(kind, hop, slot)
    for kind in on_wire:
        if not schedule.place_anywhere(kind, hops):
            raise UserError(f"there is no time left for {kind}", "drill fewer faults at once")
    if kinds.CORRUPT in on_wire:
        schedule.place_anywhere(kinds.CORRUPT, _other_side(schedule.hop_of(kinds.CORRUPT), hops))
    return schedule.orders


@dataclass(slots=True)
class _Schedule:
    """The orders so far, and which fault has which slot of a hop."""

    chance: random.Random
    duration: float
    rate: float | None
    orders: dict[str, list[Order]] = field(default_factory=dict[str, list[Order]])
    taken: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])

    def place(self, kind: str, hop: str, slot: int) -> None:
        """This fault, in this slot of the hop."""
        self.taken[hop, slot] = kind
        start, end = _slot(self.duration, slot)
        share = _RATES[kind] if self.rate is None else self.rate
        order = Order(kind, start, end, share, _MOST.get(kind, 1_000_000), _DELAY_SECONDS)
        self.orders.setdefault(hop, []).append(order)

    def place_anywhere(self, kind: str, hops: Sequence[str]) -> bool:
        """This fault, in a free slot of one of the hops; False: there is none."""
        free = [(hop, at) for hop in hops for at in range(SLOTS) if (hop, at) not in self.taken]
        if free:
            self.place(kind, *self.chance.choice(free))
        return bool(free)

    def hop_of(self, kind: str) -> str:
        """The one hop that this fault is on."""
        (hop,) = [hop for (hop, _), other in self.taken.items() if other == kind]
        return hop


def _other_side(first: str, hops: Sequence[str]) -> list[str]:
    """The hops of mirrors if ``first`` is one of producers, and the other way round: a mirror that
    is killed makes copies, which hide a changed value, so each kind of hop gets one."""
    producers = first.startswith("producer-")
    return [hop for hop in hops if hop.startswith("producer-") != producers]


def _slot(duration: float, slot: int) -> tuple[int, int]:
    """The middle of a slot (ms): nothing begins before all is well, or is not over at the end."""
    length = duration * 1000 / (SLOTS + 1)
    start = length * (slot + 0.5)
    return int(start), int(start + length * 0.8)


def _actions(
    chance: random.Random, duration: float, chosen: Sequence[str], brokers: int
) -> list[PlannedAction]:
    """Kills, pauses and log faults one after the other, so that each finds its process running."""
    acted = [kind for kind in chosen if kind in _ACTIONS]
    chance.shuffle(acted)
    found: list[PlannedAction] = []
    for place, kind in enumerate(acted):
        at = duration * (0.15 + 0.7 * (place + chance.random() * 0.3) / max(1, len(acted)))
        seconds = _PAUSE_SECONDS if kind in PAUSE else 0.0
        found.append(PlannedAction(round(at, 3), kind, _victim(chance, kind, brokers), seconds))
    return found


def _victim(chance: random.Random, kind: str, brokers: int) -> str:
    if kind in LOG_FAULTS:
        return AGGREGATE
    if kind == LOST_HOST:  # another one than those that are killed and paused
        return f"producer-{chance.choice(DATACENTERS)}-2"
    what = kind.partition("-")[2]
    if what == "producer":
        return f"producer-{chance.choice(DATACENTERS)}-1"
    if what == "mirror":
        return f"mirror-{chance.choice(DATACENTERS)}-to-{AGGREGATE}"
    cluster = chance.choice((*DATACENTERS, AGGREGATE))
    if kind == kinds.KILL_LEADER:
        return cluster
    if what == "collector":
        return f"collector-{cluster}"
    return broker_of(cluster, chance.randrange(brokers) if brokers > 1 else 0)


def _check_copies(wanted: Sequence[str], brokers: int) -> None:
    for name in wanted:
        if name in kinds.REPLICA_FAULTS and brokers == 1:
            raise UserError(f"{name} needs replicas", "give --brokers 3")
        if name in kinds.ONE_COPY_FAULTS and brokers > 1:
            why = "readers get another copy of it"
            raise UserError(f"{name} damages the log of one broker, and {why}", "give --brokers 1")


def _check(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise UserError(f"there is no {what} {name!r}", f"there are: {', '.join(known)}")
