"""Configs of groups (resource type 32) and levels of the broker's loggers (type 8)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from admin_wire import APPEND, DELETE, GROUP, LOGGER, SET, change, describe, fresh
from broker_kinds import KINDS, AnyBroker, either_broker
from eventually import eventually

from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

SESSION = "consumer.session.timeout.ms"
OURS_LOGGER = "tallymark.broker.leadership.apply_image"


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    yield from either_broker(request, tmp_path_factory.mktemp("data"))


def of_group(wire: WireClient, name: str) -> dict[str, tuple[str | None, int, int]]:
    found = describe(wire, GROUP, name)
    assert found.error_code == 0
    return {c.name: (c.value, c.config_source, c.config_type) for c in found.configs}


def test_a_group_has_the_configs_of_kafka(wire: WireClient) -> None:
    """Kafka's console and its operators describe groups; a type that is INVALID_REQUEST made
    ``kafka-configs --entity-type groups`` fail."""
    group = fresh()
    assert of_group(wire, group) == {
        SESSION: ("45000", 5, 3),
        "consumer.heartbeat.interval.ms": ("5000", 5, 3),
        "share.auto.offset.reset": ("latest", 5, 2),
        "share.heartbeat.interval.ms": ("5000", 5, 3),
        "share.isolation.level": ("read_uncommitted", 5, 2),
        "share.record.lock.duration.ms": ("30000", 5, 3),
        "share.session.timeout.ms": ("45000", 5, 3),
        "streams.heartbeat.interval.ms": ("5000", 5, 3),
        "streams.num.standby.replicas": ("0", 5, 3),
        "streams.session.timeout.ms": ("45000", 5, 3),
    }
    assert change(wire, group, (SESSION, SET, "46000"), kind=GROUP).error_code == 0
    eventually(lambda: of_group(wire, group)[SESSION] == ("46000", 8, 3))
    listed = wire.ask(m.ListConfigResourcesRequest(resource_types=[GROUP]), 1).config_resources
    assert group in [each.resource_name for each in listed]
    assert change(wire, group, (SESSION, DELETE, None), kind=GROUP).error_code == 0
    eventually(lambda: of_group(wire, group)[SESSION] == ("45000", 5, 3))


@pytest.mark.parametrize(
    ("group", "changed", "error"),
    [
        ("g", (SESSION, SET, "1"), "INVALID_CONFIG"),
        ("g", (SESSION, SET, "x"), "INVALID_CONFIG"),
        ("g", ("nonsense", SET, "1"), "INVALID_CONFIG"),
        ("g", (SESSION, APPEND, "46000"), "INVALID_CONFIG"),
        ("g", ("share.auto.offset.reset", SET, "never"), "INVALID_CONFIG"),
        ("", (SESSION, SET, "46000"), "INVALID_REQUEST"),
    ],
)
def test_wrong_configs_of_groups(
    wire: WireClient, group: str, changed: tuple[str, int, str | None], error: str
) -> None:
    answer = change(wire, group, changed, kind=GROUP)
    assert answer.error_code == CODES[error]
    assert answer.error_message


def levels(wire: WireClient) -> dict[str, str | None]:
    found = describe(wire, LOGGER, "0")
    assert found.error_code == 0
    assert all((c.config_source, c.read_only) == (6, False) for c in found.configs)
    return {c.name: c.value for c in found.configs}


def test_a_level_is_told_and_changed(wire: WireClient) -> None:
    """To see why a partition does not open one had to restart the broker with another logging."""
    before = levels(wire)["root"]
    assert change(wire, "0", ("root", SET, "WARN"), kind=LOGGER).error_code == 0
    eventually(lambda: levels(wire)["root"] == "WARN")
    assert change(wire, "0", ("root", SET, before), kind=LOGGER).error_code == 0
    eventually(lambda: levels(wire)["root"] == before)


@pytest.mark.parametrize(
    ("name", "changed", "error"),
    [
        ("0", ("no.such.logger", SET, "DEBUG"), "INVALID_CONFIG"),
        ("0", ("root", SET, "LOUD"), "INVALID_CONFIG"),
        ("0", ("root", DELETE, None), "INVALID_REQUEST"),
        ("0", ("root", APPEND, "DEBUG"), "INVALID_REQUEST"),
        ("9", ("root", SET, "DEBUG"), "INVALID_REQUEST"),
    ],
)
def test_wrong_changes_of_levels(
    wire: WireClient, name: str, changed: tuple[str, int, str | None], error: str
) -> None:
    before = levels(wire)
    answer = change(wire, name, changed, kind=LOGGER)
    assert answer.error_code == CODES[error]
    assert levels(wire) == before


def test_the_older_form_has_no_loggers(wire: WireClient) -> None:
    asked = m.AlterConfigsRequestResource(resource_type=LOGGER, resource_name="0", configs=[])
    (answer,) = wire.ask(m.AlterConfigsRequest(resources=[asked]), 2).responses
    assert answer.error_code == CODES["INVALID_REQUEST"]


# --- ours


def test_one_logger_of_ours_goes_its_own_way(tmp_path: Path) -> None:
    logger = logging.getLogger(OURS_LOGGER)
    with BrokerThread(tmp_path) as broker, WireClient(broker.bootstrap_servers) as wire:
        try:
            assert not {name for name in levels(wire) if not name.startswith(("tallymark", "root"))}
            inherited = levels(wire)[OURS_LOGGER]
            mixed = [(OURS_LOGGER, SET, "DEBUG"), ("no.such.logger", SET, "DEBUG")]
            assert change(wire, "0", *mixed, kind=LOGGER).error_code == CODES["INVALID_CONFIG"]
            assert levels(wire)[OURS_LOGGER] == inherited, "all of the changes, or none"
            only = change(wire, "0", mixed[0], kind=LOGGER, validate_only=True)
            assert (only.error_code, levels(wire)[OURS_LOGGER]) == (0, inherited)
            for name in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"):
                assert change(wire, "0", (OURS_LOGGER, SET, name), kind=LOGGER).error_code == 0
                assert levels(wire)[OURS_LOGGER] == name
            assert change(wire, "0", (OURS_LOGGER, DELETE, None), kind=LOGGER).error_code == 0
            assert levels(wire)[OURS_LOGGER] == inherited
        finally:
            logger.setLevel(logging.NOTSET)


def test_configs_of_a_group_stay_over_a_restart(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        with WireClient(broker.bootstrap_servers) as wire:
            assert change(wire, "g", (SESSION, SET, "46000"), kind=GROUP).error_code == 0
        broker.stop()
        broker.start()
        with WireClient(broker.bootstrap_servers) as wire:
            assert of_group(wire, "g")[SESSION] == ("46000", 8, 3)
