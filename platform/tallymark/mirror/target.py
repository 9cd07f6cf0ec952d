"""The target's side of a mirror: a producer that sends messages on as they are."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tallymark.client.delivery import RecordMetadata
from tallymark.client.interceptors import BatchTally, ProducerContext
from tallymark.client.message import Message
from tallymark.client.producer import Producer
from tallymark.errors import CODES, KafkaError, TimedOutError, UserError

DELIVERY_TIMEOUT_MS: Final = 2**31 - 1
"""A target that is away for hours is waited for: giving up would only mean to copy again."""
MAX_BLOCK_MS: Final = 2000
"""How long one message waits for room while the target does not answer; then the mirror looks
after its source, and tries again."""
CLOSE_SECONDS: Final = 5.0

_log = logging.getLogger("mirror")


class Target:
    """Sends to one cluster. Neither stamps nor tallies: a copy is the message it was."""

    def __init__(self, bootstrap_servers: str, client_id: str) -> None:
        self._context: ProducerContext | None = None
        self._odd: set[str] = set()
        self._producer = Producer(
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            acks="all",
            stamp=False,
            interceptors=[_Attached(self._attached)],
            linger_ms=20,
            batch_size=256 * 1024,
            max_block_ms=MAX_BLOCK_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
        )

    @property
    def context(self) -> ProducerContext:
        """For publishing what is not copied: reports."""
        assert self._context is not None, "a producer attaches its interceptors at once"
        return self._context

    def send(self, message: Message, settled: Callable[[Exception | None], None]) -> None:
        """Send a copy; ``settled`` is called from another thread when the target has it, or has
        refused it. TimedOutError: there is no room for it now. UserError: the target's topic lacks
        the partition."""

        def done(error: Exception | None, metadata: RecordMetadata | None) -> None:
            settled(error)

        try:
            self._producer.send(
                message.topic,
                message.value,
                key=message.key,
                partition=message.partition,
                timestamp=message.timestamp if message.timestamp >= 0 else self._no_time(message),
                headers=message.headers,
                on_delivery=done,
            )
        except KafkaError as error:
            if error.code != CODES["UNKNOWN_TOPIC_OR_PARTITION"]:
                raise
            raise UserError(
                f"{message.topic}-{message.partition} cannot be copied: {error}",
                "give the target's topic as many partitions as the source's",
            ) from error

    def close(self) -> None:
        """Send what is under way, for a moment, and disconnect."""
        try:
            self._producer.close(timeout=CLOSE_SECONDS)
        except TimedOutError as error:
            # Not stored as copied: the next start copies them, perhaps again.
            _log.warning("the target did not answer: %s", error)

    def _attached(self, context: ProducerContext) -> None:
        self._context = context

    def _no_time(self, message: Message) -> int:
        """A message without a timestamp (-1) cannot be produced again as it is."""
        if message.topic not in self._odd:
            self._odd.add(message.topic)
            where = f"{message.topic}-{message.partition} offset {message.offset}"
            _log.warning("%s, for one, has no timestamp: copies of such messages say 0", where)
        return 0


class _Attached:
    """An interceptor that only takes the producer's context; nothing is tallied anyway."""

    def __init__(self, attached: Callable[[ProducerContext], None]) -> None:
        self._attached = attached

    def attach(self, context: ProducerContext) -> None:
        self._attached(context)

    def on_send(self, batch: BatchTally) -> None: ...

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None: ...

    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None: ...

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None: ...

    def on_close(self, now_ms: int) -> None: ...
