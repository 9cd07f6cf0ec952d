"""Brokers of one cluster in threads of the test, and what a client asks them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallymark.broker.state import BrokerState
from tallymark.errors import UserError
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient
from tallymark.testing.zookeeper import ZooKeeperServer


@contextlib.contextmanager
def zookeeper_or_skip(folder: Path) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper; the test is skipped where there is no Java."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(ZooKeeperServer(folder))
        except UserError as error:
            pytest.skip(str(error))
        yield server


def member(
    folder: Path, zookeeper: ZooKeeperServer, chroot: str, node_id: int, **settings: Any
) -> BrokerThread:
    """A broker of the cluster ``chroot``, not started."""
    fixed: dict[str, Any] = {
        "node_id": node_id,
        "enable_zookeeper": True,
        "zookeeper_connect": f"{zookeeper.connect}/{chroot}",
        "zookeeper_session_timeout_ms": 4000,
    }
    return BrokerThread(folder / f"broker-{node_id}", **(fixed | settings))


def state_of(broker: BrokerThread) -> BrokerState:
    """What the running broker knows."""
    assert broker.broker is not None
    assert broker.broker.state is not None
    return broker.broker.state


def metadata(
    address: str, *names: str, version: int = 12, create: bool = False
) -> MetadataResponse:
    """What the broker at ``address`` tells a client about these topics; none: only brokers."""
    with WireClient(address) as wire:
        topics = [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
        return wire.ask(request, version)


def topic(address: str, name: str) -> MetadataResponseTopic:
    """One topic as the broker at ``address`` has it."""
    return metadata(address, name).topics[0]


def leaders(address: str, name: str) -> list[int]:
    """The leader of each partition, -1 for none."""
    return [part.leader_id for part in topic(address, name).partitions]


def create(address: str, name: str, partitions: int = 1) -> int:
    """The error code of a creation."""
    new = CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)
    with WireClient(address, timeout=30) as wire:
        request = CreateTopicsRequest(topics=[new], timeout_ms=20_000)
        return wire.ask(request, 7).topics[0].error_code


def delete(address: str, name: str) -> int:
    """The error code of a deletion."""
    with WireClient(address, timeout=30) as wire:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=20_000)
        return wire.ask(request, 5).responses[0].error_code


def produce(
    address: str, name: str, index: int = 0, value: bytes = b"x"
) -> ProduceResponsePartition:
    """Write one message at the broker at ``address``."""
    part = ProduceRequestPartition(index=index, records=encode_batch([(None, value, (), 1)]))
    topics = [ProduceRequestTopic(name=name, partition_data=[part])]
    with WireClient(address) as wire:
        answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 10)
        return answer.responses[0].partition_responses[0]


def values(address: str, name: str, index: int = 0) -> list[bytes | None]:
    """All messages of a partition, read in one fetch at its leader."""
    part = FetchRequestPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequestTopic(topic=name, partitions=[part])]
    with WireClient(address) as wire:
        answer = wire.ask(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=topics), 11)
    found = answer.responses[0].partitions[0]
    assert found.error_code == 0
    batches = split_batches(bytes(found.records or b""))
    batches = split_batches(bytes(found.records or b""))
    return [record.value for batch in batches for record in batch.records()]
