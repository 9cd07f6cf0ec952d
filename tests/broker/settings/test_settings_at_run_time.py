"""Settings of brokers that change while they run, for one broker and for all (KIP-226)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from admin_wire import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    TOPIC,
    change,
    config,
    create,
    describe,
    fresh,
)
from broker_kinds import KINDS, AnyBroker, either_broker
from eventually import eventually
from hypothesis import given
from hypothesis import strategies as st

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_types import ConfigSource
from tallymark.broker.settings.dynamic import DYNAMIC, Dynamic, check
from tallymark.errors import CODES, KafkaError
from tallymark.protocol import messages as m
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

OWN, EVERYBODY, STATIC, DEFAULT = (
    ConfigSource.DYNAMIC_BROKER,
    ConfigSource.DYNAMIC_DEFAULT_BROKER,
    ConfigSource.STATIC_BROKER,
    ConfigSource.DEFAULT,
)


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    yield from either_broker(request, tmp_path_factory.mktemp("data"))


def told(wire: WireClient, kind: int, name: str, config: str) -> tuple[str | None, int] | None:
    found = describe(wire, kind, name, [config], include_synonyms=True).configs
    return (found[0].value, found[0].config_source) if found else None


def test_the_one_counts_before_all_and_that_before_what_it_was_started_with(
    wire: WireClient,
) -> None:
    """An administrator whose disks filled up shortened the retention of all brokers, as every guide
    to Kafka says. It was INVALID_REQUEST: restart each of them."""
    name = "log.cleaner.delete.retention.ms"
    topic = fresh()
    create(wire, topic)
    before = told(wire, BROKER, "0", name)
    assert change(wire, "", (name, SET, "6000"), kind=BROKER).error_code == 0
    eventually(lambda: told(wire, BROKER, "0", name) == ("6000", EVERYBODY))
    assert told(wire, BROKER, "", name) == ("6000", EVERYBODY)
    assert change(wire, "0", (name, SET, "7000"), kind=BROKER).error_code == 0
    eventually(lambda: told(wire, BROKER, "0", name) == ("7000", OWN))
    assert told(wire, BROKER, "", name) == ("6000", EVERYBODY)
    eventually(lambda: told(wire, TOPIC, topic, "delete.retention.ms") == ("7000", OWN))
    (found,) = describe(wire, BROKER, "0", [name], include_synonyms=True).configs
    assert not found.read_only
    assert [(s.value, s.source) for s in found.synonyms[:2]] == [("7000", OWN), ("6000", EVERYBODY)]
    for resource in ("0", ""):
        assert change(wire, resource, (name, DELETE, None), kind=BROKER).error_code == 0
    eventually(lambda: told(wire, BROKER, "0", name) == before)
    assert told(wire, BROKER, "", name) is None


def produce(wire: WireClient, topic: str, size: int) -> int:
    part = m.ProduceRequestPartition(
        index=0, records=encode_batch([(b"k", bytes(size), (), 1_700_000_000_000)])
    )
    named = m.ProduceRequestTopic(name=topic, partition_data=[part])
    request = m.ProduceRequest(acks=1, timeout_ms=5000, topic_data=[named])
    return wire.ask(request, 11).responses[0].partition_responses[0].error_code


def test_logs_that_are_open_go_by_it_at_once(wire: WireClient) -> None:
    topic, own = fresh(), fresh()
    create(wire, topic)
    create(wire, own, configs={"max.message.bytes": "50000"})
    for name in (topic, own):
        eventually(lambda n=name: produce(wire, n, 10) == 0)
    assert change(wire, "0", ("message.max.bytes", SET, "1000"), kind=BROKER).error_code == 0
    eventually(lambda: produce(wire, topic, 5000) == CODES["MESSAGE_TOO_LARGE"])
    assert produce(wire, own, 5000) == 0, "the topic has its own"
    assert change(wire, "0", ("message.max.bytes", DELETE, None), kind=BROKER).error_code == 0
    eventually(lambda: produce(wire, topic, 5000) == 0)


@pytest.mark.parametrize(
    ("resource", "changed"),
    [
        ("0", ("log.dirs", SET, "/elsewhere")),
        ("0", ("log.retention.ms", SET, "soon")),
        ("", ("log.segment.bytes", SET, "-5")),
        ("0", ("log.retention.ms", SET, None)),
        ("7", ("log.retention.ms", SET, "1")),
        ("zero", ("log.retention.ms", SET, "1")),
    ],
)
def test_what_kafka_refuses_is_refused(
    wire: WireClient, resource: str, changed: tuple[str, int, str | None]
) -> None:
    answer = change(wire, resource, changed, kind=BROKER)
    assert answer.error_code == CODES["INVALID_REQUEST"]
    assert answer.error_message


def test_limits_that_were_never_set_can_be_taken_away(wire: WireClient) -> None:
    """kafka-reassign-partitions --verify and --cancel take away all limits of a move when it is
    over, also that of moves between directories. They ended with INVALID_CONFIG, and all limits
    stayed."""
    limits = (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
    answer = change(wire, "0", *((name, DELETE, None) for name in limits), kind=BROKER)
    assert (answer.error_code, answer.error_message) == (0, None)


def test_a_limit_without_effect_is_refused_with_the_reason() -> None:
    limit = {"replica.alter.log.dirs.io.max.bytes.per.second": "1000"}
    with pytest.raises(KafkaError, match="no effect here: nothing moves between directories"):
        check(limit)
    assert Dynamic.of({"0": limit}, 0) == Dynamic()


def test_a_list_is_appended_to_as_it_is_in_force(wire: WireClient) -> None:
    policy = "log.cleanup.policy"
    assert change(wire, "0", (policy, SET, "delete"), kind=BROKER).error_code == 0
    eventually(lambda: told(wire, BROKER, "0", policy) == ("delete", OWN))
    assert change(wire, "0", (policy, APPEND, "compact"), kind=BROKER).error_code == 0
    eventually(lambda: told(wire, BROKER, "0", policy) == ("delete,compact", OWN))
    assert change(wire, "0", (policy, DELETE, None), kind=BROKER).error_code == 0
    eventually(lambda: told(wire, BROKER, "0", policy) == ("delete", DEFAULT))


def replace(wire: WireClient, resource: str, configs: dict[str, str]) -> int:
    asked = m.AlterConfigsRequestResource(
        resource_type=BROKER,
        resource_name=resource,
        configs=[m.AlterConfigsRequestConfig(name=k, value=v) for k, v in configs.items()],
    )
    return wire.ask(m.AlterConfigsRequest(resources=[asked]), 2).responses[0].error_code


def test_the_older_form_replaces_what_was_set(wire: WireClient) -> None:
    first, second = "log.cleaner.min.compaction.lag.ms", "log.cleaner.backoff.ms"
    kept = told(wire, BROKER, "0", second)
    assert replace(wire, "0", {first: "5"}) == 0
    eventually(lambda: told(wire, BROKER, "0", first) == ("5", OWN))
    assert replace(wire, "0", {second: "400"}) == 0
    eventually(lambda: told(wire, BROKER, "0", second) == ("400", OWN))
    assert told(wire, BROKER, "0", first) == ("0", DEFAULT)
    assert replace(wire, "0", {}) == 0
    eventually(lambda: told(wire, BROKER, "0", second) == kept)


# --- ours


def test_it_holds_after_a_restart(tmp_path: Path) -> None:
    with BrokerThread(tmp_path, log_retention_ms=5000) as broker:
        with WireClient(broker.bootstrap_servers) as wire:
            topic = fresh()
            create(wire, topic)
            assert config(wire, topic, "retention.ms").value == "5000"
            for resource, value in (("", "6000"), ("0", "7000")):
                changed = ("log.retention.ms", SET, value)
                assert change(wire, resource, changed, kind=BROKER).error_code == 0
            same = change(wire, "0", ("max.connections", SET, "7"), kind=BROKER, validate_only=True)
            assert same.error_code == 0
        broker.stop()
        broker.start()
        with WireClient(broker.bootstrap_servers) as wire:
            found = config(wire, topic, "retention.ms")
            assert [(s.value, s.source) for s in found.synonyms] == [
                ("7000", OWN),
                ("6000", EVERYBODY),
                ("5000", STATIC),
            ]
            state = of(broker)
            assert state.partitions.find(topic, 0).log.config.retention_ms == 7000
            assert state.settings.max_connections == BrokerSettings().max_connections


def of(broker: BrokerThread) -> Any:
    assert broker.broker is not None
    assert broker.broker.state is not None
    return broker.broker.state


def test_what_is_no_topics_changes_at_once_too(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, WireClient(broker.bootstrap_servers) as wire:
        changes = [
            ("max.connections", SET, "1"),
            ("max.connections.per.ip", SET, "3"),
            ("log.cleaner.backoff.ms", SET, "123"),
        ]
        assert change(wire, "0", *changes, kind=BROKER).error_code == 0
        with WireClient(broker.bootstrap_servers) as refused:
            assert refused.closed_by_peer()
        assert change(wire, "0", ("max.connections", DELETE, None), kind=BROKER).error_code == 0
        with WireClient(broker.bootstrap_servers) as taken:
            assert taken.ask(m.ApiVersionsRequest(), 0).error_code == 0


def test_what_another_kind_of_broker_has_kept_does_no_harm() -> None:
    brokers = {
        "<default>": {"num.io.threads": "8", "log.retention.ms": "6000"},
        "0": {"log.retention.ms": "soon", "ssl.keystore.location": "/x.jks"},
        "1": {"log.retention.ms": "1"},
    }
    dynamic = Dynamic.of(brokers, 0)
    assert dynamic == Dynamic({}, {"log.retention.ms": "6000"})
    static = BrokerSettings(log_roll_ms=7, log_dirs=(Path("/a"), Path("/b")), port=1234)
    settings = dynamic.on(static)
    assert settings == static.model_copy(update={"log_retention_ms": 6000})
    assert Dynamic().on(static) is static


@given(st.sampled_from(sorted(DYNAMIC)), st.text(max_size=12) | st.integers().map(str))
def test_a_value_is_in_force_or_refused(name: str, value: str) -> None:
    if refused(name, value):
        assert Dynamic.of({"0": {name: value}}, 0) == Dynamic()
    else:
        settings = Dynamic({name: value}, {}).on(BrokerSettings())
        assert DYNAMIC[name] in settings.model_fields_set


def refused(name: str, value: str) -> bool:
    try:
        check({name: value})
    except KafkaError:
        return True
    return False


def test_every_dynamic_setting_takes_its_own_default() -> None:
    for name, field in DYNAMIC.items():
        value = getattr(BrokerSettings(), field)
        check({name: str(value).lower() if isinstance(value, bool) else str(value)})
