"""What a run does: how large the cluster is, what its clients do, and which faults come when. All
of it is drawn from the seed; a plan with fewer faults is what a failing seed is shrunk to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

from tallymark.testing.simulation.engine.chances import Chances


class FaultKind(Enum):
    """A fault. After ``seconds`` it is over: the broker starts again, the cut heals."""

    KILL = "kill -9"
    KILL_AT_WRITE = "kill -9 in the middle of work on the disk"
    POWER = "power failure"
    POWER_AT_WRITE = "power failure in the middle of work on the disk"
    STOP = "clean stop"
    NO_ZOOKEEPER = "cut from ZooKeeper"
    TO_ZOOKEEPER = "nothing gets to ZooKeeper"
    FROM_ZOOKEEPER = "nothing comes from ZooKeeper"
    NO_CLIENTS = "cut from clients"
    TO_CLIENTS = "nothing gets to clients"
    FROM_CLIENTS = "nothing comes from clients"
    RESETS = "connections are reset"
    SLOW_THREADS = "threads wait long for their turn"
    DELAYS = "the network is slow"
    FULL_DISK = "the disk is full"
    DISK_ERROR = "the disk fails once"
    LOST_ANSWERS = "answers of ZooKeeper are lost"


@dataclass(frozen=True, slots=True)
class Fault:
    """``size``: bytes, operations, or a factor, by the kind."""

    at: float
    kind: FaultKind
    broker: int
    seconds: float
    size: int

    def __str__(self) -> str:
        return (
            f"{self.at:8.3f} s for {self.seconds:.3f} s, broker {self.broker}: "
            f"{self.kind.value} ({self.size})"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """``flush``: brokers answer after the flush (``log.flush.before.expose``)."""

    seed: int
    brokers: int
    partitions: int
    producers: int
    consumers: int
    flush: bool
    segment_bytes: int
    seconds: float
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        head = (
            f"seed {self.seed}: {self.brokers} brokers, {self.partitions} partitions, "
            f"{self.producers} producers, {self.consumers} consumers, {self.seconds:.1f} s, "
            f"{'answers after' if self.flush else 'answers without'} the flush"
        )
        return "\n".join((head, *map(str, self.faults)))


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    chance = Chances(seed).of("plan")
    brokers = chance.randint(1, 3)
    seconds = chance.uniform(8, 25)
    faults = [_fault(chance, brokers, seconds) for _ in range(chance.randint(1, 7))]
    return Plan(
        seed,
        brokers,
        chance.randint(1, 4),
        chance.randint(1, 3),
        chance.randint(1, 2),
        chance.random() < 0.5,
        chance.choice([4_000, 10_000, 1 << 30]),
        seconds,
        tuple(sorted(faults, key=lambda each: each.at)),
    )


def _fault(chance: Random, brokers: int, seconds: float) -> Fault:
    kind = chance.choice(list(FaultKind))
    sizes = {
        FaultKind.SLOW_THREADS: chance.choice([100, 1000]),
        FaultKind.DELAYS: chance.choice([20, 200]),
        FaultKind.FULL_DISK: chance.choice([0, 100, 3_000]),
        FaultKind.LOST_ANSWERS: chance.choice([20, 50]),
    }
    lasts = chance.choice([chance.uniform(0.1, 2), chance.uniform(2, 12)])
    return Fault(
        chance.uniform(0.5, seconds),
        kind,
        chance.randint(1, brokers),
        lasts,
        sizes.get(kind, chance.randrange(40)),
    )
