"""The drill goes on without mercy when a collector dies, and says so."""

from pathlib import Path

import pytest

from tallymark.errors import UserError
from tallymark_audit.proof.drill.planning.topology import build
from tallymark_audit.proof.drill.running.processes import Fleet
from tallymark_audit.proof.harness.commands import Command


class Ended(Command):
    """A command that is over."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, [], folder / "none.toml", folder, module="platform")
        self.wait(30)


class FleetOfEnded(Fleet):
    """Starts what is over at once."""

    def start(self, name: str) -> None:
        self._running[name] = Ended(name, self._logs)


def test_a_collector_that_dies_is_started_again_and_counted(tmp_path: Path) -> None:
    """A topic was made again under a mirror, the collector died of it at every start, and the drill
    ended with it instead of saying what was wrong."""
    topology = build(tmp_path / "drill", [])
    fleet = FleetOfEnded(topology)
    try:
        fleet.start("collector-dc1")
        for deaths in range(1, 6):
            fleet.check()
            assert len(fleet.deaths) == deaths
        assert fleet.deaths[0].startswith("collector-dc1 ended")
        with pytest.raises(UserError, match="collector-dc1 ended"):
            fleet.check()
    finally:
        fleet.close()
        topology.release()


def test_the_death_of_anything_else_ends_the_drill(tmp_path: Path) -> None:
    topology = build(tmp_path / "drill", [])
    fleet = FleetOfEnded(topology)
    try:
        fleet.start("mirror-dc1-to-aggregate")
        with pytest.raises(UserError, match="mirror-dc1-to-aggregate ended"):
            fleet.check()
        assert fleet.deaths == []
    finally:
        fleet.close()
        topology.release()
