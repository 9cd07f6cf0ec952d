"""A producer's settings, checked."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Final, Literal

from tallymark.client.core.setting_types import check_kinds
from tallymark.client.metrics import Metrics
from tallymark.client.producing.stamps import MAX_SERVER_BYTES
from tallymark.errors import UserError
from tallymark.protocol.records.compression import CODECS, LEVELS

Acks = Literal["all", -1, 0, 1]
OnBufferFull = Literal["block", "fail", "drop"]
BUFFER_POLICIES: Final = ("block", "fail", "drop")
_MOST_IN_FLIGHT: Final = 5
"""A broker remembers the last five batches of a producer and partition (KIP-98)."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Sizes in bytes, times in milliseconds, as the keywords of Producer have them.

    ``acks`` is -1 (all), 1 or 0. Idempotence needs acks=all and is off without it.
    """

    client_id: str = "tallymark"
    acks: int = -1
    batch_size: int = 16384
    batch_num_messages: int = 1_000_000
    linger_ms: float = 5
    compression_type: str = "none"
    compression_level: int | None = None
    buffer_memory: int = 33554432
    on_buffer_full: str = "block"
    max_block_ms: float = 60000
    delivery_timeout_ms: float = 120000
    request_timeout_ms: float = 30000
    retry_backoff_ms: float = 100
    enable_idempotence: bool = True
    max_in_flight: int = 5
    server: str = ""
    audit: bool = True
    stamp: bool = True
    backfill: bool = False
    metrics: Metrics | None = None

    def __post_init__(self) -> None:
        check_kinds("Producer", self)
        if self.compression_type not in CODECS:
            raise _wrong("compression_type", self.compression_type, f"one of {', '.join(CODECS)}")
        self._check_level()
        if self.on_buffer_full not in BUFFER_POLICIES:
            choices = ", ".join(BUFFER_POLICIES)
            raise _wrong("on_buffer_full", self.on_buffer_full, f"one of {choices}")
        if self.batch_num_messages < 1:
            raise _wrong("batch_num_messages", self.batch_num_messages, "1 or more")
        for name in ("batch_size", "buffer_memory", "delivery_timeout_ms", "request_timeout_ms"):
            if getattr(self, name) <= 0:
                raise _wrong(name, getattr(self, name), "more than 0")
        for name in ("linger_ms", "max_block_ms", "retry_backoff_ms"):
            if getattr(self, name) < 0:
                raise _wrong(name, getattr(self, name), "0 or more")
        if self.max_in_flight < 1 or (self.idempotent and self.max_in_flight > _MOST_IN_FLIGHT):
            raise _wrong("max_in_flight", self.max_in_flight, "1 to 5 with idempotence")
        if len(self.server.encode()) > MAX_SERVER_BYTES:
            raise _wrong("server", self.server, f"at most {MAX_SERVER_BYTES} bytes of UTF-8")

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

    @property
    def idempotent(self) -> bool:
        """Whether batches carry a producer id and sequences."""
        return self.enable_idempotence and self.acks == -1


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
    return UserError(f"Producer: {name}={value!r} is not possible", f"it must be {allowed}")
