"""A consumer that may not read its group or its topic is told so; it does not wait for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from broker_kinds import start_apache_kafka
from group_rig import Rig, take

from tallymark.client.admin.acls import AclEntry
from tallymark.client.admin.admin import Admin
from tallymark.errors import KafkaError
from tallymark.processes.apache_kafka import ApacheKafkaServer

pytestmark = [pytest.mark.apache_kafka, pytest.mark.process]

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkaServer]:
    server = start_apache_kafka(tmp_path_factory.mktemp("kafka"), AUTHORIZER)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def rig(broker: ApacheKafkaServer) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(broker.bootstrap_servers, stack)


def deny(rig: Rig, kind: str, name: str, operation: str) -> None:
    entry = AclEntry(kind, name, "User:ANONYMOUS", operation, "deny")
    with Admin(bootstrap_servers=rig.servers) as admin:
        admin.create_acls([entry]).check()


def test_a_group_that_is_not_allowed(rig: Rig) -> None:
    topic = rig.topic(messages=3)
    deny(rig, "group", rig.group, "read")
    with pytest.raises(KafkaError, match=f"{rig.group}.*GROUP_AUTHORIZATION_FAILED"):
        rig.stream(topic)


def test_a_group_that_is_not_allowed_any_more(rig: Rig) -> None:
    topic = rig.topic(messages=3)
    consumer, stream = rig.stream(topic)
    take(stream, 3)
    deny(rig, "group", rig.group, "read")
    with pytest.raises(KafkaError) as caught:
        take(stream, 1)
    assert caught.value.name == "GROUP_AUTHORIZATION_FAILED"
    with pytest.raises(KafkaError):
        consumer.commit_offsets()


@pytest.mark.parametrize("operation", ["all", "read"])
def test_a_topic_that_is_not_allowed(rig: Rig, operation: str) -> None:
    """Brokers do not show it: the group's leader divided nothing, and everybody waited."""
    topic = rig.topic(messages=3)
    deny(rig, "topic", topic, operation)
    with pytest.raises(KafkaError) as caught:
        take(rig.stream(topic)[1], 1)
    assert caught.value.name == "TOPIC_AUTHORIZATION_FAILED"
    assert topic in str(caught.value)
