"""How long a partition cannot be written when the broker that leads it goes.

    python bench/failover.py [--quick] [--rounds N] [--folder FOLDER]

Three brokers of ours and ZooKeeper on this machine, a topic with three replicas
(``min.insync.replicas=2``), a client with ``acks=all``. The gap is the longest time between two
acknowledgements around the fault. After each fault the broker comes back, and the next one waits
until the ISR is whole::

    clean stop                  SIGTERM
    kill -9                     others find that connections are refused
    kill -9 without suspects    the same, where brokers do not report it: the session has to end
    SIGSTOP                     nothing is refused: the session has to end
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from support.gap_prober import Prober
from support.measure import machine, table
from support.own_broker import OwnBroker
from support.replicated import SESSION_MS, Cluster, cluster

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


FAULTS: Final[dict[str, tuple[Callable[[OwnBroker], None], Callable[[OwnBroker], None]]]] = {
    "clean stop": (OwnBroker.stop, OwnBroker.start),
    "kill -9": (OwnBroker.kill, OwnBroker.start),
    "SIGSTOP": (stand_still, go_on),
}
"""What is done to the leader, and how it comes back."""


def gaps(brokers: Cluster, faults: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """The gap of each round, in seconds, by the fault."""
    brokers.create(TOPIC, 3, 2)
    found: dict[str, list[float]] = {name: [] for name in faults}
    prober = Prober(brokers, TOPIC)
    prober.start()
    try:
        for _ in range(rounds):
            for name in faults:
                found[name].append(_gap(brokers, prober, name))
    finally:
        prober.finish()
    return found


def _gap(brokers: Cluster, prober: Prober, fault: str) -> float:
    harm, mend = FAULTS[fault]
    _wait(lambda: len(prober.in_sync()) == 3 and bool(prober.acknowledged), "the ISR is not whole")
    victim, began = brokers.brokers[prober.leader()], time.monotonic()
    harm(victim)
    try:
        _wait(lambda: prober.acknowledged[-1] > began + _AFTER_SECONDS, "nothing is acknowledged")
        _wait(lambda: prober.in_sync() != {1, 2, 3}, "the victim stays in the ISR")
        time.sleep(_AFTER_SECONDS)
        return prober.longest_gap(began)
    finally:
        mend(victim)


def _wait(done: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"after {_LONGEST_SECONDS:g} s {otherwise}")
        time.sleep(0.05)


def percentile(values: Sequence[float], part: float) -> float:
    """By rank: the longest of a few rounds is their p99."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two rounds")
    parser.add_argument("--rounds", type=int, default=0, help="2 with --quick, else 10")
    parser.add_argument("--folder", type=Path, help="where data is written")
    args = parser.parse_args()
    rounds = args.rounds or (2 if args.quick else 10)
    rows = [("the leader's", "rounds", "p50, s", "p99, s", "shortest, s")]
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="tallymark-bench-") as name:
        for folder, before, suffix in (("own", "", ""), ("silent", SILENT, " without suspects")):
            faults = list(FAULTS) if not suffix else ["kill -9"]
            with cluster(Path(name) / folder, before) as brokers:
                for fault, seconds in gaps(brokers, faults, rounds).items():
                    p50, p99 = percentile(seconds, 0.5), percentile(seconds, 0.99)
                    numbers = (f"{p50:.2f}", f"{p99:.2f}", f"{min(seconds):.2f}")
                    rows.append((fault + suffix, str(rounds), *numbers))
    print(f"machine: {machine()}; session {SESSION_MS} ms")
    print(table(rows), flush=True)


if __name__ == "__main__":
    main()
