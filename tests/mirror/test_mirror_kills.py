"""Mirrors are killed, brokers and ZooKeeper go away, under load: nothing is lost, the order holds,
and what is there twice is bounded and known by its identity."""

from __future__ import annotations

import random
import signal
import time

import pytest
from eventually import eventually
from mirror_fork import Command
from mirror_load import Load, all_there, repeated, steps_back
from mirror_rig import Rig, rig, zookeeper

from tallymark.deployment import Mirror as MirrorSettings
from tallymark.testing.zookeeper import ZooKeeperServer

__all__ = ["rig", "zookeeper"]
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
MOST = 150
"""What a kill may repeat: a quarter of what the load brings in a second."""
LOST = "the session is lost"
"""So a log says that a process lost its partitions as if it had been killed."""


def kill_again_and_again(rig: Rig, seed: int, kills: int, members: int) -> None:
    """Each kill takes what one process had sent and not stored, and that is bounded by a count. (It
    was bounded by time, and a busy machine made 2.5 s of a second.)"""
    chance = random.Random(seed)
    rig.start("source", "target")
    rig.topic("source", "clicks", 4)
    rig.mirrors = (MirrorSettings(source="source", target="target", max_repeated_records=MOST),)
    log = rig.folder / "mirror.log"
    running: list[Command] = []

    def start() -> None:
        running.append(rig.fork(log, "--from", "source", "--to", "target"))

    try:
        with Load(rig.producer("source"), "clicks", 4, seed) as load:
            for _ in range(members):
                start()
            eventually(lambda: rig.count("clicks") > 0)
            for _ in range(kills):
                time.sleep(chance.uniform(0.2, 2.0))
                victim = running.pop(chance.randrange(len(running)))
                victim.kill()
                victim.wait()
                start()
                copied = rig.count("clicks")
                eventually(lambda at=copied: rig.count("clicks") > at)
            load.stop()
            eventually(lambda: all_there(rig, "clicks", load.sent))
        for process in running:
            process.terminate()
        # The last one may not have come so far yet as to take note of signals.
        assert {process.wait(60) for process in running} <= {0, -signal.SIGTERM}, log.read_text()
    finally:
        for process in running:
            process.kill()
            process.wait()
    found = rig.read("target", "clicks")
    again = repeated(found, load.sent)
    losses = kills + log.read_text().count(LOST)
    assert max(steps_back(found), default=0) <= MOST
    assert again.total() <= losses * MOST
    assert "Traceback" not in log.read_text()


@pytest.mark.soak
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
            eventually(lambda at=copied: rig.count("clicks") > at)
        zookeeper.kill()
        time.sleep(1.0)
        zookeeper.start()
        load.stop()
        eventually(lambda: all_there(rig, "clicks", load.sent))
    mirror.stop()
    again = repeated(rig.read("target", "clicks"), load.sent)
    assert again.total() == 0
