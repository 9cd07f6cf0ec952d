"""Producer ids for idempotent producing (KIP-98)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tallymark.client.core import supervised
from tallymark.client.core.cluster import Cluster
from tallymark.client.producing.batches.batch import NO_IDENTITY, Identity
from tallymark.errors import KafkaError, TallymarkError
from tallymark.protocol.messages import InitProducerIdRequest

log: Final = logging.getLogger(__name__)
_TRANSACTION_TIMEOUT_MS: Final = 60_000


class ProducerIds:
    """Gets ids from the cluster; ``newest`` is the latest one. Lives in the I/O thread.

    ``error`` is what the cluster said when it gave none for good; cleared by the next request.
    ``changed`` is called when either changes.
    """

    def __init__(self, cluster: Cluster, backoff: float, changed: Callable[[], None]) -> None:
        self.newest: Identity = NO_IDENTITY
        self.error: KafkaError | None = None
        self._cluster = cluster
        self._backoff = backoff
        self._changed = changed
        self._task: asyncio.Task[None] | None = None

    def request(self) -> None:
        """Get a new id in the background, unless that is under way."""
        if self._task is None or self._task.done():
            self.error = None
            self._task = supervised.start(self._get(), "getting a producer id")

    async def close(self) -> None:
        """Stop asking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _get(self) -> None:
        request = InitProducerIdRequest(transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS)
        said = ""
        while True:
            try:
                response = await self._cluster.ask_any(request)
                if response.error_code:
                    raise KafkaError(response.error_code, "no producer id")
                self.newest = (response.producer_id, response.producer_epoch)
                break
            except TallymarkError as error:
                if isinstance(error, KafkaError) and not error.retriable:
                    self.error = error
                    break
                if str(error) != said:
                    log.warning("no producer id yet: %s", error)
                    said = str(error)
            await asyncio.sleep(self._backoff)
        self._changed()
