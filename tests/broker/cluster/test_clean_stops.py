"""Three brokers as processes that are stopped in order, one after the other, while a producer with
acks=all writes; and the commands by which an operator moves leads.

The same with whole brokers under simulated time is in ``tests/testing/simulation``.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from asked_cluster import wait_for
from click.testing import CliRunner, Result
from cluster_members import zookeeper_or_skip
from produce_consume_validate import TallymarkWriter, validate
from replicated_cluster import ReplicatedCluster

from tallymark.cli.main import command

pytestmark = pytest.mark.process


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    with zookeeper_or_skip(tmp_path) as server, ReplicatedCluster(tmp_path, server) as brokers:
        brokers.create("t", min_insync_replicas=2)
        yield brokers


def run(cluster: ReplicatedCluster, *arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments, "-b", cluster.addresses])


def progress(writer: TallymarkWriter) -> None:
    """Until it was acknowledged 50 more."""
    target = len(writer.acked) + 50
    wait_for(lambda: len(writer.acked) >= target, "acknowledgements")


def stop_each(cluster: ReplicatedCluster, rounds: int) -> None:
    writer = TallymarkWriter("tallymark", cluster.addresses, "t", keys=0, pause=0.02)
    writer.start()
    for _ in range(rounds):
        for node_id, broker in cluster.brokers.items():
            progress(writer)
            led = cluster.leader("t") == node_id
            begin = len(broker.log.read_text())
            broker.stop()
            told = broker.log.read_text()[begin:]
            assert not led or "leads handed over count=1 kept=0" in told, told
            progress(writer)
            broker.start(180)
            cluster.wait_until_whole("t")
    writer.finish()
    outcome = validate(cluster.addresses, "t", [writer], *cluster.data)
    assert outcome.problems == [], str(outcome)


@pytest.mark.soak  # the short twin is the one of whole brokers under simulated time
def test_each_broker_is_stopped_and_started_under_load(cluster: ReplicatedCluster) -> None:
    stop_each(cluster, 1)


@pytest.mark.soak
def test_each_broker_is_stopped_and_started_many_times(cluster: ReplicatedCluster) -> None:
    stop_each(cluster, 10)


def test_an_operator_moves_leads_and_stops_all(cluster: ReplicatedCluster, tmp_path: Path) -> None:
    first = cluster.leader("t")
    back = tmp_path / "back.json"
    # A broker is emptied of leads; again there is nothing to do.
    assert run(cluster, "brokers", "drain", "99", "--yes").exit_code == 1
    assert run(cluster, "brokers", "drain", str(first)).exit_code == 1, "it has to be confirmed"
    drained = run(cluster, "brokers", "drain", str(first), "--yes", "--back", str(back))
    assert drained.exit_code == 0, drained.output
    assert "1 lead moved, 0 left" in drained.output
    assert cluster.leader("t") != first
    assert cluster.partition("t").replica_nodes[-1] == first
    again = run(cluster, "brokers", "drain", str(first), "--yes")
    assert (again.exit_code, again.output) == (0, f"broker {first} leads nothing\n")
    # And back, by what was written before.
    assert json.loads(back.read_text())["partitions"][0]["replicas"][0] == first
    assert run(cluster, "reassign", "apply", str(back), "--yes").exit_code == 0
    elected = run(cluster, "elect", "preferred", "--topic", "t", "--json")
    assert elected.exit_code == 0, elected.output
    assert json.loads(elected.output) == [{"topic": "t", "partition": 0, "elected": True}]
    wait_for(lambda: cluster.leader("t") == first, "the preferred leader")
    assert "nothing to elect" in run(cluster, "elect", "preferred").output
    assert "nothing to elect" in run(cluster, "elect", "unclean", "--yes").output
    unknown = run(cluster, "elect", "preferred", "--topic", "nope")
    assert unknown.exit_code == 1
    assert "nope" in str(unknown.exception)
    too_few = run(cluster, "brokers", "drain", str(first), "--replicas", "--yes")
    assert too_few.exit_code == 1
    assert "3 replicas on 2 brokers" in str(too_few.exception)
    # All at once, each told twice: none waits for what cannot come.
    processes = [broker._process for broker in cluster.brokers.values()]
    for _ in range(2):
        for process in processes:
            assert process is not None
            process.send_signal(signal.SIGTERM)
    for broker, process in zip(cluster.brokers.values(), processes, strict=True):
        assert process is not None
        assert process.wait(60) == 0
        assert "not handed over in time" not in broker.log.read_text()
