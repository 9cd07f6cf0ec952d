"""The drill goes on without mercy when a collector dies, and says so."""

from pathlib import Path

import pytest

from tallymark.errors import UserError
from tallymark_audit.proof.drill.planning.topology import build
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
