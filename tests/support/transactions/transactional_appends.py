"""Batches of transactions and their markers, written to a partition of a running broker as its
handlers do it, without the requests of a producer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tallymark.broker.partitions.partition import Partition
from tallymark.protocol.records.batch import encode_batch
from tallymark.protocol.records.markers import Marker
from tallymark.testing.broker_thread import BrokerThread

T = TypeVar("T")


def transactional_batch(*values: bytes, producer: int = 7, epoch: int = 0, first: int = 0) -> bytes:
    return encode_batch(
        [(None, value, (), 1000) for value in values],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=first,
        transactional=True,
    )


def put(
    partition: Partition, *values: bytes, producer: int = 7, epoch: int = 0, first: int = 0
) -> None:
    """Append a batch of a transaction whose coordinator has been asked."""
    data = transactional_batch(*values, producer=producer, epoch=epoch, first=first)
    partition.append(bytearray(data), 1000, check=lambda _: None)


def end(partition: Partition, producer: int = 7, *, commit: bool, epoch: int = 0) -> None:
    """Append the marker of a coordinator."""
    partition.append_marker(producer, epoch, Marker(commit, 3), 1000, 0)


def on_the_loop(broker: BrokerThread, topic: str, do: Callable[[Partition], T]) -> T:
    """Do something with partition 0 of the topic in the broker's thread."""

    async def done() -> T:
        assert broker.broker is not None
        assert broker.broker.state is not None
        return do(broker.broker.state.partitions.find(topic, 0))

    return broker.call(done())
