"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs over a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from admin_wire import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    SET,
    SUBTRACT,
    TOPIC,
    change,
    config,
    create,
    describe,
    fresh,
)

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_types import ConfigSource, ConfigType
from tallymark.broker.settings.dynamic import DYNAMIC
from tallymark.broker.settings.topic_configs import RULES
from tallymark.errors import CODES
from tallymark.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(
        tmp_path_factory.mktemp("data"), log_retention_ms=5000, ssl_key_password="geheim"
    ) as running:
        yield running


def replace(
    wire: WireClient, topic: str, configs: dict[str, str | None], version: int = 2, **rest: bool
) -> int:
    resource = AlterConfigsRequestResource(
        resource_type=TOPIC,
        resource_name=topic,
        configs=[AlterConfigsRequestConfig(name=k, value=v) for k, v in configs.items()],
    )
    request = AlterConfigsRequest(resources=[resource], **rest)
    return wire.ask(request, version).responses[0].error_code


# --- describe


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_in_every_version(wire: WireClient, version: int) -> None:
    topic = fresh()
    create(wire, topic, configs={"segment.ms": "7"})
    found = describe(
        wire, TOPIC, topic, None, version, include_synonyms=True, include_documentation=True
    )
    assert (found.error_code, found.resource_type, found.resource_name) == (0, TOPIC, topic)
    assert [each.name for each in found.configs] == list(RULES)
    by_name = {each.name: each for each in found.configs}
    own, inherited, plain = (
        by_name[name] for name in ("segment.ms", "retention.ms", "segment.bytes")
    )
    assert (own.value, own.config_source, own.read_only) == ("7", ConfigSource.TOPIC, False)
    assert (inherited.value, inherited.config_source) == ("5000", ConfigSource.STATIC_BROKER)
    assert (plain.value, plain.config_source) == (str(1024**3), ConfigSource.DEFAULT)
    assert [(s.name, s.value, s.source) for s in own.synonyms] == [
        ("segment.ms", "7", ConfigSource.TOPIC),
    ]
    assert [s.source for s in inherited.synonyms] == [ConfigSource.STATIC_BROKER]
    assert [(s.name, s.source) for s in plain.synonyms] == [
        ("log.segment.bytes", ConfigSource.DEFAULT)
    ]
    if version >= 3:
        assert own.config_type == ConfigType.LONG
        assert own.documentation == RULES["segment.ms"].doc
        assert by_name["cleanup.policy"].config_type == ConfigType.LIST


def test_synonyms_and_documentation_come_for_the_asking(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    for each in describe(wire, TOPIC, topic).configs:
        assert list(each.synonyms) == []
        assert each.documentation is None


@pytest.mark.parametrize("version", range(1, 5))
def test_the_broker_tells_its_settings_and_no_secret(wire: WireClient, version: int) -> None:
    found = describe(wire, BROKER, "0", None, version, include_synonyms=True)
    by_name = {each.name: each for each in found.configs}
    assert len(by_name) == len(BrokerSettings.model_fields)
    assert {each.name for each in found.configs if not each.read_only} == set(DYNAMIC)
    retention = by_name["log.retention.ms"]
    assert (retention.value, retention.config_source) == ("5000", ConfigSource.STATIC_BROKER)
    assert by_name["num.partitions"].config_source == ConfigSource.DEFAULT
    secret = by_name["ssl.key.password"]
    assert secret.is_sensitive
    assert secret.value is None
    assert all(synonym.value is None for synonym in secret.synonyms)
    if version >= 3:
        types = {name: ConfigType(each.config_type) for name, each in by_name.items()}
        assert types["num.partitions"] is ConfigType.INT
        assert types["log.retention.ms"] is ConfigType.LONG
        assert types["auto.create.topics.enable"] is ConfigType.BOOLEAN
        assert types["log.dirs"] is ConfigType.LIST
        assert types["zookeeper.connect"] is ConfigType.STRING
        assert types["log.format"] is ConfigType.STRING


def test_names_to_filter_by(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    found = describe(wire, TOPIC, topic, ["retention.ms", "nonsense", "retention.ms"])
    assert [each.name for each in found.configs] == ["retention.ms"]
    assert len(describe(wire, TOPIC, topic, []).configs) == len(RULES)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nowhere", "UNKNOWN_TOPIC_OR_PARTITION"),
        (TOPIC, "a/b", "INVALID_TOPIC_EXCEPTION"),
        (TOPIC, "", "INVALID_TOPIC_EXCEPTION"),
        (TOPIC, "x" * 30_000, "INVALID_TOPIC_EXCEPTION"),
        (BROKER, "1", "INVALID_REQUEST"),
        (BROKER, "zero", "INVALID_REQUEST"),
        (BROKER, "9" * 5000, "INVALID_REQUEST"),
        (LOGGER, "1", "INVALID_REQUEST"),
        (LOGGER, "", "INVALID_REQUEST"),
        (GROUP, "", "INVALID_REQUEST"),
        (16, "metrics", "INVALID_REQUEST"),
        (0, "x", "INVALID_REQUEST"),
        (-1, "x", "INVALID_REQUEST"),
        (127, "x", "INVALID_REQUEST"),
    ],
)
def test_resources_that_have_no_configs(wire: WireClient, kind: int, name: str, error: str) -> None:
    found = describe(wire, kind, name)
    assert found.error_code == CODES[error]
    assert found.error_message
    assert len(found.error_message) < 500
    assert list(found.configs) == []
    assert change(wire, name, ("retention.ms", SET, "1"), kind=kind).error_code == CODES[error]


def test_a_resource_named_often_is_described_once(wire: WireClient) -> None:
    """A request of a megabyte could ask for gigabytes: each name costs a few bytes, each answer
    kilobytes."""
    topic = fresh()
    create(wire, topic)
    resource = DescribeConfigsRequestResource(resource_type=TOPIC, resource_name=topic)
    request = DescribeConfigsRequest(resources=[resource] * 5000, include_documentation=True)
    first, *others = wire.ask(request, 4).results
    assert (first.error_code, len(first.configs)) == (0, len(RULES))
    assert {each.error_code for each in others} == {CODES["INVALID_REQUEST"]}
    assert not any(each.configs for each in others)


def test_nothing_is_set_for_all_brokers(wire: WireClient) -> None:
    found = describe(wire, BROKER, "")
    assert (found.error_code, list(found.configs)) == (0, [])


# --- alter


@pytest.mark.parametrize("version", range(2))
def test_set_and_delete(wire: WireClient, version: int) -> None:
    topic = fresh()
    create(wire, topic, configs={"segment.ms": "7"})
    changed = change(wire, topic, ("retention.ms", SET, " 9 "), version=version)
    assert (changed.error_code, changed.error_message) == (0, None)
    assert config(wire, topic, "retention.ms").value == "9"
    assert config(wire, topic, "segment.ms").value == "7", "what is not named stays"
    assert change(wire, topic, ("retention.ms", DELETE, None), version=version).error_code == 0
    back = config(wire, topic, "retention.ms")
    assert (back.value, back.config_source) == ("5000", ConfigSource.STATIC_BROKER)


def test_append_and_subtract_begin_with_what_is_in_force(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    policy = "cleanup.policy"
    assert change(wire, topic, (policy, APPEND, "compact")).error_code == 0
    assert config(wire, topic, policy).value == "delete,compact"
    assert change(wire, topic, (policy, APPEND, "compact")).error_code == 0
    assert config(wire, topic, policy).value == "delete,compact"
    assert change(wire, topic, (policy, SUBTRACT, "delete")).error_code == 0
    assert config(wire, topic, policy).value == "compact"
    empty = change(wire, topic, (policy, SUBTRACT, "compact"))
    assert empty.error_code == CODES["INVALID_CONFIG"]
    assert config(wire, topic, policy).value == "compact"


@pytest.mark.parametrize("version", range(3))
def test_the_older_form_replaces_everything(wire: WireClient, version: int) -> None:
    topic = fresh()
    create(wire, topic, configs={"segment.ms": "7", "retention.ms": "8"})
    assert replace(wire, topic, {"retention.ms": "9"}, version) == 0
    assert config(wire, topic, "retention.ms").value == "9"
    assert config(wire, topic, "segment.ms").config_source == ConfigSource.DEFAULT
    assert replace(wire, topic, {}, version) == 0
    assert config(wire, topic, "retention.ms").config_source == ConfigSource.STATIC_BROKER


def test_validation_only_changes_nothing(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    assert change(wire, topic, ("retention.ms", SET, "1"), validate_only=True).error_code == 0
    assert replace(wire, topic, {"retention.ms": "1"}, validate_only=True) == 0
    assert config(wire, topic, "retention.ms").value == "5000"
    wrong = change(wire, topic, ("retention.ms", SET, "x"), validate_only=True)
    assert wrong.error_code == CODES["INVALID_CONFIG"]


def test_changes_at_the_same_time_do_not_overwrite_each_other(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    names = ["retention.ms", "segment.ms", "flush.ms", "flush.messages", "max.message.bytes"]
    sent = 0
    for name in names:
        single = IncrementalAlterConfigsRequestConfig(name=name, config_operation=SET, value="1234")
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=TOPIC, resource_name=topic, configs=[single]
        )
        wire.send(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        sent += 1
    for _ in range(sent):
        wire.frame()
    found = {each.name: each.value for each in describe(wire, TOPIC, topic, names).configs}
    assert found == dict.fromkeys(names, "1234")


def test_changes_are_in_force_at_once_and_after_a_restart(tmp_path: Path) -> None:
    topic = fresh()
    with BrokerThread(tmp_path) as broker:
        with WireClient(broker.bootstrap_servers) as wire:
            create(wire, topic, 2)
            assert broker.broker is not None
            state = broker.broker.state
            assert state is not None
            log = state.partitions.find(topic, 1).log
            change(wire, topic, ("segment.bytes", SET, "2048"), ("cleanup.policy", SET, "compact"))
            assert log.config.segment_bytes == 2048
            assert (log.config.compact, log.config.delete) == (True, False)
            assert (log.config.retention_ms, log.config.retention_bytes) == (-1, -1)
        broker.stop()
        broker.start()
        with WireClient(broker.bootstrap_servers) as wire:
            assert config(wire, topic, "segment.bytes").value == "2048"
            assert broker.broker.state is not None
            log = broker.broker.state.partitions.find(topic, 0).log
            assert log.config.segment_bytes == 2048


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("retention.ms", SET, "soon")], "INVALID_CONFIG"),
        ([("retention.ms", SET, "-2")], "INVALID_CONFIG"),
        ([("retention.ms", SET, "1_000")], "INVALID_CONFIG"),
        ([("retention.ms", SET, "9" * 5000)], "INVALID_CONFIG"),
        ([("retention.ms", SET, "")], "INVALID_CONFIG"),
        ([("retention.ms", SET, None)], "INVALID_REQUEST"),
        ([("retention.ms", APPEND, "1")], "INVALID_CONFIG"),
        ([("retention.ms", 4, "1")], "INVALID_REQUEST"),
        ([("retention.ms", -1, "1")], "INVALID_REQUEST"),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], "INVALID_REQUEST"),
        ([("cleanup.policy", APPEND, None)], "INVALID_REQUEST"),
        ([("cleanup.policy", APPEND, "zip")], "INVALID_CONFIG"),
        ([("cleanup.policy", SET, ",")], "INVALID_CONFIG"),
        ([("cleanup.policy", SET, "delete,delete")], "INVALID_CONFIG"),
        ([("retention.sm", SET, "1")], "INVALID_CONFIG"),
        ([("retention.sm", DELETE, None)], "INVALID_CONFIG"),
        ([("", SET, "1")], "INVALID_CONFIG"),
        ([("n" * 30_000, SET, "1")], "INVALID_CONFIG"),
        ([("compression.type", SET, "none")], "INVALID_CONFIG"),
        ([("compression.gzip.level", SET, "0")], "INVALID_CONFIG"),
        ([("min.insync.replicas", SET, "0")], "INVALID_CONFIG"),
        ([("remote.storage.enable", SET, "true")], "INVALID_CONFIG"),
        ([("leader.replication.throttled.replicas", SET, "0")], "INVALID_CONFIG"),
        ([("segment.ms", SET, "5"), ("segment.bytes", SET, "1")], "INVALID_CONFIG"),
    ],
)
def test_wrong_changes_change_nothing(
    wire: WireClient, changes: list[tuple[str, int, str | None]], error: str
) -> None:
    topic = fresh()
    create(wire, topic)
    answer = change(wire, topic, *changes)
    assert answer.error_code == CODES[error]
    assert answer.error_message
    assert len(answer.error_message) < 500
    sources = {each.config_source for each in describe(wire, TOPIC, topic).configs}
    assert ConfigSource.TOPIC not in sources


def test_the_older_form_has_no_null_and_no_name_twice(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic, configs={"segment.ms": "7"})
    assert replace(wire, topic, {"retention.ms": None}) == CODES["INVALID_REQUEST"]
    assert replace(wire, topic, {"retention.sm": "1"}) == CODES["INVALID_CONFIG"]
    twice = [AlterConfigsRequestConfig(name="retention.ms", value="1")] * 2
    resource = AlterConfigsRequestResource(resource_type=TOPIC, resource_name=topic, configs=twice)
    answer = wire.ask(AlterConfigsRequest(resources=[resource]), 2)
    assert answer.responses[0].error_code == CODES["INVALID_REQUEST"]
    assert config(wire, topic, "segment.ms").value == "7"


def test_a_resource_named_twice_is_refused_and_others_are_not(wire: WireClient) -> None:
    twice, once = fresh(), fresh()
    create(wire, twice)
    create(wire, once)

    def setting(topic: str, value: str) -> IncrementalAlterConfigsRequestResource:
        change = IncrementalAlterConfigsRequestConfig(
            name="retention.ms", config_operation=SET, value=value
        )
        return IncrementalAlterConfigsRequestResource(
            resource_type=TOPIC, resource_name=topic, configs=[change]
        )

    resources = [setting(twice, "1"), setting(once, "2"), setting(twice, "3")]
    answer = wire.ask(IncrementalAlterConfigsRequest(resources=resources), 1)
    assert [each.error_code for each in answer.responses] == [
        CODES["INVALID_REQUEST"],
        0,
        CODES["INVALID_REQUEST"],
    ]
    assert config(wire, twice, "retention.ms").value == "5000"
    assert config(wire, once, "retention.ms").value == "2"


def test_a_brokers_settings_need_a_restart(wire: WireClient) -> None:
    known = change(wire, "0", ("log.dirs", SET, "/elsewhere"), kind=BROKER)
    assert known.error_code == CODES["INVALID_REQUEST"]
    assert "restart" in (known.error_message or "")
    unknown = change(wire, "", ("log.retntion.ms", SET, "1"), kind=BROKER)
    assert unknown.error_code == CODES["INVALID_CONFIG"]
    assert "log.retention.ms" in (unknown.error_message or "")
    assert change(wire, "0", kind=BROKER).error_code == 0
