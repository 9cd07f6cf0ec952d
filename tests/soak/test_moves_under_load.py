"""A replica moves under load, with a limit, while brokers of the move are killed: what was
acknowledged with acks=all is read, in order, once, and nothing is left of the move."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asked_cluster import wait_for
from cluster_members import zookeeper_or_skip
from commands import run_command
from produce_consume_validate import ConfluentWriter, TallymarkWriter, Writer, validate
from replicated_cluster import ReplicatedCluster

from tallymark import Admin
from tallymark.cli.admin.reassign import command
from tallymark.client.admin.move_limits import limited_topics
from tallymark.errors import TallymarkError

pytestmark = pytest.mark.process

MIN_IN_SYNC = 2
SLOW = "2000"
FAST = "100000000"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    settings: dict[str, Any] = {
        "replica_fetch_max_bytes": 10_000,
        "log_segment_delete_delay_ms": 0,
    }
    with (
        zookeeper_or_skip(tmp_path) as server,
        ReplicatedCluster(tmp_path, server, 4, **settings) as brokers,
    ):
        brokers.create("t", min_insync_replicas=MIN_IN_SYNC)
        yield brokers


def progress(writers: list[Writer], count: int = 100) -> None:
    targets = [(writer, len(writer.acked) + count) for writer in writers]
    wait_for(lambda: all(len(one.acked) >= target for one, target in targets), "acknowledgements")


def reassign(cluster: ReplicatedCluster, *words: str, code: int = 0) -> str:
    return run_command(command, *words, "-b", cluster.addresses, code=code).output


def moves(cluster: ReplicatedCluster) -> bool:
    with Admin(bootstrap_servers=cluster.addresses) as admin:
        return bool(admin.moving_partitions())


def has_ended(cluster: ReplicatedCluster) -> bool:
    try:
        return not moves(cluster)
    except TallymarkError:  # the controller has just been killed
        return False


def logs_on(cluster: ReplicatedCluster, node_id: int) -> list[str]:
    return sorted(one.name for one in cluster.brokers[node_id].data.glob("t-0*"))


def move(
    cluster: ReplicatedCluster, writers: list[Writer], plan: Path, killed: tuple[str, ...]
) -> None:
    """Move one replica to the broker that has none; ``killed`` are killed in the middle. One that
    comes back copies under the limit, too, so the next one may be of the last two in sync: then
    nothing is acknowledged before it is back, and who waited for that waited for ever."""
    now = list(cluster.partition("t").replica_nodes)
    (target,) = set(cluster.brokers) - set(now)
    leader = cluster.leader("t")
    source = next(one for one in now if one != leader)
    after = [target if one == source else one for one in now]
    one = {"topic": "t", "partition": 0, "replicas": after}
    plan.write_text(json.dumps({"version": 1, "partitions": [one]}))
    reassign(cluster, "apply", str(plan), "--yes", "--throttle", SLOW)
    wait_for(lambda: "t-0" in logs_on(cluster, target), "a log at the new broker")
    progress(writers)
    for which in killed:
        victim = {"target": target, "leader": cluster.leader("t"), "source": source}[which]
        enough = len(set(cluster.partition("t").isr_nodes) - {victim}) >= MIN_IN_SYNC
        cluster.brokers[victim].kill()
        if enough:
            progress(writers)
        cluster.brokers[victim].start(120)
        progress(writers)
    assert "moves" in reassign(cluster, "verify", str(plan), code=1)
    reassign(cluster, "throttle", FAST)
    wait_for(lambda: has_ended(cluster), "the end of the move", 180)
    wait_for(
        lambda: sorted(cluster.partition("t").replica_nodes) == sorted(after), "the new replicas"
    )
    assert "complete" in reassign(cluster, "verify", str(plan))
    with Admin(bootstrap_servers=cluster.addresses) as admin:
        assert limited_topics(admin) == []
    wait_for(lambda: not logs_on(cluster, source), "the removal of the log that was left")
    cluster.wait_until_whole("t")


def run(cluster: ReplicatedCluster, plan: Path, kills: list[tuple[str, ...]]) -> None:
    writers: list[Writer] = [
        ConfluentWriter("confluent", cluster.addresses, "t", keys=0, pause=0.2),
        TallymarkWriter("tallymark", cluster.addresses, "t", keys=0, pause=0.2),
    ]
    for writer in writers:
        writer.start()
    progress(writers)
    for killed in kills:
        move(cluster, writers, plan, killed)
        progress(writers)
    for writer in writers:
        writer.finish()
    outcome = validate(cluster.addresses, "t", writers, *cluster.data)
    print(kills, outcome)
    assert outcome.problems == [], str(outcome)
    for broker in cluster.brokers.values():
        text = broker.log.read_text(errors="replace")
        assert "Traceback" not in text, text[max(text.find("Traceback") - 500, 0) :][:3000]


@pytest.mark.soak
def test_the_new_broker_is_killed_in_the_middle_of_a_move(
    cluster: ReplicatedCluster, tmp_path: Path
) -> None:
    run(cluster, tmp_path / "moves.json", [("target",)])


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_ten_moves_with_kills(cluster: ReplicatedCluster, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    some = [tuple(rng.sample(("target", "leader", "source"), rng.randint(1, 3))) for _ in range(10)]
    run(cluster, tmp_path / "moves.json", some)
