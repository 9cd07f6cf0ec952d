"""A producer's settings: their names and kinds for type checkers, their defaults and checks."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tallymark.client.core.security.security import SecuritySettings
from tallymark.client.core.setting_types import (
    POSITIVE,
    Rule,
    at_least,
    check_callable,
    check_kinds,
    check_rules,
    impossible,
    one_of,
)
from tallymark.client.metrics import Metrics
from tallymark.client.producing.batches.partition_queue import Partitioner
from tallymark.client.producing.encoders import Encoder
from tallymark.client.producing.interceptors.producer_interceptor import ProducerInterceptor
from tallymark.client.producing.interceptors.queue_interceptor import (
    EventHandler,
    QueueInterceptor,
)
from tallymark.client.producing.stamps import MAX_SERVER_BYTES
from tallymark.errors import UserError
from tallymark.protocol.records.compression import CODECS, LEVELS

Acks = Literal["all", -1, 0, 1]
OnBufferFull = Literal["block", "fail", "drop"]
BUFFER_POLICIES: Final = ("block", "fail", "drop")
_MOST_IN_FLIGHT: Final = 5
"""A broker remembers the last five batches of a producer and partition (KIP-98)."""


class ProducerOptions(SecuritySettings, total=False):
    """The keyword arguments of :class:`~tallymark.client.producing.producer.Producer`, which
    explains them. :class:`ProducerSettings` has their defaults."""

    bootstrap_servers: str | Sequence[str] | None
    zookeeper_connect: str | None
    client_id: str
    acks: Acks
    batch_size: int
    batch_num_messages: int
    linger_ms: float
    compression_type: str
    compression_level: int | None
    buffer_memory: int
    on_buffer_full: OnBufferFull
    max_block_ms: float
    delivery_timeout_ms: float
    request_timeout_ms: float
    retry_backoff_ms: float
    enable_idempotence: bool
    max_in_flight: int
    transactional_id: str | None
    transaction_timeout_ms: int
    partitioner: Partitioner | None
    key_encoder: Encoder | None
    value_encoder: Encoder | None
    server: str | None
    audit: bool
    stamp: bool | None
    backfill: bool
    metrics: Metrics | None
    interceptors: Sequence[ProducerInterceptor | QueueInterceptor] | None
    event_handler: EventHandler | None


_RULES: Final[dict[str, Rule]] = {
    "compression_type": one_of(CODECS),
    "on_buffer_full": one_of(BUFFER_POLICIES),
    "batch_num_messages": at_least(1),
    "batch_size": POSITIVE,
    "buffer_memory": POSITIVE,
    "delivery_timeout_ms": POSITIVE,
    "request_timeout_ms": POSITIVE,
    "transactional_id": Rule(
        lambda name: 0 < len(name.encode()) <= 32_767, "it must be 1 to 32767 bytes of UTF-8"
    ),
    "transaction_timeout_ms": Rule(
        lambda ms: 1 <= ms < 2**31, "it must be 1 to 2147483647 milliseconds"
    ),
    "linger_ms": at_least(0),
    "max_block_ms": at_least(0),
    "retry_backoff_ms": at_least(0),
    "server": Rule(
        lambda name: len(name.encode()) <= MAX_SERVER_BYTES,
        f"it must be at most {MAX_SERVER_BYTES} bytes of UTF-8",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """The values of :class:`ProducerOptions`, checked: sizes in bytes, times in milliseconds.
    Raises UserError for what cannot be. What is derived from them has a property."""

    bootstrap_servers: str | Sequence[str] | None = None
    zookeeper_connect: str | None = None
    client_id: str = "tallymark"
    acks: Acks = "all"
    batch_size: int = 16384
    batch_num_messages: int = 1_000_000
    linger_ms: float = 5
    compression_type: str = "none"
    compression_level: int | None = None
    buffer_memory: int = 33554432
    on_buffer_full: OnBufferFull = "block"
    max_block_ms: float = 60000
    delivery_timeout_ms: float = 120000
    request_timeout_ms: float = 30000
    retry_backoff_ms: float = 100
    enable_idempotence: bool = True
    max_in_flight: int = 5
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60000
    partitioner: Partitioner | None = None
    key_encoder: Encoder | None = None
    value_encoder: Encoder | None = None
    server: str | None = None
    audit: bool = True
    stamp: bool | None = None
    backfill: bool = False
    metrics: Metrics | None = None
    interceptors: Sequence[ProducerInterceptor | QueueInterceptor] | None = None
    event_handler: EventHandler | None = None

    def __post_init__(self) -> None:
        most = _MOST_IN_FLIGHT if self.idempotent else self.max_in_flight
        check_kinds("Producer", self)
        check_rules("Producer", self, _RULES)
        self._check_level()
        if not 1 <= self.max_in_flight <= most:
            raise _wrong("max_in_flight", self.max_in_flight, "1 to 5 with idempotence")
        if self.transactional_id is not None and not self.idempotent:
            raise _wrong(
                "transactional_id",
                self.transactional_id,
                'left out without acks="all" and idempotence',
            )
        check_callable(
            "Producer",
            partitioner=self.partitioner,
            key_encoder=self.key_encoder,
            value_encoder=self.value_encoder,
            event_handler=self.event_handler,
        )

    @property
    def required_acks(self) -> int:
        """``acks`` as a Produce request has it: -1 (all), 1 or 0."""
        return acks_number(self.acks)

    @property
    def idempotent(self) -> bool:
        """Whether batches carry a producer id and sequences. That needs acks=all, and is off
        without it."""
        return self.enable_idempotence and self.required_acks == -1

    @property
    def stamped(self) -> bool:
        """Whether records are stamped: with the audit, unless ``stamp`` overrides it."""
        return self.audit if self.stamp is None else self.stamp

    @property
    def name_in_stamps(self) -> str:
        """:func:`server_name` of ``server``."""
        return server_name(self.server)

    def _check_level(self) -> None:
        level = self.compression_level
        if level is None:
            return
        if self.compression_type not in LEVELS:
            codecs = " or ".join(LEVELS)
            raise _wrong("compression_level", level, f"left out unless it is {codecs}")
        lowest, highest = LEVELS[self.compression_type]
        if not lowest <= level <= highest:
            raise _wrong("compression_level", level, f"{lowest} to {highest}")


def acks_number(acks: Acks) -> int:
    """-1, 0 or 1 for what a user may write; UserError for anything else."""
    numbers = {"all": -1, "-1": -1, "0": 0, "1": 1}
    number = None if isinstance(acks, bool) else numbers.get(str(acks))
    if number is None:
        raise _wrong("acks", acks, '"all", 1 or 0')
    return number


def server_name(server: str | None) -> str:
    """The name in the stamps; by default this host's, cut to what a stamp holds."""
    if server is not None:
        return server
    return socket.gethostname().encode()[:MAX_SERVER_BYTES].decode(errors="ignore")


def _wrong(name: str, value: object, allowed: str) -> UserError:
    return impossible("Producer", name, value, f"it must be {allowed}")
