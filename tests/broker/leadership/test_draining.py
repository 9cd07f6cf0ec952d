"""Brokers that are emptied, and brokers that are stopped while replicas move, on four brokers in
memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from brokers_in_memory import BrokersInMemory
from commands import run_command
from eventually import eventually

from tallymark.cli.admin.leads import brokers as brokers_command
from tallymark.cli.admin.reassign import command as reassign_command
from tallymark.replication.model import Assignment

TOPICS = ("one", "two", "three")
VALUES = [b"%d" % number for number in range(8)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersInMemory]:
    with BrokersInMemory(tmp_path, 4, replica_fetch_max_bytes=10_000) as brokers:
        yield brokers


def drain(cluster: BrokersInMemory, *words: str) -> str:
    return run_command(brokers_command.command, "drain", *words, "-b", cluster.any_address).output


def holders(cluster: BrokersInMemory, topic: str) -> tuple[int, ...]:
    return cluster.topic(topic).of(0).replicas


def is_settled(cluster: BrokersInMemory, topic: str) -> bool:
    """Nothing moves any more, and all replicas are in sync."""
    assignment, state = cluster.topic(topic).of(0), cluster.state(topic)
    moves = assignment != Assignment(assignment.replicas)
    return not moves and set(state.isr) == set(assignment.replicas)


def test_a_broker_is_drained_of_its_replicas_and_gets_them_back(
    cluster: BrokersInMemory, tmp_path: Path
) -> None:
    for topic in TOPICS:
        cluster.create(topic, min_insync_replicas=2)
        for value in VALUES:
            assert cluster.produce(topic, value).error_code == 0
    drained = cluster.leader("one")
    before = {topic: holders(cluster, topic) for topic in TOPICS}
    back = tmp_path / "back.json"
    drain(cluster, str(drained), "--replicas", "--yes", "--back", str(back))
    for topic in TOPICS:
        assert drained not in holders(cluster, topic)
        eventually(partial(is_settled, cluster, topic))
        assert cluster.wait_until_equal(topic, *holders(cluster, topic)) == VALUES
        # The end of a move raises the leader epoch: the leader is none for a moment.
        eventually(lambda topic=topic: cluster.produce(topic, b"after").error_code == 0)
    eventually(lambda: all(cluster.partition(drained, topic) is None for topic in TOPICS))
    again = drain(cluster, str(drained), "--replicas", "--yes")
    assert again == f"broker {drained} holds nothing\n"
    run_command(reassign_command, "apply", str(back), "--yes", "-b", cluster.any_address)
    for topic in TOPICS:
        eventually(partial(is_settled, cluster, topic))
        assert set(holders(cluster, topic)) == set(before[topic])
        found = cluster.wait_until_equal(topic, *before[topic])
        assert list(dict.fromkeys(found)) == [*VALUES, b"after"]


@pytest.mark.parametrize("who", ["leader", "new replica"])
def test_a_broker_that_stops_in_the_middle_of_a_move_does_not_stop_it(
    cluster: BrokersInMemory, tmp_path: Path, who: str
) -> None:
    """The leader hands over what moves; the new replica goes on where it was."""
    cluster.create("t", min_insync_replicas=2)
    for value in VALUES:
        assert cluster.produce("t", value + bytes(20_000)).error_code == 0
    now, leader = holders(cluster, "t"), cluster.leader("t")
    (new,) = set(cluster.brokers) - set(now)
    leaving = next(one for one in now if one != leader)
    target = [leader, new, *(one for one in now if one not in (leader, leaving))]
    plan = tmp_path / "plan.json"
    one = {"topic": "t", "partition": 0, "replicas": target}
    plan.write_text(json.dumps({"version": 1, "partitions": [one]}))
    words = ("apply", str(plan), "--yes", "--throttle", "5000", "-b", cluster.any_address)
    run_command(reassign_command, *words)
    eventually(lambda: cluster.partition(new, "t"))
    assert not is_settled(cluster, "t"), "it moves still"
    stopped = leader if who == "leader" else new
    cluster.brokers[stopped].stop()
    if who == "leader":
        eventually(lambda: cluster.state("t").leader not in (leader, -1))
    assert cluster.produce("t", b"meanwhile", timeout_ms=30_000).error_code == 0
    cluster.brokers[stopped].start()
    run_command(reassign_command, "throttle", "100000000", "-b", cluster.any_address)
    eventually(lambda: is_settled(cluster, "t") and set(holders(cluster, "t")) == set(target))
    found = cluster.wait_until_equal("t", *target)
    assert [(value or b"")[:1] for value in found] == [
        value[:1] for value in [*VALUES, b"meanwhile"]
    ]
