"""The cost of `tallymark up` while nothing is published.

    python bench/idle.py [--seconds 60] [--settle 45] [--settle-kept 180] [--scale 1]
                         [--only empty,kept] [--json FILE]

Starts the whole stack with default settings on free ports, lets it settle, and prints the
processor time of each of its processes over so many seconds, as a share of one core: supervisor,
the ZooKeeper process and its JVM, brokers, mirrors, registry, collectors, dashboards. This is done
once with an empty store, and once with 1,040,000 stored cells and 60,000 verdicts of 20 topics
(``--scale`` makes fewer). Their producers never report again, so a part of their windows stays
UNKNOWN for ever. Shares are of processor time, so other load on the machine changes them little. A
stack that starts judges all these windows once; ``--settle-kept`` is the time for that.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import audit_store
import psutil
from support.measure import machine, table

from tallymark.client import Admin
from tallymark.deployment import Deployment, dump_toml
from tallymark.processes.ports import with_free_ports
from tallymark.processes.supervisor.control import ask
from tallymark.processes.supervisor.run import control_file
from tallymark_audit.proof.harness.commands import Command
from tallymark_audit.store import open_store

TOPICS: Final = 20
WINDOWS: Final = 1000
INSTANCES: Final = 13
"""Times 4 tiers, times topics and windows: 1,040,000 cells; times 3 edges: 60,000 verdicts."""
START_SECONDS: Final = 240


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--settle", type=float, default=45)
    arguments.add_argument("--settle-kept", type=float, default=180)
    arguments.add_argument("--scale", type=float, default=1.0)
    arguments.add_argument("--only", default="empty,kept")
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    results: dict[str, Any] = {"machine": machine(), "seconds": given.seconds}
    with tempfile.TemporaryDirectory() as folder:
        deployment, settings = settings_in(Path(folder))
        for part in given.only.split(","):
            if part == "kept":
                keep(deployment, settings, given.scale)
            with running(deployment, settings) as up:
                time.sleep(given.settle_kept if part == "kept" else given.settle)
                results[part] = shares(deployment, up, given.seconds)
            print_shares(part, results[part])
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")


def settings_in(folder: Path) -> tuple[Deployment, Path]:
    """The default stack, with its data in ``folder`` and free ports."""
    deployment = with_free_ports(Deployment().model_copy(update={"data_dir": folder / "data"}))
    settings = folder / "tallymark.toml"
    settings.write_text(dump_toml(deployment))
    return deployment, settings


@contextmanager
def running(deployment: Deployment, settings: Path) -> Iterator[Command]:
    """The stack, from ready to stopped."""
    up = Command("up", ["up", "--settings", settings], settings, deployment.log_dir)
    try:
        up.wait_for(lambda: up.said("The stack is up"), "start", START_SECONDS)
        yield up
    finally:
        up.stop()


def keep(deployment: Deployment, settings: Path, scale: float) -> None:
    """Create topics, and write their cells and verdicts of a day into the store."""
    topics = [f"kept-{number:02}" for number in range(TOPICS)]
    with running(deployment, settings):
        for cluster in deployment.clusters:
            with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                for topic in topics:
                    if topic not in admin.topics():
                        admin.create_topic(topic, 1)
    audit_store.INSTANCES = INSTANCES
    count = max(1, int(WINDOWS * scale))
    last = time.time_ns() // 1_000_000 // audit_store.WINDOW * audit_store.WINDOW
    windows = [last - (count + 10 - number) * audit_store.WINDOW for number in range(count)]
    clock = audit_store.Clock()
    with open_store(deployment.audit_store) as store:
        for at in range(0, count, audit_store.AT_ONCE):
            some = windows[at : at + audit_store.AT_ONCE]
            audit_store.write_cells(store, clock, topics, some)


def shares(deployment: Deployment, up: Command, seconds: float) -> dict[str, float]:
    """Percent of a core that each process uses."""
    names = {up.pid: "up"}
    for one in ask(control_file(deployment), {"do": "status"})["processes"]:
        names[one["pid"]] = one["name"]
    before = times(up.pid)
    began = time.monotonic()
    time.sleep(seconds)
    after = times(up.pid)
    passed = time.monotonic() - began
    found: dict[str, float] = {}
    for pid, (spent, parent, program) in after.items():
        name = names.get(pid) or f"{names.get(parent, '?')}: {program}"
        used = spent - before.get(pid, (0.0, 0, ""))[0]
        found[name] = found.get(name, 0.0) + 100 * used / passed
    return found


def times(root: int) -> dict[int, tuple[float, int, str]]:
    """Process -> (processor seconds so far, its parent, its program), for all children of
    ``root``."""
    found: dict[int, tuple[float, int, str]] = {}
    top = psutil.Process(root)
    for each in [top, *top.children(recursive=True)]:
        spent = each.cpu_times()
        found[each.pid] = (spent.user + spent.system, each.ppid(), each.name())
    return found


def print_shares(part: str, found: dict[str, float]) -> None:
    rows = [[name, f"{share:.2f}"] for name, share in found.items()]
    print(f"\n{part}: percent of one core")
    print(table([["process", "%"], *rows, ["all", f"{sum(found.values()):.2f}"]]))


if __name__ == "__main__":
    main()
