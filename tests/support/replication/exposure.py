"""Waits until readers see a record."""

from __future__ import annotations

import asyncio
from typing import Final

from tallymark.broker.partitions.partition import Partition
from tallymark.errors import KafkaError

_LONG_MS: Final = 1_000_000


def exposed(partition: Partition, offset: int) -> asyncio.Future[None] | None:
    """``Partition.when_exposed`` as a future, for a test that awaits or cancels it."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(error: KafkaError | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    ticket = partition.when_exposed(offset, answered, _LONG_MS)
    if ticket is None:
        return None
    future.add_done_callback(lambda done: partition.forget(ticket) if done.cancelled() else None)
    return future
