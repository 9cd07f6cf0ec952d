"""How long a partition cannot be written when the broker that leads it goes.

    python bench/failover.py [--only faults,leads,partitions] [--quick] [--rounds N]
                             [--partitions N] [--leads N] [--folder FOLDER]

Three brokers of ours and ZooKeeper on this machine, a topic with three replicas
(``min.insync.replicas=2``), a client with ``acks=all``. The gap is the longest time between two
acknowledgements around the fault. After each fault the broker comes back, and the next one waits
until the ISR is whole::

    clean stop                  SIGTERM
    kill -9                     others find that connections are refused
    kill -9 without suspects    the same, where brokers do not report it: the session has to end
    SIGSTOP                     nothing is refused: the session has to end

Beside the gap is how long the victim stayed registered in ZooKeeper, which no broker can shorten
where nothing is refused (ZooKeeper ends sessions in steps of its tickTime, 0.5 s here), and the
processor time of all brokers in the round. ``leads``: broker 1 leads 1,000 partitions and stops
cleanly. ``partitions``: the faults beside 10,000 partitions, until all of them have a leader again.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from support.gap_prober import Prober
from support.measure import cpu_seconds, machine, table
from support.own_broker import OwnBroker
from support.replicated import SESSION_MS, Cluster, cluster
from support.replication.many_leads import (
    ManyPartitions,
    handed_over,
    start_until_ready,
    stop_in_background,
)

from tallymark.coordination import ZooKeeper, paths

SILENT: Final = (
    "from tallymark.broker.replicas.suspects import SuspectReports; "
    "SuspectReports.refused = lambda self, broker: None; "
)
"""Runs in each broker first: it reports nothing."""
TOPIC: Final = "gaps"
_LONGEST_SECONDS: Final = 60.0
_AFTER_SECONDS: Final = 1.0


def stand_still(broker: OwnBroker) -> None:
    os.kill(broker.pid, signal.SIGSTOP)


def go_on(broker: OwnBroker) -> None:
    os.kill(broker.pid, signal.SIGCONT)


FAULTS: Final[dict[str, tuple[Callable[[OwnBroker], object], Callable[[OwnBroker], object]]]] = {
    "clean stop": (stop_in_background, OwnBroker.start),
    "kill -9": (OwnBroker.kill, OwnBroker.start),
    "SIGSTOP": (stand_still, go_on),
}
"""What is done to the leader, and how it comes back."""
PARTS: Final = ("faults", "leads", "partitions")


class Round(NamedTuple):
    """In seconds: the gap, how long the victim stayed registered, processor time of the brokers
    that were left, and until each of many partitions had a leader again (0: there are none)."""

    gap: float
    registered: float
    cpu: float
    all_led: float = 0.0


def rounds_of(
    brokers: Cluster, faults: Iterable[str], rounds: int, many: ManyPartitions | None = None
) -> dict[str, list[Round]]:
    """What each round found, by the fault."""
    brokers.create(TOPIC, 3, 2)
    found: dict[str, list[Round]] = {name: [] for name in faults}
    prober = Prober(brokers, TOPIC)
    prober.start()
    try:
        for _ in range(rounds):
            for name, each in found.items():
                each.append(_round(brokers, prober, name, many))
    finally:
        prober.finish()
    return found


def _round(brokers: Cluster, prober: Prober, fault: str, many: ManyPartitions | None) -> Round:
    harm, mend = FAULTS[fault]
    _wait(lambda: len(prober.in_sync()) == 3 and bool(prober.acknowledged), "the ISR is not whole")
    if many is not None:
        many.wait_until_whole()
    number = prober.leader()
    victim = brokers.brokers[number]
    others = [one for one in brokers.brokers.values() if one is not victim]
    gone: list[float] = []
    with ZooKeeper(brokers.zookeeper) as zookeeper:
        zookeeper.exists(paths.broker(number), lambda: gone.append(time.monotonic()))
        used, began = sum(cpu_seconds(one.pid) for one in others), time.monotonic()
        stopping = harm(victim)
        try:
            led = 0.0
            if many is not None:
                many.wait_until_led_without(number)
                led = time.monotonic() - began
            _wait(
                lambda: prober.acknowledged[-1] > began + _AFTER_SECONDS, "nothing is acknowledged"
            )
            _wait(lambda: prober.in_sync() != {1, 2, 3}, "the victim stays in the ISR")
            _wait(lambda: bool(gone), "the victim stays registered")
            time.sleep(_AFTER_SECONDS)
            used = sum(cpu_seconds(one.pid) for one in others) - used
            return Round(prober.longest_gap(began), gone[0] - began, used, led)
        finally:
            if isinstance(stopping, threading.Thread):
                stopping.join()
            mend(victim)


def _wait(done: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"after {_LONGEST_SECONDS:g} s {otherwise}")
        time.sleep(0.05)


def percentile(values: Iterable[float], part: float) -> float:
    """By rank: the longest of a few rounds is their p99."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


HEADING: Final = (
    *("the leader's", "rounds", "gap p50, s", "gap p99, s", "shortest, s"),
    *("registered p99, s", "gap after that p99, s", "all led p99, s", "CPU of the others p50, s"),
)


def row_of(fault: str, found: Sequence[Round]) -> tuple[str, ...]:
    """A line of the table."""
    gaps = [one.gap for one in found]
    after = [max(0.0, one.gap - one.registered) for one in found]
    numbers = (
        *(percentile(gaps, 0.5), percentile(gaps, 0.99), min(gaps)),
        *(percentile((one.registered for one in found), 0.99), percentile(after, 0.99)),
        *(percentile((one.all_led for one in found), 0.99),),
        *(percentile((one.cpu for one in found), 0.5),),
    )
    return (fault, str(len(found)), *(f"{number:.2f}" for number in numbers))


def faults(folder: Path, rounds: int) -> None:
    """Each fault in turn, then without reports of suspects."""
    rows: list[tuple[str, ...]] = [HEADING]
    for name, before, suffix in (("own", "", ""), ("silent", SILENT, " without suspects")):
        chosen = list(FAULTS) if not suffix else ["kill -9"]
        with cluster(folder / name, before) as brokers:
            found = rounds_of(brokers, chosen, rounds)
            rows += [row_of(fault + suffix, each) for fault, each in found.items()]
    print(table(rows), flush=True)


def leads(folder: Path, rounds: int, count: int) -> None:
    """Broker 1 leads so many partitions and stops cleanly; it starts again, and gets them back."""
    rows: list[tuple[str, ...]] = [
        ("clean stop of the leader of", "round", "moved, s", "ready again, s", "CPU of all, s")
    ]
    with cluster(folder / "leads") as brokers:
        many = ManyPartitions(brokers, count, first=True)
        print(f"{count} partitions were created in {many.create():.1f} s", flush=True)
        for number in range(1, rounds + 1):
            used = brokers.cpu_seconds()
            brokers.brokers[1].stop()
            handed = handed_over(brokers.brokers[1])
            moved = "none" if handed is None else f"{handed.seconds:.2f} ({handed.moved})"
            ready = start_until_ready(brokers.brokers[1])
            many.wait_until_whole()
            many.give_back()
            cpu = brokers.cpu_seconds() - used
            rows.append((f"{count} partitions", str(number), moved, f"{ready:.2f}", f"{cpu:.1f}"))
    print(table(rows), flush=True)


def partitions(folder: Path, rounds: int, count: int) -> None:
    """The faults beside so many partitions, and a start after a clean stop."""
    with cluster(folder / "partitions") as brokers:
        many = ManyPartitions(brokers, count, first=False)
        print(f"{count} partitions were created in {many.create():.1f} s", flush=True)
        found = rounds_of(brokers, FAULTS, rounds, many)
        rows = [HEADING, *(row_of(fault, each) for fault, each in found.items())]
        many.wait_until_whole()
        for _ in range(rounds):
            brokers.brokers[2].stop()
            ready = start_until_ready(brokers.brokers[2])
            used = cpu_seconds(brokers.brokers[2].pid)
            print(f"ready again after a clean stop: {ready:.2f} s, {used:.2f} s of processor")
            many.wait_until_whole()
    print(table(rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two rounds")
    parser.add_argument("--rounds", type=int, default=0, help="2 with --quick, else 10")
    parser.add_argument("--only", default="faults", help=",".join(PARTS))
    parser.add_argument("--leads", type=int, default=1_000, help="that a clean stop moves")
    parser.add_argument("--partitions", type=int, default=10_000, help="beside the one written to")
    parser.add_argument("--folder", type=Path, help="where data is written")
    args = parser.parse_args()
    rounds = args.rounds or (2 if args.quick else 10)
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="tallymark-bench-") as name:
        print(f"machine: {machine()}; session {SESSION_MS} ms", flush=True)
        if "faults" in args.only:
            faults(Path(name), rounds)
        if "leads" in args.only:
            leads(Path(name), rounds, args.leads)
        if "partitions" in args.only:
            partitions(Path(name), rounds, args.partitions)


if __name__ == "__main__":
    main()
