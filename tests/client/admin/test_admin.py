from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallymark.client.admin.admin import Admin
from tallymark.errors import ConnectError, KafkaError, TimedOutError
from tallymark.protocol.api import ApiKey
from tallymark.testing.scripted_broker import HangUp, Refuse, ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as running:
        yield running


def test_topics_are_made_listed_and_deleted(broker: ScriptedBroker) -> None:
    with Admin(bootstrap_servers=broker.address) as admin:
        assert admin.create_topic("new", 3, {"retention.ms": "1000"})
        assert admin.topics()["new"].partitions == (0, 1, 2)
        assert admin.leaders("new") == {0: (0, 0), 1: (0, 0), 2: (0, 0)}
        assert not admin.create_topic("new")
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topic("new", if_not_exists=False)
        assert admin.delete_topic("new")
        assert not admin.delete_topic("new")
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            admin.delete_topic("new", if_exists=False)
        assert list(admin.topics()) == ["t"]
        assert admin.cluster_id() == "scripted"
        assert admin.brokers() == {0: broker.address}


def test_passing_trouble_is_waited_out(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.CREATE_TOPICS, Refuse(41), HangUp())
    with Admin(bootstrap_servers=broker.address) as admin:
        assert admin.create_topic("new")


def test_refusals_and_deadlines_are_told(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.CREATE_TOPICS, Refuse(37), *[Refuse(41)] * 20)
    with (
        Admin(bootstrap_servers=broker.address) as admin,
        pytest.raises(KafkaError, match="topic new: INVALID_PARTITIONS"),
    ):
        admin.create_topic("new", 0)
    with (
        Admin(bootstrap_servers=broker.address, request_timeout_ms=300) as admin,
        pytest.raises(TimedOutError, match=r"not done within 0\.3 s: topic new.*NOT_CONTROLLER"),
    ):
        admin.create_topic("new")


def test_every_address_that_was_tried_is_named(broker: ScriptedBroker) -> None:
    broker.stop()
    addresses = [broker.address, "127.0.0.1:1"]
    with Admin(bootstrap_servers=addresses) as admin, pytest.raises(ConnectError) as caught:
        admin.topics()
    for address in addresses:
        assert f"{address}: connect failed" in str(caught.value)
    broker.start()
