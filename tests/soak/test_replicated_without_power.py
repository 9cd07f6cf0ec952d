"""Machines of three brokers lose power under load: their files are put back to what was synced.
What was acknowledged with acks=all is read, in order, once, and no stored position runs backwards:
where fewer than all have lost their tails, and where all have, with ``log.flush.before.expose``.

Logs are not flushed by time here, so a machine loses all that it was not told to keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from asked_cluster import wait_for
from cluster_members import zookeeper_or_skip
from foreign_clients.failover import OFFSETS, Story, findings, has_coordinator
from foreign_clients.flows.every import flow
from powered_broker import Machine, lose_power_of
from produce_consume_validate import ConfluentWriter, TallymarkWriter, Writer, validate
from replicated_cluster import ReplicatedCluster

from tallymark import Admin

pytestmark = pytest.mark.process

FAILURES: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "one": (1, {}),
    "all but one": (2, {}),
    "all": (3, {"log_flush_before_expose": "true"}),
}
"""How many machines lose power at once, and the settings with which what was acknowledged outlives
that: without a flush it is in the memory of all replicas, and gone with all of them."""
NEVER_MS: Final = 3_600_000
CLIENTS: Final = ("tallymark", "librdkafka")
"""They read in groups, each from a topic of its own, and store positions."""


class Powered:
    """A cluster on three machines. ``topic`` is written to by the writers."""

    topic = "t"

    def __init__(self, folder: Path, zookeeper: Any, **settings: Any) -> None:
        self.cluster = ReplicatedCluster(
            folder,
            zookeeper,
            min_insync_replicas=2,
            log_flush_interval_ms=NEVER_MS,
            offsets_topic_num_partitions=1,
            **settings,
        )
        self.machines = {node: Machine(one) for node, one in self.cluster.brokers.items()}

    def lose_power(self, topic: str, many: int) -> int:
        """The leader of ``topic`` is among them; returns how many bytes that took."""
        return lose_power_of(self.machines, self.cluster.leader(topic), many)

    def writers(self, *kinds: type[ConfluentWriter] | type[TallymarkWriter]) -> list[Writer]:
        """One of each kind; they have begun."""
        self.cluster.create(self.topic)
        made: list[Writer] = [
            kind(kind.__name__, self.cluster.addresses, self.topic, keys=0, pause=0.05)
            for kind in kinds
        ]
        for writer in made:
            writer.start()
        return made

    def finish(self, writers: Sequence[Writer]) -> None:
        for writer in writers:
            writer.finish()
        found = validate(self.cluster.addresses, self.topic, writers, *self.cluster.data)
        print(found)
        assert found.problems == [], str(found)


def progress(writers: Sequence[Writer], count: int = 200) -> None:
    """Until each of the writers was acknowledged so many more."""
    targets = [(writer, len(writer.acked) + count) for writer in writers]
    wait_for(lambda: all(len(one.acked) >= target for one, target in targets), "acknowledgements")


def test_what_was_acknowledged_survives_the_power_of_all_brokers_but_one(tmp_path: Path) -> None:
    with zookeeper_or_skip(tmp_path) as server:
        powered = Powered(tmp_path, server)
        with powered.cluster:
            writers = powered.writers(TallymarkWriter)
            progress(writers)
            assert powered.lose_power(powered.topic, 2) > 0, "everything was synced"
            progress(writers)
            powered.finish(writers)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("which", FAILURES)
def test_records_and_positions_survive_power_failures(tmp_path: Path, which: str) -> None:
    many, settings = FAILURES[which]
    with zookeeper_or_skip(tmp_path) as server:
        powered = Powered(tmp_path, server, **settings)
        with powered.cluster as cluster:
            writers = powered.writers(ConfluentWriter, TallymarkWriter)
            story = readers(cluster, tmp_path)
            lost = 0
            with story.told():
                story.all_go_on("the start")
                for topic in (powered.topic, OFFSETS, powered.topic, OFFSETS):
                    progress(writers)
                    for one in (powered.topic, OFFSETS, *of_readers()):
                        cluster.wait_until_whole(one)
                    lost += powered.lose_power(topic, many)
                    story.all_go_on(f"the leader of {topic} and {many - 1} more lost power")
            assert lost > 0, "everything was synced"
            powered.finish(writers)
            assert findings(story) == []


def of_readers() -> list[str]:
    return [f"of-{name}" for name in CLIENTS]


def readers(cluster: ReplicatedCluster, folder: Path) -> Story:
    """Clients that write and read topics of their own, not started."""
    for topic in of_readers():
        cluster.create(topic)
    with Admin(bootstrap_servers=cluster.addresses) as admin:
        wait_for(lambda: has_coordinator(admin), "a coordinator")
    flows = [flow(name, cluster.addresses, f"of-{name}", folder) for name in CLIENTS]
    return Story(cluster.addresses, flows)
