"""Moves of replicas with a limit, by the commands of an operator, on brokers in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers_in_memory import BrokersInMemory
from commands import run_command
from eventually import eventually

from tallymark import Admin
from tallymark.cli.admin.reassign import command
from tallymark.client.admin.configs import ConfigResource
from tallymark.errors import UserError
from tallymark.replication.model import Assignment

COUNT = 40
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
SLOW = "10000"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersInMemory]:
    """A topic of 400 KB on three brokers, and a fourth one."""
    with BrokersInMemory(tmp_path, 4, replica_fetch_max_bytes=10_000) as brokers:
        brokers.create("t", min_insync_replicas=2)
        for number in range(COUNT):
            assert brokers.produce("t", b"%06d" % number + bytes(10_000)).error_code == 0
        yield brokers


@pytest.fixture
def plan(cluster: BrokersInMemory, tmp_path: Path) -> str:
    """One replica moves to the broker that has none."""
    now = cluster.topic("t").of(0).replicas
    (free,) = set(cluster.brokers) - set(now)
    path = tmp_path / "moves.json"
    one = {"topic": "t", "partition": 0, "replicas": [*now[:2], free]}
    path.write_text(json.dumps({"version": 1, "partitions": [one]}))
    return str(path)


def reassign(cluster: BrokersInMemory, *words: str, code: int = 0) -> str:
    return run_command(command, *words, "-b", cluster.any_address, code=code).output


def free(cluster: BrokersInMemory, plan: str) -> int:
    (one,) = json.loads(Path(plan).read_text())["partitions"]
    return int(one["replicas"][-1])


def settings(cluster: BrokersInMemory) -> dict[str, str | None]:
    """The limits that are set."""
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        topic = ConfigResource("topic", "t")
        brokers = [ConfigResource("broker", str(one)) for one in cluster.brokers]
        found = admin.describe_configs([topic, *brokers], names=(*LISTS, *RATES)).check()
    return {
        f"{one.name} {name}": entry.value
        for one, entries in found.items()
        for name, entry in entries.items()
        if not entry.is_default
    }


def test_a_move_is_slow_until_its_limit_is_raised_and_leaves_no_limit(
    cluster: BrokersInMemory, plan: str
) -> None:
    assert reassign(cluster, "apply", plan, "--yes", "--throttle", SLOW) == "t-0: moves\n"
    target = free(cluster, plan)
    eventually(lambda: cluster.partition(target, "t"))
    limits = settings(cluster)
    assert limits["t follower.replication.throttled.replicas"] == f"0:{target}"
    assert {limits[f"{one} {name}"] for one in cluster.brokers for name in RATES} == {SLOW}
    eventually(lambda: cluster.content(target, "t")[0])
    assert cluster.produce("t", b"in sync, so not held back").error_code == 0
    assert "moves" in reassign(cluster, "verify", plan, code=1)
    assert len(cluster.content(target, "t")[0]) < COUNT
    assert settings(cluster) == limits, "a limit stays while something moves"
    assert "1 move: " in reassign(cluster, "throttle", "100000000")
    eventually(lambda: target in cluster.topic("t").of(0).replicas)
    eventually(lambda: cluster.topic("t").of(0) == Assignment(cluster.topic("t").of(0).replicas))
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        eventually(lambda: not admin.moving_partitions())
    assert "complete" in reassign(cluster, "verify", plan)
    assert settings(cluster) == {}
    assert len(cluster.wait_until_equal("t", *cluster.topic("t").of(0).replicas)) == COUNT + 1


def test_a_move_that_is_cancelled_leaves_no_limit(cluster: BrokersInMemory, plan: str) -> None:
    before = cluster.topic("t").of(0)
    reassign(cluster, "apply", plan, "--yes", "--throttle", SLOW)
    assert "cancelled" in reassign(cluster, "cancel", "--yes")
    assert settings(cluster) == {}
    assert cluster.topic("t").of(0) == before
    assert "elsewhere" in reassign(cluster, "verify", plan, code=1)


def test_limits_that_were_left_are_told_and_removed(cluster: BrokersInMemory, plan: str) -> None:
    """A limit that stays slows down every replica that has to catch up."""
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        limit = {ConfigResource("topic", "t"): {LISTS[0]: "*"}}
        admin.alter_configs(limit).check()
    assert "throttle --remove" in reassign(cluster, "status")
    assert reassign(cluster, "throttle", "--remove") == "limits removed\n"
    assert settings(cluster) == {}
    assert reassign(cluster, "throttle", "--remove") == "there is no limit\n"
    assert reassign(cluster, "throttle", "5") == "nothing moves\n"
    for words in (["throttle"], ["throttle", "5", "--remove"]):
        with pytest.raises(UserError, match="a rate is expected, or --remove"):
            reassign(cluster, *words)
