"""Levels of features on the wire: what clients are told, and how a level rises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cluster_members import member, metadata, state_of, zookeeper_or_skip
from ended_with import protocols
from eventually import eventually

from tallymark import Producer
from tallymark.broker import server
from tallymark.cli.admin.features import command
from tallymark.client import Admin
from tallymark.coordination import ZooKeeper, paths
from tallymark.errors import CODES, KafkaError, UserError
from tallymark.net.client.versions import question
from tallymark.protocol import messages as m
from tallymark.replication.features import OURS, REPLICATION, TRANSACTION, Levels, Supported
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.reading import read_topic
from tallymark.testing.wire import WireClient
from tallymark.testing.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.process
ABLE: Supported = {REPLICATION: Levels(0, 1), "other.version": Levels(1, 2)}
OLD: Supported = {}
WRONG = CODES["INVALID_UPDATE_VERSION"]
NO_COORDINATOR = CODES["COORDINATOR_NOT_AVAILABLE"]


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with zookeeper_or_skip(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Brokers that start from now on are of a release with this support."""
    return lambda support: monkeypatch.setattr(server, "OURS", support)


def told(address: str, version: int = 4) -> m.ApiVersionsResponse:
    with WireClient(address) as wire:
        return wire.ask(question(), version)


def raise_level(
    address: str,
    level: int = 1,
    version: int = 2,
    feature: str = REPLICATION,
    kind: int = 1,
    **fields: Any,
) -> m.UpdateFeaturesResponse:
    asked = m.UpdateFeaturesRequestFeature(
        feature=feature, max_version_level=level, upgrade_type=kind
    )
    with WireClient(address) as wire:
        return wire.ask(m.UpdateFeaturesRequest(feature_updates=[asked], **fields), version)


def run(broker: BrokerThread, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, [*arguments, "--bootstrap-server", broker.bootstrap_servers])
    if isinstance(done.exception, UserError):
        return 1, str(done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_what_is_told_by_version(tmp_path: Path, zookeeper: ZooKeeperServer, release: Any) -> None:
    release(ABLE)
    with member(tmp_path, zookeeper, "told", 0) as broker:
        address = broker.bootstrap_servers
        for version in range(3):
            assert not told(address, version).supported_features
        third, fourth = told(address, 3), told(address, 4)
        names = [each.name for each in fourth.supported_features]
        assert sorted(names) == ["other.version", REPLICATION]
        assert [each.name for each in third.supported_features] == ["other.version"]
        assert fourth.finalized_features == ()
        assert fourth.finalized_features_epoch == third.finalized_features_epoch >= 0
        assert raise_level(address).error_code == 0
        for version in (3, 4):
            after = told(address, version)
            assert after.finalized_features_epoch == fourth.finalized_features_epoch + 1
            assert [
                (each.name, each.min_version_level, each.max_version_level)
                for each in after.finalized_features
            ] == [(REPLICATION, 1, 1)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_level_rises_on_all_brokers_at_once(
    tmp_path: Path, zookeeper: ZooKeeperServer, release: Any, version: int
) -> None:
    release(ABLE)
    first, second = (member(tmp_path, zookeeper, f"rises{version}", n) for n in range(2))
    with first, second:
        eventually(lambda: len(metadata(first.bootstrap_servers).brokers) == 2)
        if version:
            asked = raise_level(first.bootstrap_servers, version=version, validate_only=True)
            assert asked.error_code == 0
            assert state_of(first).image.features.level(REPLICATION) == 0
        answer = raise_level(second.bootstrap_servers, version=version)
        assert (answer.error_code, answer.error_message) == (0, None)
        named = [(each.feature, each.error_code) for each in answer.results]
        assert named == ([(REPLICATION, 0)] if version < 2 else [])
        assert state_of(second).image.features.level(REPLICATION) == 1
        # Not after the half minute of a refresh without a change.
        eventually(lambda: state_of(first).image.features.level(REPLICATION) == 1)
        epoch = state_of(second).image.features.epoch
        assert raise_level(second.bootstrap_servers, version=version).error_code == 0
        assert state_of(second).image.features.epoch == epoch, "it was there already"


def test_what_cannot_be_is_refused_with_the_reason(
    tmp_path: Path, zookeeper: ZooKeeperServer, release: Any
) -> None:
    release(ABLE)
    first, second = (member(tmp_path, zookeeper, "refused", n) for n in range(2))
    with first:
        release(OLD)
        second.start()
        address = first.bootstrap_servers
        eventually(lambda: len(metadata(address).brokers) == 2)
        for answer, text in (
            (raise_level(address), "brokers [1] do not support level 1"),
            (raise_level(address, 7), "brokers [0, 1] do not support level 7"),
            (raise_level(address, feature="nope"), "no broker knows the feature 'nope'"),
            (raise_level(address, -1), "a level is at least 0"),
            (raise_level(address, kind=9), "upgrade type 9 is unknown"),
            (raise_level(address, kind=2), "this is no downgrade"),
            (raise_level(address, kind=3), "this is no downgrade"),
        ):
            assert answer.error_code == WRONG
            assert text in (answer.error_message or "")
        second.stop()
        eventually(lambda: len(metadata(address).brokers) == 1)
        assert raise_level(address).error_code == 0
        for kind in (1, 2, 3):
            down = raise_level(address, 0, kind=kind)
            assert down.error_code == WRONG
            assert "is at level 1 and cannot go back" in (down.error_message or "")
        with pytest.raises(UserError, match=r"uses replication\.version at level 1"):
            second.start()
        twice = m.UpdateFeaturesRequestFeature(feature=REPLICATION, max_version_level=1)
        with WireClient(address) as wire:
            both = wire.ask(m.UpdateFeaturesRequest(feature_updates=[twice, twice]), 2)
        assert both.error_code == CODES["INVALID_REQUEST"]


def test_levels_that_cannot_be_read_are_not_written_over(
    tmp_path: Path, zookeeper: ZooKeeperServer, release: Any
) -> None:
    release(ABLE)
    with (
        member(tmp_path, zookeeper, "damaged", 0) as broker,
        ZooKeeper(zookeeper.connect, "/damaged").start() as session,
    ):
        session.write(paths.FEATURES, b'{"features":{"replication.version":"one"}}')
        answer = raise_level(broker.bootstrap_servers)
        assert answer.error_code == CODES["FEATURE_UPDATE_FAILED"]
        assert "malformed content" in (answer.error_message or "")
        assert b'"one"' in session.read(paths.FEATURES).data


def test_the_commands(tmp_path: Path, zookeeper: ZooKeeperServer, release: Any) -> None:
    release(ABLE)
    first, second = (member(tmp_path, zookeeper, "commands", n) for n in range(2))
    with first, Admin(bootstrap_servers=first.bootstrap_servers) as admin:
        release({REPLICATION: Levels(0, 1)})
        second.start()
        eventually(lambda: len(admin.brokers()) == 2)
        code, text = run(first, "describe", "--json")
        rows = {row["feature"]: row for row in json.loads(text)}
        assert code == 0
        assert rows[REPLICATION] == {
            "feature": REPLICATION,
            "level": 0,
            "possible": 1,
            "brokers": "0,1: 0-1",
        }
        assert rows["other.version"]["brokers"] == "1: 0-0; 0: 1-2"
        for arguments, why in (
            (["replication.version"], "is not FEATURE=LEVEL"),
            (["replication.version=-1"], "is not FEATURE=LEVEL"),
            (["replication.version=1", "replication.version=1"], "given twice"),
            (["nope=1"], "no broker of this cluster knows"),
            (["other.version=2"], "brokers 1 support 0 at most"),
        ):
            code, text = run(first, "upgrade", *arguments)
            assert code == 1
            assert why in text
        assert "could be raised from level 0 to 1" in run(first, "upgrade", "--dry-run")[1]
        assert admin.describe_features().features[REPLICATION].level == 0
        # Collectors make __consumer_offsets before: it has one replica, and was taken for safe.
        raised = run(second, "upgrade")[1]
        assert "raised from level 0 to 1" in raised
        assert "topics that are there keep the replicas that they have" in raised
        eventually(lambda: admin.describe_features().features[REPLICATION].level == 1)
        assert "nothing to raise" in run(first, "upgrade")[1]
        assert "cannot go back" in run(first, "upgrade", "replication.version=0")[1]
        with pytest.raises(KafkaError, match="cannot go back"):
            admin.update_features({REPLICATION: 0})
        second.stop()


def test_a_broker_without_zookeeper_has_transactions_only(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        (row,) = json.loads(run(broker, "describe", "--json")[1])
        assert (row["feature"], row["level"], row["possible"]) == ("transaction.version", 2, 2)
        assert "nothing to raise" in run(broker, "upgrade")[1]
        answer = raise_level(broker.bootstrap_servers)
        assert answer.error_code == WRONG
        assert "a broker without ZooKeeper has no features to raise" in (answer.error_message or "")


def test_names_of_features_are_not_cut_in_the_middle(tmp_path: Path) -> None:
    """A broker without ZooKeeper answered with the names in one text of at most 80 characters: the
    last one ended in its middle, and those behind it were left out without a word."""
    names = [f"feature-number-{number}.of.some.other.release" for number in range(3)]
    with (
        BrokerThread(tmp_path) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        with pytest.raises(KafkaError, match=f"{names[0]} and 2 more: a broker without") as told:
            admin.update_features(dict.fromkeys(names, 1))
        assert names[1] not in str(told.value)
        with pytest.raises(KafkaError, match=f"{names[0]}: a broker without"):
            admin.update_features({names[0]: 1})


def test_clients_of_others_read_the_levels_or_are_not_disturbed_by_them(
    tmp_path: Path, zookeeper: ZooKeeperServer, release: Any
) -> None:
    kafka = pytest.importorskip("kafka")
    confluent = pytest.importorskip("confluent_kafka.admin")
    release(ABLE)
    with member(tmp_path, zookeeper, "others", 1) as broker:
        assert raise_level(broker.bootstrap_servers).error_code == 0
        admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        try:
            read = admin.describe_features()
        finally:
            admin.close()
        assert read[REPLICATION]["supported"] == (0, 1)
        assert read[REPLICATION]["finalized"] == (1, 1)
        assert "finalized" not in read["other.version"]
        librdkafka = confluent.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert set(librdkafka.list_topics(timeout=20).brokers) == {1}


def coordinator_code(broker: BrokerThread) -> int:
    """What it answers to one that looks for the coordinator of a transactional id."""
    with WireClient(broker.bootstrap_servers) as wire:
        return wire.ask(m.FindCoordinatorRequest("copier", 1), 3).error_code


def test_transactions_begin_with_the_last_broker_that_is_replaced_and_follow_the_level(
    tmp_path: Path, zookeeper: ZooKeeperServer, release: Any
) -> None:
    """The short twin of ``copying/test_copiers_after_an_upgrade.py``, which runs code of before.
    Here brokers register the support of a release without transactions, and then ours."""
    release({REPLICATION: Levels(0, 1)})
    brokers = [
        member(tmp_path, zookeeper, "replaced", n, transaction_state_log_num_partitions=1)
        for n in range(2)
    ]
    with ExitStack() as stack:
        for broker in brokers:
            stack.enter_context(broker)
        servers = ",".join(broker.bootstrap_servers for broker in brokers)
        with Admin(bootstrap_servers=servers) as admin:
            eventually(lambda: len(admin.brokers()) == 2)
            admin.create_topic("t")
        plain = stack.enter_context(Producer(bootstrap_servers=servers, audit=False))
        release(OURS)
        for broker in brokers:
            assert {coordinator_code(each) for each in brokers} == {NO_COORDINATOR}
            plain.send("t", b"plain")
            broker.stop()
            broker.start()
            eventually(lambda: all(knows_both(each) for each in brokers))
        committed(servers)
        eventually(lambda: protocols(servers) == {0})
        assert raise_level(brokers[1].bootstrap_servers, 2, feature=TRANSACTION).error_code == 0
        eventually(lambda: all(level_of(each) == 2 for each in brokers))
        committed(servers)
        eventually(lambda: protocols(servers) == {2})
        plain.flush(60)
        values = [
            bytes(one.value or b"") for one in read_topic(servers, "t", isolation="read_committed")
        ]
        assert sorted(values) == [b"copied", b"copied", b"plain", b"plain"]


def knows_both(broker: BrokerThread) -> bool:
    return len(metadata(broker.bootstrap_servers).brokers) == 2


def level_of(broker: BrokerThread) -> int:
    return state_of(broker).image.features.level(TRANSACTION)


def committed(servers: str) -> None:
    """A transaction of a producer that begins; its markers may be on their way."""
    with Producer(bootstrap_servers=servers, transactional_id="copier") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"copied")
