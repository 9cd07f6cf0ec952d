"""The producer ids under which a mirror writes; each is announced before it is used.

The producer id in the header of a batch says where a copy comes from: see
:mod:`tallymark.mirror.target.loop_guard`. So a mirror has one id for each *origin* (the clusters
that the records were in before). No batch is sent before the target has the announcement of its id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from tallymark.client.core import supervised
from tallymark.client.core.cluster import Cluster
from tallymark.client.producing.batches.batch import NO_IDENTITY, Identity
from tallymark.client.producing.sending.producer_ids import ProducerIds
from tallymark.errors import KafkaError, TallymarkError
from tallymark.mirror.target.ready_batch import Origin

Announce = Callable[[int, Origin], Awaitable[None]]
"""``announce(producer id, origin)``: returns when the target has it."""
_log: Final = logging.getLogger("mirror")


class _Entry:
    def __init__(self) -> None:
        self.ids: ProducerIds
        self.newest: Identity = NO_IDENTITY
        self.announcing: asyncio.Task[None] | None = None


class ProducerIdPool:
    """For the sender's I/O thread. ``changed`` is called when there is a new id, or when the target
    refuses to give one for good; then ``error`` is set."""

    def __init__(
        self, cluster: Cluster, backoff: float, announce: Announce, changed: Callable[[], None]
    ) -> None:
        self.error: TallymarkError | None = None
        self._cluster = cluster
        self._backoff = backoff
        self._announce = announce
        self._changed = changed
        self._entries: dict[Origin, _Entry] = {}

    def newest(self, origin: Origin) -> Identity:
        """The newest id for records of this origin; NO_IDENTITY before there is one."""
        entry = self._entries.get(origin)
        return entry.newest if entry else NO_IDENTITY

    def want(self, origin: Origin) -> None:
        """Request a new id in the background, unless that is under way."""
        entry = self._entries.get(origin)
        if entry is None:
            entry = self._entries[origin] = _Entry()
            entry.ids = ProducerIds(self._cluster, self._backoff, partial(self._got, origin))
        if entry.announcing is None or entry.announcing.done():
            entry.ids.request()

    async def close(self) -> None:
        """Stop getting ids."""
        for entry in self._entries.values():
            await entry.ids.close()
            if entry.announcing is not None:
                entry.announcing.cancel()
                await asyncio.gather(entry.announcing, return_exceptions=True)

    def _got(self, origin: Origin) -> None:
        entry = self._entries[origin]
        if entry.ids.error is not None:
            self.error = entry.ids.error
            self._changed()
        elif entry.announcing is None or entry.announcing.done():
            entry.announcing = supervised.start(self._tell(origin, entry), "announcing an id")

    async def _tell(self, origin: Origin, entry: _Entry) -> None:
        identity = entry.ids.newest
        said = ""
        while True:
            try:
                await self._announce(identity[0], origin)
                break
            except TallymarkError as error:
                if isinstance(error, KafkaError) and not error.retriable:
                    self.error = error
                    self._changed()
                    return
                if str(error) != said:
                    said = str(error)
                    _log.warning("cannot announce a producer id yet: %s", error)
            await asyncio.sleep(self._backoff)
        entry.newest = identity
        self._changed()
