"""The start of a broker: its epoch, what it gives up, its node."""

from __future__ import annotations

import json
import queue
from dataclasses import replace

import pytest
from partition_nodes import make, state_of
from starts import ABLE, TAIL, Disk, epoch_of, info, register, replicated
from stepped_zookeeper import SteppedZooKeeper

from tallymark.coordination import BrokerRegistry, ChangeReader, SetData, ZooKeeper, paths
from tallymark.coordination.cluster.broker_epochs import epochs_of
from tallymark.coordination.cluster.feature_levels import write_features
from tallymark.errors import UserError
from tallymark.replication.features import REPLICATION, Finalized
from tallymark.replication.model import NO_LEADER, PartitionState


def test_the_epoch_in_the_node_is_the_one_in_force(zookeeper: ZooKeeper) -> None:
    replicated(zookeeper)
    node = register(zookeeper, info(2), Disk())
    told = BrokerRegistry(zookeeper).brokers()[2]
    assert node.epoch == told.epoch == epoch_of(zookeeper, 2)
    assert told.features == ABLE
    node.release()
    again = register(zookeeper, info(2), Disk())
    assert again.epoch == node.epoch + 2


@pytest.mark.parametrize("intact", [True, False])
def test_leads_and_doubtful_votes_are_given_up_before_others_see_the_broker(
    zookeeper: ZooKeeper, other: ZooKeeper, intact: bool
) -> None:
    """KIP-966: a power failure takes the page cache. A member that came back with less led, and the
    others cut what had been acknowledged."""
    replicated(zookeeper)
    seen: queue.Queue[PartitionState] = queue.Queue()

    def look() -> None:
        if 1 in BrokerRegistry(other).brokers():
            seen.put(state_of(other))

    watch = BrokerRegistry(other).watch(look)
    register(zookeeper, info(1), Disk(intact))
    state = seen.get(timeout=30)
    watch.cancel()
    assert state == state_of(zookeeper)
    assert (state.leader, state.leader_epoch) == (NO_LEADER, 1)
    assert state.isr == ((1, 2, 3) if intact else (2, 3))
    assert state.incomplete == ({} if intact else {1: TAIL})


def test_with_one_replica_no_state_is_read_or_written(zookeeper: ZooKeeper) -> None:
    make(zookeeper)
    disk = Disk(intact=False)
    register(zookeeper, info(1), disk)
    assert (state_of(zookeeper).version, disk.boots) == (0, 1)
    assert not any(disk.asked)


def test_an_older_release_is_refused_with_the_reason(zookeeper: ZooKeeper) -> None:
    replicated(zookeeper)
    with pytest.raises(UserError, match=r"uses replication\.version at level 1") as refused:
        register(zookeeper, replace(info(1), features={}), Disk())
    assert "start a release that supports it" in str(refused.value)
    assert epochs_of(zookeeper, [1]) == {1: 0}, "its epoch was not raised"
    assert not zookeeper.exists(paths.broker(1))


def test_a_level_that_rises_during_the_start_refuses_it(
    zookeeper: ZooKeeper, other: ZooKeeper
) -> None:
    """All live brokers could, so the level rose, and the old one registered right after it."""
    make(zookeeper)

    def rise(epoch: int, features: Finalized) -> None:
        if features.level(REPLICATION) == 0:
            write_features(other, Finalized({REPLICATION: 1}, features.epoch))

    with pytest.raises(UserError, match="does not know it"):
        BrokerRegistry(zookeeper).register(replace(info(1), features={}), None, rise)
    assert not zookeeper.exists(paths.broker(1))


def test_the_node_of_an_older_broker_is_read_and_kept(zookeeper: ZooKeeper) -> None:
    content = (
        b'{"version":5,"host":"h","port":9,"endpoints":["PLAINTEXT://h:9"],"features":{},"x":1}'
    )
    zookeeper.create(paths.broker(7), content, parents=True)
    register(zookeeper, info(2), Disk())
    older = BrokerRegistry(zookeeper).brokers()[7]
    assert (older.epoch, older.features) == (-1, {})
    assert zookeeper.read(paths.broker(7)).data == content


def test_kafka_reads_the_levels_that_it_understands(zookeeper: ZooKeeper) -> None:
    """KAFKA-17011: its releases before 3.9 fail on a lowest level of 0."""
    register(zookeeper, info(2), Disk())
    levels = json.loads(zookeeper.read(paths.broker(2)).data)["features"][REPLICATION]
    assert levels == {"min_version": 1, "max_version": 1, "lowest": 0}
    odd = b'{"host":"h","port":9,"epoch":"x","features":{"a":1,"b":{"min_version":2}}}'
    zookeeper.create(paths.broker(7), odd)
    assert BrokerRegistry(zookeeper).brokers()[7].features == {}


def test_a_second_process_under_the_id_takes_nothing(
    zookeeper: ZooKeeper, other: ZooKeeper
) -> None:
    """It was refused, but had raised the epoch first: the broker that lived counted no more."""
    replicated(zookeeper)
    first = register(zookeeper, info(2), Disk())
    state = state_of(zookeeper)
    with pytest.raises(UserError, match=r"in use by 127\.0\.0\.1:9092"):
        register(other, info(2, 9999, "another"), Disk(intact=False))
    assert epoch_of(zookeeper, 2) == first.epoch
    assert state_of(zookeeper) == state


def test_an_isr_that_it_left_is_told_too(zookeeper: ZooKeeper) -> None:
    """ISRs are gathered for a second, and what gives up ends before: the partitions after the first
    500 were never told, and a controller went on to elect this broker."""
    make(zookeeper, 600)
    write_features(zookeeper, Finalized({REPLICATION: 1}))
    changes = ChangeReader(zookeeper)
    changes.unseen_changes()
    changes.done()
    register(zookeeper, info(2), Disk(intact=False))
    told = changes.unseen_changes()
    assert told is not None
    assert told.partitions == {("t", index) for index in range(600)}


def test_fields_of_a_later_release_stay_in_the_epoch_node(zookeeper: ZooKeeper) -> None:
    path = paths.broker_epoch(2)
    zookeeper.create(path, b'{"version":2,"run":"old","later":[1]}', parents=True)
    register(zookeeper, info(2, run="new"), Disk())
    content = json.loads(zookeeper.read(path).data)
    assert content == {"version": 1, "run": "new", "later": [1]}
    zookeeper.write(path, b"no JSON")
    node = register(zookeeper, info(3), Disk())
    assert node.epoch == 2
    zookeeper.create(paths.broker_epoch(4), b"no JSON")
    assert register(zookeeper, info(4, 9094), Disk()).epoch == 2


def test_a_node_that_another_program_changed_is_made_anew(zookeeper: ZooKeeper) -> None:
    node = register(zookeeper, info(2), Disk())
    zookeeper.write(paths.broker(2), b"{}")
    node.establish()
    assert BrokerRegistry(zookeeper).brokers()[2].epoch == node.epoch == epoch_of(zookeeper, 2) == 4
    node.establish()
    assert epoch_of(zookeeper, 2) == 4, "a node that is right stays"


def test_two_processes_under_one_id_do_not_raise_it_for_ever() -> None:
    """Each against the other: one ends with the reason."""
    server = SteppedZooKeeper()
    zookeeper, other = server.session("a"), server.session("b")
    replicated(zookeeper)
    path, tries = paths.broker_epoch(2), list[int]()

    def raise_it(epoch: int, features: Finalized) -> None:
        tries.append(epoch)
        other.commit([SetData(path, b"{}", epoch)])

    with pytest.raises(UserError, match="its nodes change all the time"):
        BrokerRegistry(zookeeper).register(info(2), None, raise_it)
    assert len(tries) == 50
    assert not zookeeper.exists(paths.broker(2))
