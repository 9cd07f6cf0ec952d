"""What a run does: how large the cluster is, what its clients do, and which faults come when. All
of it is drawn from the seed; a plan with fewer faults is what a failing seed is shrunk to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Final

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
    NO_BROKERS = "cut from the other brokers"
    TO_BROKERS = "nothing gets to the other brokers"
    FROM_BROKERS = "nothing comes from the other brokers"
    NO_CLIENTS = "cut from clients"
    TO_CLIENTS = "nothing gets to clients"
    FROM_CLIENTS = "nothing comes from clients"
    RESETS = "connections are reset"
    SLOW_THREADS = "threads wait long for their turn"
    DELAYS = "the network is slow"
    FULL_DISK = "the disk is full"
    DISK_ERROR = "the disk fails once"
    LOST_ANSWERS = "answers of ZooKeeper are lost"


POWER: Final = (FaultKind.POWER, FaultKind.POWER_AT_WRITE)
BETWEEN_BROKERS: Final = (FaultKind.NO_BROKERS, FaultKind.TO_BROKERS, FaultKind.FROM_BROKERS)


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
class Transactions:
    """``implicit``: the protocol of Kafka 4. ``writers`` of transactions, and one copier. ``late``:
    the part of their requests that arrive after the client gave them up. ``hijacks``: when
    another producer begins with the id of a writer."""

    implicit: bool
    writers: int
    late: float
    hijacks: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """``flush``: brokers answer after the flush (``log.flush.before.expose``). ``replicas`` of each
    partition, of the groups' offsets, too; of three, two must have what is acknowledged."""

    seed: int
    brokers: int
    partitions: int
    producers: int
    consumers: int
    flush: bool
    segment_bytes: int
    seconds: float
    faults: tuple[Fault, ...]
    replicas: int = 1
    transactions: Transactions | None = None

    @property
    def min_insync(self) -> int:
        """Of the topic."""
        return min(2, self.replicas)

    def __str__(self) -> str:
        head = (
            f"seed {self.seed}: {self.brokers} brokers, {self.partitions} partitions, "
            f"{self.producers} producers, {self.consumers} consumers, {self.seconds:.1f} s, "
            f"{'answers after' if self.flush else 'answers without'} the flush, "
            f"{self.replicas} replicas"
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


def replicated_plan_of(seed: int) -> Plan:
    """The plan of a seed for three brokers and topics with three replicas. Of power failures there
    is at most one: two at a time may take what two brokers had acknowledged."""
    chance = Chances(seed).of("replicated plan")
    seconds = chance.uniform(12, 30)
    drawn = [_fault(chance, 3, seconds, BETWEEN_BROKERS) for _ in range(chance.randint(1, 7))]
    faults: list[Fault] = []
    for each in sorted(drawn, key=lambda each: each.at):
        if each.kind not in POWER or not any(other.kind in POWER for other in faults):
            faults.append(each)
    return Plan(
        seed,
        3,
        chance.randint(1, 3),
        chance.randint(1, 3),
        chance.randint(1, 2),
        chance.random() < 0.2,
        chance.choice([4_000, 10_000, 1 << 30]),
        seconds,
        tuple(faults),
        3,
    )


def transactional_plan_of(seed: int) -> Plan:
    """The plan of a seed with transactions: three brokers, three replicas."""
    chance = Chances(seed).of("transactional plan")
    plan = replicated_plan_of(seed)
    return replace(
        plan,
        producers=0,
        consumers=1,
        transactions=Transactions(
            chance.random() < 0.6,
            chance.randint(1, 3),
            chance.choice([0.0, 0.03, 0.1]),
            tuple(chance.uniform(2, plan.seconds) for _ in range(chance.choice([0, 0, 1, 2]))),
        ),
    )


def _fault(chance: Random, brokers: int, seconds: float, more: tuple[FaultKind, ...] = ()) -> Fault:
    kinds = [each for each in FaultKind if each not in BETWEEN_BROKERS]
    kind = chance.choice([*kinds, *more])
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
