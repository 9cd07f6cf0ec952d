"""What Apache Kafka is started with, and what is said where it cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.cache_folder import cache_folder
from tallymark.cli.servers.apache_kafka import make
from tallymark.deployment import BrokerAddress, Cluster, Deployment
from tallymark.errors import UserError
from tallymark.processes.apache_kafka import ApacheKafkaServer, NotAvailableError
from tallymark.processes.apache_kafka.jars import VERSION, jars
from tallymark.processes.apache_kafka.properties import properties, text


def test_what_is_given_stands_over_what_is_usual() -> None:
    found = properties(
        node_id=3,
        host="127.0.0.1",
        port=9092,
        advertised_host="broker-dc1",
        voters={3: 9093},
        log_dir=Path("/data"),
        given={"num.partitions": "7"},
    )
    assert found["num.partitions"] == "7"
    assert found["advertised.listeners"] == "PLAINTEXT://broker-dc1:9092"
    assert found["controller.quorum.voters"] == "3@127.0.0.1:9093"


def test_a_node_of_three_names_them_all_and_keeps_its_own_topics_three_times() -> None:
    found = properties(
        node_id=2,
        host="127.0.0.1",
        port=9092,
        advertised_host="127.0.0.1",
        voters={1: 7001, 2: 7002, 3: 7003},
        log_dir=Path("/data"),
        given={},
    )
    voters = "1@127.0.0.1:7001,2@127.0.0.1:7002,3@127.0.0.1:7003"
    assert found["controller.quorum.voters"] == voters
    assert found["listeners"].endswith("CONTROLLER://127.0.0.1:7002")
    assert found["offsets.topic.replication.factor"] == "3"
    assert found["transaction.state.log.min.isr"] == "2"


def test_listeners_beside_the_plain_one() -> None:
    found = properties(
        node_id=0,
        host="127.0.0.1",
        port=9092,
        advertised_host="localhost",
        voters={0: 9093},
        log_dir=Path("/data"),
        given={},
        secured={"SASL_SSL": 9094},
    )
    plain, secured, controller = found["listeners"].split(",")
    assert (plain, secured) == ("PLAINTEXT://127.0.0.1:9092", "SASL_SSL://127.0.0.1:9094")
    assert controller == "CONTROLLER://127.0.0.1:9093"
    assert found["advertised.listeners"] == "PLAINTEXT://localhost:9092,SASL_SSL://localhost:9094"
    protocols = dict(pair.split(":") for pair in found["listener.security.protocol.map"].split(","))
    assert protocols == {
        "PLAINTEXT": "PLAINTEXT",
        "SASL_SSL": "SASL_SSL",
        "CONTROLLER": "PLAINTEXT",
    }


def test_a_folder_with_any_name_is_read_back_by_java() -> None:
    assert text({"log.dirs": "/a\\b/ö"}) == "log.dirs=/a\\\\b/\\u00f6\n"


def test_jars_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYMARK_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    with pytest.raises(NotAvailableError, match="fetch them with deploy/ensure-apache-kafka"):
        jars(fetch=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotAvailableError, match="there is no mvn to fetch them"):
        jars()
    (tmp_path / f"apache-kafka-{VERSION}").mkdir()
    assert jars() == tmp_path / f"apache-kafka-{VERSION}"


def test_maven_that_fails_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text("#!/bin/sh\necho '[ERROR] no network'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:/bin:/usr/bin")
    monkeypatch.setenv("TALLYMARK_CACHE", str(tmp_path / "cache"))
    with pytest.raises(NotAvailableError, match=r"mvn did not get .*: \[ERROR\] no network"):
        jars()
    assert list((tmp_path / "cache").iterdir()) == []


def test_no_java_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(NotAvailableError, match="Apache Kafka needs Java"):
        ApacheKafkaServer(tmp_path).start()


def test_a_broker_as_the_settings_describe_it(tmp_path: Path) -> None:
    there = BrokerAddress(id=2, port=9192, advertised_host="elsewhere")
    kafka = Cluster(
        name="dc2",
        kind="apache-kafka",
        brokers=(there,),
        broker_settings={"log.cleaner.enable": True},
    )
    ours = Cluster(name="dc1", brokers=(BrokerAddress(port=1),))
    deployment = Deployment(data_dir=tmp_path, clusters=(kafka, ours), mirrors=())
    server = make(deployment, "dc2", 2)
    assert server.bootstrap_servers == "elsewhere:9192"
    assert server.data == tmp_path / "dc2" / "broker-2" / "data"
    with pytest.raises(UserError, match="no broker 0"):
        make(deployment, "dc2", 0)
    with pytest.raises(UserError, match="dc1 has our brokers"):
        make(deployment, "dc1", 0)
    with pytest.raises(UserError, match="there is no cluster 'dc3'"):
        make(deployment, "dc3", 0)
