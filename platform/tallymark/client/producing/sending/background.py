"""What a sender may lack: a producer id, metadata, a connection. Got in the background."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from tallymark.client.core import supervised
from tallymark.client.core.cluster import Cluster
from tallymark.client.producing.sending.producer_ids import ProducerIds
from tallymark.errors import ConnectError, TallymarkError
from tallymark.net.addresses import Address

log: Final = logging.getLogger(__name__)


class BackgroundRefresh:
    """Each method begins to get something, unless that is under way; ``done`` is called when it is
    there or has failed. Lives in the I/O thread.

    ``problem`` is what went wrong last, for error texts.
    """

    def __init__(self, cluster: Cluster, backoff: float, done: Callable[..., None]) -> None:
        self.ids = ProducerIds(cluster, backoff, done)
        self.problem: TallymarkError | None = None
        self._cluster = cluster
        self._backoff = backoff
        self._done = done
        self._refresh: asyncio.Task[None] | None = None
        self._connecting: dict[Address, asyncio.Task[None]] = {}
        self._blocked: dict[Address, float] = {}

    def want_metadata(self) -> None:
        """The topics in use, asked for again."""
        task = self._cluster.refresh_soon()
        if task is not self._refresh:
            self._refresh = task
            task.add_done_callback(self._done)

    def want_connection(self, address: Address, now: float) -> float | None:
        """A connection. After a failure not at once: then the time (monotonic seconds) from which
        to ask again."""
        if address in self._connecting:
            return None
        blocked = self._blocked.get(address, 0.0)
        if now < blocked:
            return blocked
        self._connecting[address] = supervised.start(self._connect(address), "connecting")
        return None

    async def close(self) -> None:
        """Stop getting things."""
        await self.ids.close()
        tasks = list(self._connecting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connect(self, address: Address) -> None:
        try:
            await self._cluster.connections.get(address)
        except ConnectError as error:
            if str(error) != str(self.problem):  # once, not ten times a second
                log.warning("%s", error)
            self.problem = error
            self._blocked[address] = time.monotonic() + self._backoff
            self.want_metadata()  # its partitions may have moved
        finally:
            del self._connecting[address]
            asyncio.get_running_loop().call_soon(self._done)
