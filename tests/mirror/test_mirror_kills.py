"""Mirrors are killed, brokers and ZooKeeper go away, under load: nothing is lost, the order holds,
and what is there twice is bounded and known by its identity."""

from __future__ import annotations

import random
import signal
import subprocess
import time

import pytest
from mirror_load import PER_SECOND, Load, all_there, repeated
from mirror_rig import Rig, eventually, rig, zookeeper

from tallymark.testing.zookeeper import ZooKeeperServer

__all__ = ["rig", "zookeeper"]
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
SLACK = 2.5
"""Offsets are stored once a second; on a busy machine a little later."""


def kill_again_and_again(rig: Rig, seed: int, kills: int, members: int) -> None:
    chance = random.Random(seed)
    rig.start("source", "target")
    rig.topic("source", "clicks", 4)
    log = rig.folder / "mirror.log"
    running: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        running.append(rig.process(log, "--from", "source", "--to", "target"))

    try:
        with Load(rig.producer("source"), "clicks", 4, seed) as load:
            for _ in range(members):
                start()
            eventually(lambda: rig.count("clicks") > 0, 60)
            for _ in range(kills):
                time.sleep(chance.uniform(0.2, 2.0))
                victim = running.pop(chance.randrange(len(running)))
                victim.kill()
                victim.wait()
                start()
                copied = rig.count("clicks")
                eventually(lambda at=copied: rig.count("clicks") > at, 60)  # type: ignore[misc]
            load.stop()
            eventually(lambda: all_there(rig, "clicks", load.sent), 60)
        for process in running:
            process.terminate()
        # The last one may not have come so far yet as to take note of signals.
        assert {process.wait(30) for process in running} <= {0, -signal.SIGTERM}, log.read_text()
    finally:
        for process in running:
            process.kill()
            process.wait()
    again = repeated(rig.read("target", "clicks"), load.sent)
    assert again.total() <= kills * SLACK * PER_SECOND
    assert "Traceback" not in log.read_text()


def test_two_processes_of_a_mirror_are_killed_in_turns(rig: Rig) -> None:
    kill_again_and_again(rig, seed=1, kills=3, members=2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12))
def test_kills_at_any_moment(rig: Rig, seed: int) -> None:
    kill_again_and_again(rig, seed, kills=8, members=1 + seed % 3)


def test_brokers_and_zookeeper_go_away_under_load(rig: Rig, zookeeper: ZooKeeperServer) -> None:
    """One process that lives copies everything once, whoever comes and goes around it."""
    rig.start("source", "target")
    rig.topic("source", "clicks", 2)
    mirror = rig.mirror()
    with Load(rig.producer("source"), "clicks", 2, seed=7) as load:
        eventually(lambda: rig.count("clicks") > 0)
        for name in ("source", "target"):
            rig.brokers[name].kill()
            time.sleep(0.5)
            rig.brokers[name].start()
            copied = rig.count("clicks")
            eventually(lambda at=copied: rig.count("clicks") > at, 30)  # type: ignore[misc]
        zookeeper.kill()
        time.sleep(1.0)
        zookeeper.start()
        load.stop()
        eventually(lambda: all_there(rig, "clicks", load.sent), 60)
    mirror.stop()
    again = repeated(rig.read("target", "clicks"), load.sent)
    assert again.total() == 0
