"""Topics with three replicas on three brokers: who leads, who copies, and what is acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from brokers_in_memory import BrokersInMemory
from cluster_members import delete
from eventually import eventually

from tallymark import Admin
from tallymark.client import ConfigResource
from tallymark.errors import KafkaError
from tallymark.replication.model import Assignment
from tallymark.testing.memory_files import MemoryFiles

Cluster = BrokersInMemory
VALUES = [b"%d" % number for number in range(10)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with BrokersInMemory(tmp_path) as brokers:
        brokers.create("t", min_insync_replicas=2)
        yield brokers


def write(cluster: Cluster, values: list[bytes]) -> None:
    for value in values:
        assert cluster.produce("t", value).error_code == 0


def error_of(cluster: Cluster, acks: int = -1, leader: int = 0) -> str:
    answer = cluster.produce("t", b"x", acks, leader)
    return KafkaError(answer.error_code).name if answer.error_code else "NONE"


def test_what_is_acknowledged_is_on_all_and_outlives_its_leader(cluster: Cluster) -> None:
    write(cluster, VALUES[:5])
    assert cluster.wait_until_equal("t") == VALUES[:5]
    first = cluster.leader("t")
    cluster.brokers[first].kill()
    second = eventually(lambda: (one := cluster.state("t").leader) not in (first, -1) and one)
    write(cluster, VALUES[5:])
    assert cluster.content(second, "t")[0] == VALUES
    cluster.brokers[first].start()
    assert cluster.wait_until_equal("t") == VALUES
    eventually(lambda: set(cluster.state("t").isr) == {1, 2, 3})
    assert cluster.state("t").leader_epoch >= 1


def test_the_minimum_of_all_topics_holds_at_once_when_it_is_changed(tmp_path: Path) -> None:
    """A leader took it from the settings when a state of its topic changed, so a topic in which
    nothing changed went on with the old minimum."""
    with BrokersInMemory(tmp_path) as cluster:
        cluster.create("t")
        write(cluster, VALUES[:1])
        leader = cluster.leader("t")
        for one in set(cluster.brokers) - {leader}:
            cluster.brokers[one].stop()
        eventually(lambda: cluster.state("t").isr == (leader,))
        assert error_of(cluster) == "NONE"
        with Admin(bootstrap_servers=cluster.any_address) as admin:
            everywhere = ConfigResource("broker", "")
            admin.alter_configs({everywhere: {"min.insync.replicas": "2"}}).check()
            eventually(lambda: error_of(cluster) == "NOT_ENOUGH_REPLICAS")
            admin.alter_configs({everywhere: {"min.insync.replicas": None}}).check()
            eventually(lambda: error_of(cluster) == "NONE")


def test_with_too_few_in_sync_acks_all_is_refused_and_acks_1_is_not(cluster: Cluster) -> None:
    write(cluster, VALUES[:1])
    leader = cluster.leader("t")
    for one in set(cluster.brokers) - {leader}:
        cluster.brokers[one].stop()
    eventually(lambda: error_of(cluster) == "NOT_ENOUGH_REPLICAS")
    assert error_of(cluster, acks=1) == "NONE"
    assert len(cluster.state("t").isr) >= 2, "it never falls below min.insync.replicas"
    values, high_watermark = cluster.content(leader, "t")
    assert high_watermark < len(values), "consumers do not see what one broker has alone"
    for one in set(cluster.brokers) - {leader}:
        cluster.brokers[one].start()
    cluster.wait_until_equal("t")
    eventually(lambda: error_of(cluster) == "NONE")


def test_a_broker_that_does_not_lead_names_the_one_that_does(cluster: Cluster) -> None:
    leader = cluster.leader("t")
    other = next(one for one in cluster.brokers if one != leader)
    eventually(lambda: "t" in cluster.running(other).image.topics)
    answer = cluster.produce("t", b"x", leader=other)
    assert KafkaError(answer.error_code).name == "NOT_LEADER_OR_FOLLOWER"
    assert answer.current_leader.leader_id == leader


def test_a_leader_whose_session_is_lost_leads_in_a_new_epoch_only(cluster: Cluster) -> None:
    """Another broker may lead by the time it is registered again: what it still took in the old
    epoch would be in no other log."""
    write(cluster, VALUES[:5])
    first = cluster.leader("t")
    before, led = cluster.state("t").leader_epoch, cluster.partition(first, "t")
    assert led is not None
    cluster.end_session(first)
    eventually(lambda: led.is_withdrawn)

    def has_led_again() -> bool:
        state = cluster.state("t")
        return state.leader >= 0 and state.leader_epoch > before

    eventually(has_led_again)
    write(cluster, VALUES[5:])
    assert cluster.wait_until_equal("t") == VALUES
    now = cluster.partition(first, "t")
    assert now is not None
    assert now.leader_epoch > before


def test_a_broker_with_an_empty_disk_copies_everything_before_it_is_in_sync(
    cluster: Cluster,
) -> None:
    write(cluster, VALUES)
    lost = next(one for one in cluster.brokers if one != cluster.leader("t"))
    cluster.brokers[lost].stop()
    cluster.disks[lost] = MemoryFiles()
    cluster.brokers[lost] = cluster.broker(lost).start()
    assert cluster.wait_until_equal("t") == VALUES
    eventually(lambda: set(cluster.state("t").isr) == {1, 2, 3})


def test_a_leader_that_lost_its_disk_and_is_back_at_once_takes_nothing_from_the_others(
    cluster: Cluster,
) -> None:
    """It is back before anybody was elected: the state still names it as leader and member of the
    ISR. Would it lead, its followers would cut what was acknowledged."""
    write(cluster, VALUES)
    lost = cluster.leader("t")
    cluster.brokers[lost].kill()
    cluster.disks[lost] = MemoryFiles()
    cluster.brokers[lost] = cluster.broker(lost).start()
    eventually(lambda: set(cluster.state("t").isr) == {1, 2, 3} and cluster.leader("t"))
    assert cluster.wait_until_equal("t") == VALUES


def has_no_log(cluster: Cluster, node_id: int) -> bool:
    logs = cluster.running(node_id).logs
    return logs is not None and logs.get("t", 0) is None


def has_other_leader(cluster: Cluster, than: int) -> bool:
    return cluster.state("t").leader not in (than, -1)


def is_longer(values: list[bytes], than: int) -> bool:
    return len(values) > than


def test_replicas_move_to_another_broker_and_back(cluster: Cluster) -> None:
    write(cluster, VALUES[:5])
    moved = cluster.brokers[4] = cluster.broker(4).start()
    with Admin(bootstrap_servers=moved.bootstrap_servers) as admin:
        assert admin.moving_partitions() == {}
        admin.move_partitions({("t", 0): (4, 2)}).check()
        eventually(lambda: not admin.moving_partitions() and cluster.topic("t").of(0).replicas)
        eventually(lambda: cluster.topic("t").of(0) == Assignment((4, 2)))
        assert set(cluster.state("t").isr) == {2, 4}
        write(cluster, VALUES[5:])
        assert cluster.wait_until_equal("t", 2, 4) == VALUES
        eventually(lambda: cluster.partition(1, "t") is None)
        admin.move_partitions({("t", 0): (1,)}).check()
        eventually(lambda: cluster.topic("t").of(0) == Assignment((1,)))
        eventually(lambda: cluster.running(1).partitions.get("t", 0))
        assert cluster.content(1, "t")[0] == VALUES


def test_a_deleted_topic_goes_from_all_brokers(cluster: Cluster) -> None:
    write(cluster, VALUES[:1])
    cluster.wait_until_equal("t")
    assert delete(cluster.any_address, "t") == 0
    eventually(lambda: all(cluster.partition(one, "t") is None for one in cluster.brokers))
    for one in cluster.brokers:
        eventually(partial(has_no_log, cluster, one))
    cluster.create("t", min_insync_replicas=2)
    write(cluster, VALUES[:2])
    assert cluster.wait_until_equal("t") == VALUES[:2]


def test_writes_go_on_while_leaders_change(cluster: Cluster) -> None:
    """As many acknowledged as in the log, each once and in order, whatever broker stops."""
    acknowledged: list[bytes] = []
    enough = threading.Event()

    def work() -> None:
        number = 0
        while not enough.is_set():
            value = b"%d" % number
            try:
                if cluster.produce("t", value).error_code == 0:
                    acknowledged.append(value)
            except (OSError, AssertionError):
                pass
            number += 1

    writer = threading.Thread(target=work)
    writer.start()
    try:
        for _ in range(3):
            count = len(acknowledged)
            eventually(partial(is_longer, acknowledged, count + 5))
            leader = cluster.leader("t")
            cluster.brokers[leader].kill()
            eventually(partial(has_other_leader, cluster, leader))
            cluster.brokers[leader].start()
            eventually(lambda: set(cluster.state("t").isr) == {1, 2, 3})
    finally:
        enough.set()
        writer.join()
    values = cluster.wait_until_equal("t")
    there = [value for value in values if value in set(acknowledged)]
    assert there == acknowledged


def test_a_topic_made_again_while_a_broker_was_away_has_no_record_of_the_old_one(
    cluster: Cluster,
) -> None:
    """The broker comes back with the log of the old topic, and gets a replica of the new one under
    the same name, whose offsets and epochs fit."""
    write(cluster, VALUES[:5])
    cluster.wait_until_equal("t")
    away = next(one for one in cluster.brokers if one != cluster.leader("t"))
    cluster.brokers[away].stop()
    delete(cluster.any_address, "t")
    others = tuple(one for one in cluster.brokers if one != away)
    cluster.create("t", 2, min_insync_replicas=2)
    write(cluster, VALUES[5:])
    cluster.brokers[away].start()
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        admin.move_partitions({("t", 0): (away, *others)}).check()
    eventually(lambda: cluster.topic("t").of(0) == Assignment((away, *others)))
    assert cluster.wait_until_equal("t") == VALUES[5:]


def test_a_minimum_raised_above_the_isr_refuses_acks_all_until_enough_are_back(
    cluster: Cluster,
) -> None:
    """Records of before stay readable, and what acks=1 writes meanwhile is committed when the third
    broker is back."""
    write(cluster, VALUES[:2])
    leader = cluster.leader("t")
    away = next(one for one in cluster.brokers if one != leader)
    cluster.brokers[away].stop()
    eventually(lambda: set(cluster.state("t").isr) == set(cluster.brokers) - {away})
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        admin.alter_configs({("topic", "t"): {"min.insync.replicas": "3"}}).check()
    eventually(lambda: error_of(cluster) == "NOT_ENOUGH_REPLICAS")
    written = len(cluster.content(leader, "t")[0])
    assert error_of(cluster, acks=1) == "NONE"
    values, high_watermark = cluster.content(leader, "t")
    assert (len(values), values[:2]) == (written + 1, VALUES[:2])
    assert 2 <= high_watermark <= written
    cluster.brokers[away].start()
    eventually(lambda: error_of(cluster) == "NONE")
    assert cluster.wait_until_equal("t")[: written + 1] == values
