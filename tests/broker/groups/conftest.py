"""The broker that tests of groups talk to, one a file unless the file has its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from group_wire import connect, settings

from tallymark.protocol.messages import MetadataRequest, MetadataRequestTopic
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), **settings()) as running:
        yield running


@pytest.fixture
def wire(broker: BrokerThread) -> Iterator[WireClient]:
    """A connection of the test's own; the topic t exists."""
    with connect(broker) as client:
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
        yield client


@pytest.fixture
def group() -> str:
    """A name that no other test has."""
    return f"g-{uuid.uuid4().hex[:8]}"
