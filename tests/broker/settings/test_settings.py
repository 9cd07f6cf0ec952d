"""The settings class is the reference manual: names, documentation, errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.names import kafka_name
from tallymark.broker.settings.text import parse, reference
from tallymark.cli.servers.broker import command, of_deployment
from tallymark.deployment import BrokerAddress, Cluster, Deployment, ZooKeeperSettings
from tallymark.errors import UserError


def test_every_field_has_a_text_and_stands_in_the_reference() -> None:
    page = reference()
    for field, info in BrokerSettings.model_fields.items():
        assert info.description, f"{field} has no docstring"
        assert f"{kafka_name(field)} = " in page


def test_settings_come_by_kafka_names_older_names_and_field_names() -> None:
    settings = parse(
        {
            "broker.id": "3",
            "log.dirs": "a, b",
            "enable.zookeeper": "false",
            "num_partitions": 4,
            "log.retention.ms": -1,
        }
    )
    assert settings.node_id == 3
    assert settings.log_dirs == (Path("a"), Path("b"))
    assert settings.enable_zookeeper is False
    assert settings.num_partitions == 4
    assert settings.log_retention_ms == -1


def test_an_unknown_setting_is_told_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"log\.segmnt\.bytes.*did you mean log\.segment\.bytes"):
        parse({"log.segmnt.bytes": 1})


def test_every_wrong_value_is_named() -> None:
    with pytest.raises(UserError) as raised:
        parse({"port": "x", "log.segment.bytes": 1})
    assert "port='x'" in str(raised.value)
    assert "log.segment.bytes=1" in str(raised.value)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"host.name": "0.0.0.0"}, "host.name=0.0.0.0 needs advertised.host.name"),
        ({"log.dirs": " , "}, "log.dirs names no folder"),
        (
            {"replica.fetch.wait.max.ms": 501, "replica.lag.time.max.ms": 500},
            "replica.fetch.wait.max.ms=501 must not be above replica.lag.time.max.ms=500",
        ),
        (
            {"replica.fetch.wait.max.ms": 40_000, "replica.lag.time.max.ms": 50_000},
            "replica.fetch.wait.max.ms=40000 must not be above replica.socket.timeout.ms=30000",
        ),
    ],
)
def test_settings_that_do_not_go_together(values: dict[str, str], text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse(values)
    assert text in str(raised.value)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        BrokerSettings().port = 1  # that it fails is the point


def test_the_command_prints_the_reference() -> None:
    result = CliRunner().invoke(command, ["--help-settings"])
    assert result.exit_code == 0
    assert result.output == reference()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "which broker shall run"),
        (["--data", "x", "--set", "port"], "is not NAME=VALUE"),
        (["--data", "x", "--set", "prt=1"], "did you mean port"),
        (["--cluster", "nowhere"], "there is no cluster 'nowhere'"),
        (["--cluster", "dc1", "--id", "9"], "no broker 9"),
    ],
)
def test_wrong_usage_is_one_clear_line(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert isinstance(result.exception, UserError)
    assert text in str(result.exception)


def test_a_deployment_says_everything_about_a_broker(tmp_path: Path) -> None:
    cluster = Cluster(
        name="dc1",
        brokers=(BrokerAddress(id=2, port=9999, advertised_host="example"),),
        broker_settings={"log.segment.bytes": 4096},
    )
    deployment = Deployment(
        data_dir=tmp_path,
        clusters=(cluster,),
        mirrors=(),
        zookeeper=ZooKeeperSettings(port=2222, session_timeout_ms=5000),
    )
    settings = parse(of_deployment(deployment, "dc1", 2))
    assert settings.node_id == 2
    assert settings.port == 9999
    assert settings.advertised_host_name == "example"
    assert settings.log_dirs == (tmp_path / "dc1" / "broker-2",)
    assert settings.zookeeper_connect == "127.0.0.1:2222/dc1"
    assert settings.zookeeper_session_timeout_ms == 5000
    assert settings.log_segment_bytes == 4096


def test_a_selector_of_replicas_is_one_that_there_is() -> None:
    known = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    assert parse({"replica.selector.class": known}).replica_selector_class == known
    with pytest.raises(UserError, match=r"replica\.selector\.class"):
        parse({"replica.selector.class": "com.example.Mine"})
