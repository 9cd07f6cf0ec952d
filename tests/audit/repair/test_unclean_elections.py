"""Three real brokers, a producer and a collector: what a failover loses is LOSS at its producer's
edge, an unclean election has a name, and what was saved comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from brokers_in_memory import BrokersInMemory
from click.testing import CliRunner
from eventually import eventually
from one_cluster import collecting, one_cluster, settings_of

from tallymark.client import Producer, SimpleConsumer
from tallymark.deployment import Deployment
from tallymark.log import OsFiles
from tallymark.log.saved_tails import saved_tails
from tallymark_audit.cli.incidents import incidents
from tallymark_audit.cli.repair import repair
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.repair.repairable import repairability
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.reading import queries
from tallymark_audit.store.reading.window_evidence import evidence
from tallymark_audit.store.schema.rows import Row

pytestmark = pytest.mark.process
EDGE = "producer-to-dc1"
WAITING = {State.OPEN, State.SETTLING, State.UNKNOWN}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersInMemory]:
    settings = {"replica_lag_time_max_ms": 1500, "replica_fetch_wait_max_ms": 100}
    with BrokersInMemory(tmp_path, on_disk=True, **settings) as brokers:
        yield brokers


@pytest.fixture
def deployment(
    cluster: BrokersInMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Deployment:
    monkeypatch.setenv("TALLYMARK_SETTINGS", str(settings_of(tmp_path)))
    addresses = ",".join(one.bootstrap_servers for one in cluster.brokers.values())
    return one_cluster(addresses, tmp_path, lake=None)


@pytest.fixture
def store(deployment: Deployment) -> Iterator[Store]:
    with open_store(deployment.audit_store) as opened:
        yield opened


def rows(store: Store) -> list[Row]:
    with store.read() as connection:
        return queries.windows(connection, EDGE)


def decided(store: Store, claimed: int) -> bool:
    found = rows(store)
    waiting = any(State(row["state"]) in WAITING for row in found)
    return not waiting and sum(row["claimed"] for row in found) >= claimed


def missing(store: Store) -> int:
    return sum(row["missing"] for row in rows(store))


def send(deployment: Deployment, count: int, acks: Literal["all", 1] = "all") -> None:
    """Return when all are acknowledged, and the claims are on their way."""
    servers = deployment.cluster("dc1").bootstrap_servers
    with Producer(bootstrap_servers=servers, server="web-1", acks=acks) as producer:
        for each in [producer.send("views", b"%d" % one) for one in range(count)]:
            each.result(60)


def leave_the_leader_alone(cluster: BrokersInMemory) -> int:
    """Kill the others; returns the leader."""
    leader = cluster.leader("views")
    for one, broker in cluster.brokers.items():
        if one != leader:
            broker.kill()
    return leader


def read_back(cluster: BrokersInMemory) -> int:
    """Records that consumers can read."""
    with SimpleConsumer(bootstrap_servers=cluster.any_address) as reader:
        return reader.end_offsets("views")[0]


def can_be_repaired(deployment: Deployment, store: Store) -> tuple[int, str]:
    """What pages say: how many messages, and the end of the command."""
    (edge,) = (one for one in derive_edges(deployment) if one.name == EDGE)
    bad = [row["window"] for row in rows(store) if row["missing"]]
    with store.read() as connection:
        found = [
            repairability(connection, deployment, edge, evidence(connection, EDGE, "views", at), 0)
            for at in bad
        ]
    (end,) = {one.commands[0].partition(" --to ")[2].partition(" ")[2] for one in found}
    assert all(one.saved == one.repairable == one.of for one in found)
    return sum(one.saved for one in found), end


def test_an_unclean_election_is_named_and_repaired_from_the_saved_records(
    cluster: BrokersInMemory, deployment: Deployment, store: Store, tmp_path: Path
) -> None:
    cluster.create("views", min_insync_replicas=1, unclean_leader_election_enable="true")
    with collecting(deployment):
        send(deployment, 100)
        leader = leave_the_leader_alone(cluster)
        eventually(lambda: cluster.state("views").isr == (leader,))
        send(deployment, 50)
        cluster.brokers[leader].kill()
        others = [one for one in cluster.brokers if one != leader]
        cluster.brokers[others[0]].start()
        eventually(lambda: cluster.state("views").is_elected_unclean)
        cluster.brokers[leader].start()
        cluster.brokers[others[1]].start()
        eventually(lambda: len(cluster.state("views").isr) == 3)
        ((folder, tail),) = saved_tails(OsFiles(), str(tmp_path / f"broker-{leader}" / "broker"))
        assert (tail.from_offset, tail.to_offset) == (100, 150)
        eventually(lambda: decided(store, 150) and missing(store) == 50)

        def told() -> set[str]:
            with store.read() as connection:
                return {row["kind"] for row in queries.all_incidents(connection)}

        eventually(lambda: {"unclean-election", "given-up"} <= told())
        shown = CliRunner().invoke(incidents, ["--logs", "--json"]).output
        assert f"broker {others[0]} leads from leader epoch" in shown
        assert folder in shown
        assert can_be_repaired(deployment, store) == (50, f"--tails {folder}")
        plan = CliRunner().invoke(repair, ["--tails", folder])
        assert "50 messages can be copied" in plan.output
        assert read_back(cluster) == 100, "a plan copies nothing"
        done = CliRunner().invoke(repair, ["--tails", folder, "--apply", "--verify"])
        assert done.exit_code == 0, done.output
        assert read_back(cluster) == 150
        again = CliRunner().invoke(repair, ["--tails", folder, "--apply"])
        assert (again.exit_code, read_back(cluster)) == (0, 150)
        assert {row["state"] for row in rows(store)} == {State.COMPLETE}


@pytest.mark.soak
def test_what_only_the_leader_had_is_loss_and_was_never_counted(
    cluster: BrokersInMemory, deployment: Deployment, store: Store
) -> None:
    """acks=1 is answered before the followers have it. The collector reads what is committed, so it
    never counted what the next leader does not have."""
    cluster.create("views", min_insync_replicas=2)
    with collecting(deployment):
        send(deployment, 100)
        eventually(lambda: decided(store, 100))
        leader = leave_the_leader_alone(cluster)
        eventually(lambda: leader in cluster.state("views").isr)
        send(deployment, 20, acks=1)
        partition = cluster.partition(leader, "views")
        assert partition is not None
        assert (partition.log.end_offset, partition.high_watermark) == (120, 100)
        eventually(lambda: sum(row["claimed"] for row in rows(store)) == 120)
        assert sum(row["observed"] for row in rows(store)) == 100
        cluster.brokers[leader].kill()
        for one, broker in cluster.brokers.items():
            if one != leader:
                broker.start()
        eventually(lambda: cluster.state("views").leader not in (leader, -1))
        cluster.brokers[leader].start()
        eventually(lambda: len(cluster.state("views").isr) == 3)
        eventually(lambda: decided(store, 120) and missing(store) == 20)
    found = rows(store)
    assert sum(row["observed"] for row in found) == 100
    assert {row["state"] for row in found} == {State.COMPLETE, State.LOSS}
    assert not cluster.state("views").unclean
