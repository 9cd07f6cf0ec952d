"""The limits of a server for one peer, and for all peers together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tallymark.net.limits.accept_queue import WAITING

PRODUCE: Final = 0
SYNC_GROUP: Final = 14


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits. Sizes in bytes, times in seconds."""

    max_frame_bytes: int = 100 * 1024 * 1024
    """Largest request (Kafka's socket.request.max.bytes) ..."""
    max_small_bytes: int = 2 * 1024 * 1024
    """... of the APIs ``large_keys``; and, this one, of all others: a request that is decoded into
    many small objects takes some dozen times its size."""
    large_keys: frozenset[int] = frozenset((PRODUCE, SYNC_GROUP))
    max_arriving_bytes: int | None = None
    """Memory of all requests that are not whole yet (Kafka's queued.max.request.bytes); one request
    may exceed it."""
    max_connections: int = 10_000
    backlog: int = WAITING
    """Connections that wait to be accepted."""
    max_unanswered: int = 128
    """Requests of one connection that are handled at the same time."""
    max_unanswered_bytes: int = 32 * 1024 * 1024
    """Their bytes; one request alone may be larger."""
    write_buffer_bytes: int = 1024 * 1024
    """Reading stops while more than this waits to be sent."""
    handshake_timeout: float = 10.0
    """A TLS handshake that takes longer is aborted."""
    login_timeout: float | None = None
    """A connection that has not logged in after so long is closed; None: no log-in is required."""
    idle_timeout: float = 600.0
    """A connection that was idle for so long is closed (connections.max.idle.ms)."""
    request_timeout: float = 120.0
    """A connection whose request is not whole so long after its first byte is closed."""
