"""Where the drill looks for the log of a topic: at the broker, or where it is led."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import pytest

from tallymark_audit.proof.drill.faults.ground_truth import GroundTruthWriter
from tallymark_audit.proof.drill.planning.topology import build
from tallymark_audit.proof.drill.running.processes import DrillProcesses
from tallymark_audit.proof.drill.running.side_actions import SideActions
from tallymark_audit.proof.drill.running.stage import Stage
from tallymark_audit.proof.harness.narrate import Narrator


class Led(Stage):
    """Partition 1 is led by broker 2, the others by broker 0; nothing can be asked for ``dc1``."""

    def leaders(self, cluster: str, topic: str) -> dict[int, int]:
        assert (cluster, topic) == ("dc2", "t")
        return {1: 2, 0: 0}


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_log_of_a_topic_is_where_it_is_led(tmp_path: Path, brokers: int) -> None:
    """Of one broker it was asked as well. Seed 17 had just killed that broker and started it again,
    so it got no answer, and the drill ended."""
    topology = build(tmp_path / "drill", [], brokers=brokers)
    processes = DrillProcesses(topology)
    truth = GroundTruthWriter(topology.sealed / "drill.sealed")
    stage = Led(topology, processes, cast(Narrator, None))
    try:
        for partition in (0, 1):
            topology.broker_folder("dc1").joinpath(f"t-{partition}").mkdir(parents=True)
        topology.broker_folder("dc1").joinpath("t-0.abc-stray").mkdir()
        actions: Any = SideActions(stage, truth, random.Random(1))
        cluster = "dc1" if brokers == 1 else "dc2"
        found = [path.relative_to(topology.folder) for path in actions._folders(cluster, "t")]
        assert [str(path) for path in found] == (
            ["dc1/broker-0/t-0", "dc1/broker-0/t-1"]
            if brokers == 1
            else ["dc2/broker-0/t-0", "dc2/broker-2/t-1"]
        )
    finally:
        truth.close()
        topology.release()
