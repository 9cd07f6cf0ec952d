"""The level of a feature rises when all registered brokers support it."""

from __future__ import annotations

import pytest
from starts import info

from tallymark.coordination import BrokerInfo, BrokerRegistry, ZooKeeper, paths
from tallymark.coordination.cluster import raising
from tallymark.coordination.cluster.feature_levels import read_features, write_features
from tallymark.coordination.cluster.raising import raise_level
from tallymark.errors import KafkaError, UserError
from tallymark.replication.features import REPLICATION, Finalized

OLD = BrokerInfo(3, "127.0.0.1", 9093, "old")


def up(zookeeper: ZooKeeper, *brokers: BrokerInfo) -> None:
    for broker in brokers:
        BrokerRegistry(zookeeper).register(broker)


def test_a_level_that_all_support_rises_once(zookeeper: ZooKeeper) -> None:
    up(zookeeper, info(1, 9091), info(2, 9092))
    before = read_features(zookeeper)
    done = raise_level(zookeeper, REPLICATION, 1)
    assert read_features(zookeeper) == done
    assert (done.level(REPLICATION), done.epoch) == (1, before.epoch + 1)
    assert raise_level(zookeeper, REPLICATION, 1) == done, "nothing is written"
    with pytest.raises(KafkaError, match="INVALID_UPDATE_VERSION"):
        raise_level(zookeeper, REPLICATION, 0)


def test_fields_of_others_stay(zookeeper: ZooKeeper) -> None:
    up(zookeeper, info(1))
    before = read_features(zookeeper)
    others = Finalized({"theirs": 0}, before.epoch, {"note": "kept"})
    write_features(zookeeper, others)
    done = raise_level(zookeeper, REPLICATION, 1)
    assert (dict(done.levels), dict(done.others)) == (
        {"theirs": 0, REPLICATION: 1},
        {"note": "kept"},
    )


def test_brokers_that_cannot_are_named(zookeeper: ZooKeeper) -> None:
    up(zookeeper, info(1), OLD)
    zookeeper.create(paths.broker(7), b"no JSON", parents=True)
    with pytest.raises(KafkaError, match=r"brokers \[3, 7\] do not support level 1"):
        raise_level(zookeeper, REPLICATION, 1)
    assert read_features(zookeeper).level(REPLICATION) == 0


def test_without_brokers_nothing_rises(zookeeper: ZooKeeper) -> None:
    zookeeper.ensure(paths.BROKER_IDS)
    with pytest.raises(KafkaError, match="FEATURE_UPDATE_FAILED"):
        raise_level(zookeeper, REPLICATION, 1)


def test_an_old_broker_that_comes_in_between_takes_the_level_back(
    zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has checked the level of before, and registers before the new one is written: it would
    live in a cluster that it does not understand."""
    up(zookeeper, info(1))
    plain, came = write_features, list[int]()

    def written(to: ZooKeeper, features: Finalized) -> Finalized:
        if not came:
            came.append(3)
            up(zookeeper, OLD)
        return plain(to, features)

    monkeypatch.setattr(raising, "write_features", written)
    with pytest.raises(KafkaError, match=r"brokers \[3\]"):
        raise_level(zookeeper, REPLICATION, 1)
    assert read_features(zookeeper).level(REPLICATION) == 0


def test_after_it_has_risen_an_old_broker_is_refused(zookeeper: ZooKeeper) -> None:
    up(zookeeper, info(1))
    raise_level(zookeeper, REPLICATION, 1)
    with pytest.raises(UserError, match="start a release that supports it"):
        up(zookeeper, OLD)


def test_two_that_raise_at_once_agree(
    zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(zookeeper, info(1))
    plain, first = write_features, list[Finalized]()

    def written(to: ZooKeeper, features: Finalized) -> Finalized:
        if not first:
            first.append(plain(to, features))  # another broker was faster
        return plain(to, features)

    monkeypatch.setattr(raising, "write_features", written)
    assert raise_level(zookeeper, REPLICATION, 1) == first[0]
