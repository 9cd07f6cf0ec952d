"""Two copiers on three brokers whose machines lose power: their files are put back to what was
synced. What was committed stays, nothing is there half or twice, and nothing hangs. The short twin
is the simulation, ``testing/simulation/test_transactional_seeds.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from copied_cluster import copied_cluster
from copies_judged import SOURCE, TARGET
from copy_story import COUNT, CopyStory
from powered_broker import Machine, lose_power_of
from replicated_cluster import ReplicatedCluster

from tallymark.protocol.topic_partition import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(1800)]

TOPICS: Final = (SOURCE, TARGET, TRANSACTIONS_TOPIC, OFFSETS_TOPIC)
FAILURES: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "one": (1, {}),
    "all but one": (2, {}),
    "all": (3, {"log_flush_before_expose": "true"}),
}
"""How many machines lose power at once, and with which settings what was acknowledged outlives
that: without a flush it is in the memory of all replicas, and gone with all of them."""
FIRST: Final = ((0.2, TRANSACTIONS_TOPIC), (0.45, OFFSETS_TOPIC), (0.7, TARGET))
"""When so much is copied the leader of this topic is among them."""


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("which", FAILURES)
def test_machines_lose_power_while_copiers_are_at_work(
    tmp_path: Path, which: str, protocol: int
) -> None:
    many, settings = FAILURES[which]
    machines: dict[int, Machine] = {}

    def prepare(cluster: ReplicatedCluster) -> None:
        machines.update({node: Machine(broker) for node, broker in cluster.brokers.items()})

    with (
        copied_cluster(tmp_path, protocol, prepare, **settings) as cluster,
        CopyStory(tmp_path, cluster.addresses, COUNT, protocol=protocol) as story,
    ):
        lost = 0
        for part, topic in FIRST:
            story.until(part)
            for one in TOPICS:
                cluster.wait_until_whole(one)
            lost += lose_power_of(machines, cluster.leader(topic), many)
        story.finish()
        assert lost > 0, "everything was synced"
