"""The target's side of a mirror: sends copies, and writes the mirror's own records.

Copies go through :mod:`.batch_sender`; reports, announcements and pairs of offsets go through a
plain producer beside it. Neither stamps nor tallies: a copy is the same message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final

from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.cluster import Cluster
from tallymark.client.core.io_thread import IoThread
from tallymark.client.core.security.deployment import connection_settings, security_settings
from tallymark.client.core.security.security import client_security
from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.client.producing.producer import Producer
from tallymark.deployment import Cluster as ClusterSettings
from tallymark.errors import CODES, KafkaError, TimedOutError
from tallymark.mirror.target import loop_guard as origins
from tallymark.mirror.target.batch_sender import BatchSender
from tallymark.mirror.target.ready_batch import Origin, ReadyBatch

DELIVERY_TIMEOUT_MS: Final = 2**31 - 1
"""Wait also for a target that is away for hours: giving up would only mean to copy again."""
MAX_BLOCK_MS: Final = 2000
"""How long one batch waits for room while the target does not answer. Then the mirror polls its
source again, and retries."""
REQUEST_SECONDS: Final = 15.0
CLOSE_SECONDS: Final = 5.0

_log = logging.getLogger("mirror")


class Target:
    """Sends to one cluster."""

    def __init__(self, cluster: ClusterSettings, client_id: str) -> None:
        self._context: ProducerContext | None = None
        self._name = client_id.removeprefix("mirror-")
        self._made: set[str] = set()
        self._producer = Producer(
            client_id=client_id,
            acks="all",
            audit=False,
            interceptors=[_Attached(self._attached)],
            linger_ms=20,
            max_block_ms=MAX_BLOCK_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            **connection_settings(cluster),
        )
        security = client_security(security_settings(cluster.security), Producer)
        bootstrap = Bootstrap.of(cluster.bootstrap_servers, security=security)
        self._cluster = Cluster(bootstrap, client_id, request_timeout=REQUEST_SECONDS)
        self._io = IoThread(f"{client_id}-sender")
        self._sender = BatchSender(self._io, self._cluster, self._announce)

    @property
    def context(self) -> ProducerContext:
        """For publishing what is not copied: reports."""
        assert self._context is not None, "a producer attaches its interceptors at once"
        return self._context

    def wait_for_room(self) -> None:
        """Return when there is room for another batch. TimedOutError: there is none now."""
        self._sender.wait_for_room(MAX_BLOCK_MS / 1000)

    def not_taken(self) -> TimedOutError:
        """The error to raise when the target has not acknowledged anything for long."""
        return self._sender.not_taken()

    def send(self, batch: ReadyBatch) -> None:
        """Send a batch; ``batch.on_settled`` is called from another thread when the target has it,
        or has refused it."""
        self._sender.send(batch)

    def reopen(self) -> None:
        """Send again to the partitions that have refused a batch."""
        self._sender.reopen()

    async def publish(
        self, topic: str, configs: Mapping[str, str], key: bytes, value: bytes | None
    ) -> None:
        """Write a record of the mirror's own to a topic of one partition, which is created if it
        does not exist. Raises what the producer raises."""
        if topic not in self._made:
            await _is_made(self.context.create_topic(topic, 1, configs))
            self._made.add(topic)
        await asyncio.wrap_future(self.context.publish(topic, key, value, None))

    def publish_soon(
        self, topic: str, configs: Mapping[str, str], key: bytes, value: bytes | None
    ) -> Future[None]:
        """:meth:`publish` in the background."""
        return self._io.submit(self.publish(topic, configs, key, value))

    def close(self) -> None:
        """Wait a moment for what is under way, and disconnect."""
        if self._io.stopped:
            return
        try:
            self._io.finish(self._close(), CLOSE_SECONDS, "leaving the target")
        except TimedOutError as error:
            _log.warning("%s", error)
        finally:
            self._io.stop()
        try:
            self._producer.close(timeout=CLOSE_SECONDS)
        except TimedOutError as error:
            _log.warning("the target did not answer: %s", error)

    async def _close(self) -> None:
        await self._sender.close()
        await self._cluster.close()

    async def _announce(self, producer_id: int, origin: Origin) -> None:
        key, value = origins.announcement(producer_id, self._name, origin)
        await self.publish(origins.TOPIC, origins.TOPIC_CONFIGS, key, value)

    def _attached(self, context: ProducerContext) -> None:
        self._context = context


async def _is_made(making: Future[bool]) -> None:
    try:
        await asyncio.wrap_future(making)
    except KafkaError as error:
        if error.code != CODES["TOPIC_ALREADY_EXISTS"]:
            raise


class _Attached:
    """An interceptor that only takes the producer's context; nothing is tallied."""

    def __init__(self, attached: Callable[[ProducerContext], None]) -> None:
        self._attached = attached

    def attach(self, context: ProducerContext) -> None:
        self._attached(context)

    def on_send(self, batch: BatchTally) -> None: ...

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None: ...

    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None: ...

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None: ...

    def on_close(self, now_ms: int) -> None: ...
