"""ZooKeeper where others can write: closed once there are credentials, and what strangers leave
there stands in nobody's way."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from cluster_members import create, delete, leaders, member, produce, state_of, zookeeper_or_skip
from eventually import eventually

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.coordination import NotAuthorizedError, ZooKeeper, paths
from tallymark.coordination.cluster.restricting import restrict_nodes
from tallymark.coordination.session.access import PASSWORD_VARIABLE, USER_VARIABLE, Access
from tallymark.coordination.topics.changes import change_of
from tallymark.testing.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.process

KNOWN: Final[dict[str, Any]] = {"zookeeper_user": "brokers", "zookeeper_password": "secret"}
ACCESS: Final = Access("brokers", "secret", closed=True)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with zookeeper_or_skip(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def test_a_cluster_of_before_is_closed_when_it_gets_credentials(
    tmp_path: Path, zookeeper: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A deployment that had run for a year was given zookeeper.user: new nodes were closed, but
    everything from before stood open, users' credentials too. Anybody wrote himself an entry that
    allows all. The first broker that starts with credentials closes what is there; consumers' nodes
    stay open, and the second start has nothing to do."""
    with member(tmp_path, zookeeper, "year", 0) as before:
        assert create(before.bootstrap_servers, "t", 3) == 0
    with ZooKeeper(f"{zookeeper.connect}/year") as stranger:
        stranger.create("/config/users/ann", b'{"version":1,"config":{}}', parents=True)
        stranger.create("/kafka-acl/Topic", parents=True)
        stranger.create("/consumers/old/offsets", parents=True)
    with caplog.at_level(logging.WARNING), member(tmp_path, zookeeper, "year", 0, **KNOWN) as after:
        assert "stand open from before" in caplog.text
        assert create(after.bootstrap_servers, "u", 1) == 0
        with ZooKeeper(f"{zookeeper.connect}/year") as stranger:
            assert stranger.read(paths.topic("t")).data
            assert stranger.children("/kafka-acl") == ["Topic"]
            with pytest.raises(NotAuthorizedError):
                stranger.read("/config/users/ann")
            for path in ("/brokers/topics/t/partitions/0/state", "/kafka-acl/Topic", "/cluster/id"):
                with pytest.raises(NotAuthorizedError):
                    stranger.write(path, b"x")
            for path in ("/new", "/brokers/topics/new", "/config/users/eve", "/admin/x"):
                with pytest.raises(NotAuthorizedError):
                    stranger.create(path)
            stranger.create("/consumers/new/ids", parents=True)
            stranger.write("/consumers/old/offsets", b"7")
        assert delete(after.bootstrap_servers, "t") == 0
    with ZooKeeper(f"{zookeeper.connect}/year", access=ACCESS) as session:
        assert restrict_nodes(session) == 0


def test_a_walk_that_was_interrupted_is_done_again(zookeeper: ZooKeeperServer) -> None:
    with ZooKeeper(f"{zookeeper.connect}/half").start(create_root=True) as stranger:
        for path in ("/config/users/ann", "/brokers/topics/t", "/consumers/g"):
            stranger.create(path, parents=True)
    with ZooKeeper(f"{zookeeper.connect}/half", access=ACCESS) as session:
        session.restrict(["/config/users/ann", "/brokers/topics/t"])
        assert restrict_nodes(session) == 5  # brokers, topics, config, users, and the chroot
        assert restrict_nodes(session) == 0
        assert session.unrestricted(["/consumers", "/consumers/g"]) == []


def test_lists_that_anybody_can_write_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """authorizer.enable=true with the users and lists in a ZooKeeper that everybody may write to: a
    lock whose key hangs beside the door."""
    monkeypatch.delenv(USER_VARIABLE, raising=False)
    asked: dict[str, Any] = {"authorizer_enable": True}
    with pytest.raises(ValueError, match=r"set zookeeper\.user"):
        BrokerSettings(**asked)
    with pytest.raises(ValueError, match=r"set zookeeper\.user"):
        BrokerSettings(**asked, **KNOWN, zookeeper_set_acl=False)
    with pytest.raises(ValueError, match=r"zookeeper\.set\.acl needs zookeeper\.user"):
        BrokerSettings(zookeeper_set_acl=True)
    BrokerSettings(**asked, **KNOWN)
    BrokerSettings(**asked, enable_zookeeper=False)
    BrokerSettings(**asked, zookeeper_allow_open=True)
    monkeypatch.setenv(USER_VARIABLE, "brokers")
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    BrokerSettings(**asked)


GARBAGE: Final[dict[str, bytes]] = {
    "/brokers/topics/with blank": b"{}",
    "/brokers/topics/ümlaut": b'{"version":3,"partitions":{"0":[0]}}',
    "/brokers/topics/" + "x" * 250: b'{"version":3,"partitions":{"0":[0]}}',
    "/brokers/topics/bytes": b"\xff\x00\x01",
    "/brokers/topics/empty": b"",
    "/brokers/topics/deep": b"[" * 100_000,
    "/brokers/topics/list": b"[1,2]",
    "/brokers/topics/holes": b'{"version":3,"partitions":{"0":[0],"9":[0]}}',
    "/brokers/topics/huge": b'{"version":3,"partitions":{"' + b"9" * 5000 + b'":[0]}}',
    "/brokers/topics/words": b'{"version":3,"partitions":{"zero":["one"]}}',
    "/brokers/topics/state": b'{"version":3,"partitions":{"0":[0]}}',
    "/brokers/topics/state/partitions/0/state": b"??",
    "/brokers/topics/config": b'{"version":3,"partitions":{"0":[0]}}',
    "/config/topics/config": b'{"config":7}',
    "/brokers/ids/77": b"not a broker",
    "/brokers/ids/" + "7" * 5000: b"",
    "/admin/delete_topics/with blank": b"",
    "/admin/delete_topics/bytes": b"",
}


def test_what_cannot_be_a_topic_stands_in_nobodys_way(
    tmp_path: Path, zookeeper: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody made a node below /brokers/topics by hand: from then on no topic could be created,
    changed or deleted, until the node was gone and the broker started again. Such nodes are left
    out, and each is told of once."""
    with (
        caplog.at_level(logging.WARNING),
        member(tmp_path, zookeeper, "strange", 0) as broker,
        ZooKeeper(f"{zookeeper.connect}/strange") as stranger,
    ):
        at = broker.bootstrap_servers
        assert create(at, "before", 1) == 0
        for path, data in GARBAGE.items():
            stranger.create(path, data, parents=True)
        stranger.create("/brokers/changes/change_0000000900", b"garbage", parents=True)
        assert create(at, "after", 2) == 0
        eventually(lambda: -1 not in leaders(at, "after"))
        eventually(lambda: produce(at, "after", 0).error_code == 0)
        assert delete(at, "before") == 0
        assert set(state_of(broker).image.topics) == {"after"}
        assert "ids/77" in caplog.text
    caplog.clear()
    with (
        caplog.at_level(logging.WARNING),
        member(tmp_path, zookeeper, "strange", 0) as again,
    ):
        eventually(lambda: produce(again.bootstrap_servers, "after", 0).error_code == 0)
        assert create(again.bootstrap_servers, "more", 1) == 0
        told = [each.getMessage() for each in caplog.records if "is left out" in each.getMessage()]
        assert max(Counter(told).values()) <= 2  # when it registers, and when it reads
        for name in ("with blank", "bytes", "deep", "holes", "words", "state", "config", "ids/77"):
            assert any(name in each for each in told), name


def test_a_topic_whose_node_is_spoilt_keeps_its_log(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    """A topic's node was overwritten while brokers ran: a topic that is not in the picture is taken
    for deleted, logs and all. It stays as it was known, and is itself when the node is."""
    with (
        member(tmp_path, zookeeper, "spoilt", 0) as broker,
        ZooKeeper(f"{zookeeper.connect}/spoilt") as stranger,
    ):
        at = broker.bootstrap_servers
        assert create(at, "t", 1) == 0
        eventually(lambda: produce(at, "t", 0).error_code == 0)
        whole = stranger.read(paths.topic("t")).data
        stranger.write(paths.topic("t"), b"spoilt")
        stranger.commit([change_of(["t"])])
        assert create(at, "u", 1) == 0
        assert set(state_of(broker).image.topics) == {"t", "u"}
        assert produce(at, "t", 0).base_offset == 1
        stranger.write(paths.topic("t"), whole)
        stranger.commit([change_of(["t"])])
        assert create(at, "v", 1) == 0
        assert produce(at, "t", 0).base_offset == 2


def test_each_broker_keeps_its_trail_in_a_partition_of_its_own(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    """Two brokers make the topic of the trail, and each writes what it was asked into it."""
    more: dict[str, Any] = {"admin_trail_topic": "_trail"}
    with (
        member(tmp_path, zookeeper, "trail", 0, **more) as first,
        member(tmp_path, zookeeper, "trail", 1, **more) as second,
    ):
        brokers = (first, second)
        for number, broker in enumerate(brokers):
            assert create(broker.bootstrap_servers, f"t{number}", 1) == 0
        trails = [state_of(broker).metrics.trail for broker in brokers]
        for trail in trails:
            assert trail is not None
            eventually(lambda trail: trail.written["topic"] == 1, trail)
            assert not trail.dropped
        assert sorted(leaders(first.bootstrap_servers, "_trail")) == [0, 1]
        ends = [
            partition.log.end_offset
            for broker in brokers
            for partition in state_of(broker).partitions
            if partition.topic == "_trail"
        ]
        assert ends == [1, 1]
