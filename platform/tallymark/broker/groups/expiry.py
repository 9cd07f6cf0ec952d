"""Deletes expired offsets at intervals, a few groups at a time."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tallymark.broker.groups.shards import GroupShards
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.errors import KafkaError

log = logging.getLogger(__name__)

_GROUPS_A_TURN: Final = 50
_MINUTE_MS: Final = 60_000


class OffsetsExpiry:
    """The background task, between :meth:`start` and :meth:`stop`."""

    def __init__(self, store: GroupShards, settings: BrokerSettings) -> None:
        self._store = store
        self._interval = settings.offsets_retention_check_interval_ms / 1000
        self._retention_ms = settings.offsets_retention_minutes * _MINUTE_MS
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._forever())

    async def stop(self) -> None:
        """End. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _forever(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await expire_offsets(self._store, self._retention_ms)
            except Exception:
                # An error in one group must not keep the offsets of all others for ever.
                log.exception("looking for old offsets failed")


async def expire_offsets(store: GroupShards, retention_ms: int) -> None:
    """Check all groups once."""
    for shard in store.shards():
        gone = 0
        for looked_at, group_id in enumerate(shard.state.groups()):
            if looked_at % _GROUPS_A_TURN == 0:
                await asyncio.sleep(0)
            if shard.closed:
                break
            try:
                gone += shard.expire(group_id, retention_ms)
            except KafkaError as error:
                log.error("offsets of group %.249r are not expired: %s", group_id, error)
        if gone:
            log.info("offsets expired partition=%s records=%d", shard.partition, gone)
