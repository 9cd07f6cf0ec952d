"""How one log behaves: the settings of Kafka's topics that concern the disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WEEK_MS: Final = 7 * 24 * 3_600_000
NEVER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Field ``segment_bytes`` is the topic config ``segment.bytes`` and so on. Times are ms,
    sizes bytes; -1 in a retention means no limit."""

    segment_bytes: int = 1024**3
    """A segment is rolled before it would grow beyond this."""
    segment_ms: int = WEEK_MS
    """A segment is rolled by the first append when its first batch is so old."""
    index_interval_bytes: int = 4096
    """Bytes of log between two entries of the sparse indexes."""
    flush_messages: int = NEVER
    """Flush after so many messages (the seeds' M) ..."""
    flush_ms: int = 3000
    """... or when a message has waited so long for it (the seeds' S)."""
    retention_ms: int = WEEK_MS
    """Delete a segment whose newest record is older."""
    retention_bytes: int = -1
    """Delete the oldest segments while the rest is at least this large."""
    max_message_bytes: int = 1_048_588
    """The largest batch that is accepted."""
    producer_id_expiration_ms: int = 86_400_000
    """Forget the sequences of an idempotent producer that is idle so long."""
