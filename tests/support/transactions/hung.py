"""Transactions that really hang: open in a partition, and no coordinator knows them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from broker_kinds import AnyBroker
from eventually import eventually
from transactional_appends import transactional_batch

from tallymark.client import Admin
from tallymark.client.admin.configs import ConfigResource
from tallymark.protocol import messages as m
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

T = TypeVar("T")
_VERIFICATION: Final = "transaction.partition.verification.enable"


class Hung(NamedTuple):
    """A transaction in partition 0."""

    producer_id: int
    start_offset: int


def open_transaction(broker: AnyBroker, topic: str, name: str, *values: bytes) -> Hung:
    """Write to an open transaction of the id ``name``, in partition 0 of ``topic``, and go away."""
    with WireClient(broker.bootstrap_servers) as wire:
        eventually(lambda: wire.ask(m.FindCoordinatorRequest(name, 1), 3).error_code == 0)
        producer = _got(lambda: _begun(wire, m.InitProducerIdRequest(name, 600_000)))
        start = _got(lambda: _produced(wire, topic, name, producer, values, 12))
        return Hung(producer[0], start)


def hang(broker: AnyBroker, topic: str, *values: bytes) -> Hung:
    """A transaction that hangs in partition 0 of ``topic``, which exists. Ours: its coordinator
    loses all it knows. Apache Kafka: partitions ask no coordinator, as in clusters before 3.6."""
    if isinstance(broker, BrokerThread):
        hung = open_transaction(broker, topic, f"lost-{topic}", *values)
        lose_what_coordinators_know(broker)
        return hung
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        node = str(next(iter(admin.brokers())))
        off = {ConfigResource("broker", node): {_VERIFICATION: "false"}}
        admin.alter_configs(off).check()
        try:
            with WireClient(broker.bootstrap_servers) as wire:
                producer = _got(lambda: _begun(wire, m.InitProducerIdRequest(None, 0)))
                name = f"lost-{topic}"
                start = _got(lambda: _produced(wire, topic, name, producer, values, 9))
        finally:
            admin.alter_configs({each: {_VERIFICATION: None} for each in off}).check()
    return Hung(producer[0], start)


def lose_what_coordinators_know(broker: BrokerThread) -> None:
    """What is open in partitions is open for ever."""
    broker.stop()
    for folder in broker.settings.log_dirs[0].glob(f"{TRANSACTIONS_TOPIC}-*"):
        shutil.rmtree(folder)
    broker.start()


def _got(ask: Callable[[], T | None]) -> T:
    """What ``ask`` returns at last; None: not yet."""
    found: list[T] = []

    def asked() -> bool:
        found.extend(each for each in (ask(),) if each is not None)
        return bool(found)

    eventually(asked)
    return found[0]


def _begun(wire: WireClient, request: m.InitProducerIdRequest) -> tuple[int, int] | None:
    answer = wire.ask(request, 4)
    return None if answer.error_code else (answer.producer_id, answer.producer_epoch)


def _produced(
    wire: WireClient,
    topic: str,
    name: str,
    producer: tuple[int, int],
    values: tuple[bytes, ...],
    version: int,
) -> int | None:
    """The first offset; None where it was refused."""
    data: Any = transactional_batch(*values, producer=producer[0], epoch=producer[1])
    part = m.ProduceRequestPartition(index=0, records=data)
    request = m.ProduceRequest(
        transactional_id=name,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[m.ProduceRequestTopic(name=topic, partition_data=[part])],
    )
    (answer,) = wire.ask(request, version).responses[0].partition_responses
    return None if answer.error_code else answer.base_offset
