"""The drill goes on without mercy when a collector dies, and says so."""

from pathlib import Path

import pytest
from eventually import eventually

from tallymark.errors import UserError
from tallymark_audit.proof.drill.planning.topology import ProxyHop, build
from tallymark_audit.proof.drill.running.processes import DrillProcesses
from tallymark_audit.proof.harness.commands import Command


class Ended(Command):
    """A command that is over."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, [], folder / "none.toml", folder, module="platform")
        self.wait(30)


class FleetOfEnded(DrillProcesses):
    """Starts what is over at once."""

    def start(self, name: str) -> None:
        self._running[name] = Ended(name, self._logs)


class FleetOfLiving(DrillProcesses):
    """Tells which processes it has."""

    def pid(self, name: str) -> int:
        return self._running[name].pid


def test_a_collector_that_dies_is_started_again_and_counted(tmp_path: Path) -> None:
    """A topic was made again under a mirror, the collector died of it at every start, and the drill
    ended with it instead of saying what was wrong."""
    topology = build(tmp_path / "drill", [])
    processes = FleetOfEnded(topology)
    try:
        processes.start("collector-dc1")
        for deaths in range(1, 6):
            processes.check()
            assert len(processes.deaths) == deaths
        assert processes.deaths[0].startswith("collector-dc1 ended")
        with pytest.raises(UserError, match="collector-dc1 ended"):
            processes.check()
    finally:
        processes.close()
        topology.release()


def test_the_death_of_anything_else_ends_the_drill(tmp_path: Path) -> None:
    topology = build(tmp_path / "drill", [])
    processes = FleetOfEnded(topology)
    try:
        processes.start("mirror-dc1-to-aggregate")
        with pytest.raises(UserError, match="mirror-dc1-to-aggregate ended"):
            processes.check()
        assert processes.deaths == []
    finally:
        processes.close()
        topology.release()


def test_what_is_held_stands_still_at_once_and_goes_on_when_it_is_let_go(tmp_path: Path) -> None:
    """A pause begins when its helper has started, on a busy machine a second later: followers
    copied what they were not to have. And the drill waited at its end for pauses that were over."""
    topology = build(tmp_path / "drill", [])
    processes = FleetOfLiving(topology)
    try:
        processes.start_proxy(ProxyHop("producer-to-dc1", ()), 1)
        pid = processes.pid("proxy-producer-to-dc1")
        processes.wait_ready("proxy-producer-to-dc1")
        processes.hold("proxy-producer-to-dc1", 300)
        eventually(lambda: state(pid) == "T")
        processes.resume("proxy-producer-to-dc1")
        eventually(lambda: state(pid) in "RS")
        processes.hold("proxy-producer-to-dc1", 300)
    finally:
        processes.close()  # returns, though something is held for minutes
        topology.release()


def state(pid: int) -> str:
    """What the kernel says of the process: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
