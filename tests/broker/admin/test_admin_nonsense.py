"""Well-formed requests of the admin APIs, whatever is in them, are answered."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from admin_wire import config, create
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallymark.broker.handlers import served
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.schema import Array, Bool, Fixed, String, Struct, Uuid, wire_fields
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

APIS = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)
TEXTS = st.sampled_from(
    [
        *("t", "u", "0", "", ".", "..", "a/b", "\0", "é𝄞", "x" * 249, "x" * 30_000),
        *("__consumer_offsets", "retention.ms", "cleanup.policy", "compact", "delete", "-1", "5"),
    ]
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture(scope="module")
def wire(broker: BrokerThread) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as client:
        for topic in ("t", "u", "kept"):
            create(client, topic, configs={"segment.ms": "77"})
        yield client


def structs(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Any ``cls`` that a request of this version can carry."""
    fields = {
        field.name: (st.none() | value if field.nullable(version) else value)
        for field in wire_fields(cls)
        if field.present(version)
        for value in (_values(field.kind, version),)
    }
    return st.builds(cls, **fields)


def _values(kind: Any, version: int) -> st.SearchStrategy[Any]:
    if kind is Bool:
        return st.booleans()
    if kind is String:
        return TEXTS
    if kind is Uuid:
        return st.sampled_from([uuid.UUID(int=0), uuid.UUID(int=7)])
    if isinstance(kind, Fixed):
        top = 1 << {"b": 7, "h": 15, "i": 31, "q": 63}[kind.code]
        return st.sampled_from([0, 1, 2, 3, 4, 8, -1, top - 1, -top])
    if isinstance(kind, Array):
        return st.lists(_values(kind.element, version), max_size=4)
    return structs(kind, version)


@pytest.mark.parametrize("key", APIS, ids=lambda key: key.name.lower())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_well_formed_request_is_answered(
    wire: WireClient, broker: BrokerThread, key: ApiKey, data: st.DataObject
) -> None:
    version = data.draw(st.integers(*ADVERTISED[key]))
    request = data.draw(structs(served()[key].request_class, version))
    wire.ask(request, version)
    assert config(wire, "kept", "segment.ms").value == "77", "nobody named this one"
    assert broker.broker is not None
    assert broker.broker.state is not None
    assert broker.broker.state.metrics.failed_requests == 0
