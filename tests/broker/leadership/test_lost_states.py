"""ZooKeeper's data were put back from an older copy: topics that were created since are gone from
the cluster, leader epochs and ISRs are those of before. No record may be lost in silence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from brokers_in_memory import BrokersInMemory
from commands import run_command
from eventually import eventually

from tallymark import Producer
from tallymark.cli.admin.reassign import command as reassign
from tallymark.coordination import paths
from tallymark.coordination.topics.registry import encode_state
from tallymark.replication.model import NO_LEADER
from tallymark.testing.memory_files import MemoryFiles


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersInMemory]:
    with BrokersInMemory(tmp_path) as brokers:
        brokers.create("t", min_insync_replicas=2)
        yield brokers


def folders(cluster: BrokersInMemory, node_id: int) -> list[str]:
    """Those of the topic's partition on a broker's disk."""
    disk: MemoryFiles = cluster.disks[node_id]
    home = str((cluster._folder / f"broker-{node_id}" / "broker").absolute())
    return [name for name in disk.listdir(home) if name.startswith("t-0")]


def produce(cluster: BrokersInMemory, value: bytes, topic: str = "t") -> None:
    """Until it is acknowledged: a leader that has just begun counts no follower as in sync yet, and
    one whose epoch is raised is none for a moment. What was refused may be in the log as well."""
    eventually(lambda: cluster.produce(topic, value).error_code == 0)


def kept(cluster: BrokersInMemory, node_id: int) -> list[str]:
    return [name for name in folders(cluster, node_id) if name.endswith("-kept")]


def content_of(cluster: BrokersInMemory, node_id: int, folder: str) -> bytes:
    home = str((cluster._folder / f"broker-{node_id}" / "broker").absolute())
    return cluster.disks[node_id].read(f"{home}/{folder}/{0:020}.log")


@pytest.mark.parametrize("listed", [False, True])
def test_a_new_topic_does_not_delete_the_log_of_a_lost_one_of_its_name(
    cluster: BrokersInMemory, listed: bool
) -> None:
    """A producer's question about the lost topic created it anew (auto.create.topics.enable), and
    its brokers deleted the logs with all acknowledged records: "which was deleted". It was not: no
    broker has such a deletion in its list. A topic that is in the list was."""
    produce(cluster, b"precious")
    cluster.wait_until_equal("t")
    topic_id = cluster.topic("t").topic_id
    for broker in cluster.brokers.values():
        broker.stop()
    for path in (paths.topic("t"), paths.CHANGES):
        cluster.zookeeper.delete_tree(path)
    if listed:
        for node_id in cluster.brokers:
            note = f"{paths.DELETED_TOPICS}/{node_id}-{topic_id.hex}"
            cluster.zookeeper.create(note, parents=True)
    for broker in cluster.brokers.values():
        broker.start()
    cluster.create("t")
    produce(cluster, b"new")
    assert set(cluster.wait_until_equal("t")) == {b"new"}
    for node_id in cluster.brokers:
        found = kept(cluster, node_id)
        assert len(found) == (0 if listed else 1)
        for folder in found:
            assert b"precious" in content_of(cluster, node_id, folder)


@pytest.mark.parametrize(("leader", "below"), [(3, 2), (NO_LEADER, 1)])
def test_states_of_an_older_copy_elect_the_longest_log_in_an_epoch_that_no_log_has(
    cluster: BrokersInMemory, leader: int, below: int
) -> None:
    """Broker 3 was in sync when the copy was made, and lacks what was acknowledged since: it led,
    and others cut that. From a state one epoch below the log (the last case) broker 1 was elected
    into the epoch of a leader of then, and no replica could tell their records apart."""
    cluster.brokers[3].stop()
    eventually(lambda: 3 not in cluster.state("t").isr)
    values = [b"%d" % number for number in range(3)]
    for value in values:
        produce(cluster, value)
    elections(cluster, 2)
    cluster.brokers[2].stop()
    eventually(lambda: cluster.leader("t") == 1)
    last = cluster.partition(1, "t")
    assert last is not None
    latest = last.log.latest_epoch
    cluster.brokers[1].stop()
    lost = replace(cluster.state("t"), leader=leader, leader_epoch=latest - below, isr=(1, 2, 3))
    cluster.zookeeper.write(paths.partition_state("t", 0), encode_state(lost))
    for broker in cluster.brokers.values():
        broker.start()
    eventually(lambda: cluster.state("t").leader_epoch > latest)
    assert cluster.leader("t") in (1, 2)
    assert list(dict.fromkeys(cluster.wait_until_equal("t"))) == values
    assert cluster.state("t").unclean
    produce(cluster, b"after")


def elections(cluster: BrokersInMemory, count: int) -> None:
    """So many times the leader's session ends, and another one leads."""
    for _ in range(count):
        epoch = cluster.state("t").leader_epoch
        cluster.end_session(cluster.leader("t"))
        eventually(partial(is_after, cluster, epoch))
    cluster.leader("t")


def is_after(cluster: BrokersInMemory, epoch: int) -> bool:
    state = cluster.state("t")
    return state.leader_epoch > epoch and set(state.isr) == {1, 2}


def test_a_topic_that_gets_more_replicas_has_lost_no_epoch(
    cluster: BrokersInMemory, tmp_path: Path
) -> None:
    """``tallymark reassign plan --replicas 3``, as the guide has it for topics of before: the one
    broker took its own leader epoch for one of an older copy of ZooKeeper's data. The partition had
    no leader until an unclean election, which the audit reported as an incident."""
    cluster.create("alone", replicas=1)
    with Producer(bootstrap_servers=cluster.any_address, audit=False) as producer:
        producer.send("alone", b"before").result(30)
    (first,) = cluster.topic("alone").of(0).replicas
    others = [one for one in cluster.brokers if one != first]
    plan = tmp_path / "moves.json"
    one = {"topic": "alone", "partition": 0, "replicas": [first, *others]}
    plan.write_text(json.dumps({"version": 1, "partitions": [one]}))
    run_command(reassign, "apply", str(plan), "--yes", "-b", cluster.any_address)
    eventually(lambda: len(cluster.state("alone").isr) == 3)
    assert not cluster.state("alone").unclean
    assert cluster.leader("alone") == first
    produce(cluster, b"after", "alone")
    assert list(dict.fromkeys(cluster.wait_until_equal("alone"))) == [b"before", b"after"]
