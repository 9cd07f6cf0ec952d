"""The settings of a topic that its logs need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

WEEK_MS: Final = 7 * 24 * 3_600_000
NEVER: Final = 2**63 - 1

RecordValidation: TypeAlias = Literal["header", "lengths", "full"]
"""How much of a batch's records is checked: see :mod:`tallymark.log.validation.records`."""


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
    record_validation: RecordValidation = "lengths"
    """How much of the records of a batch is checked."""
    bound_unpacked: bool = False
    """Whether ``max_message_bytes`` also bounds what a batch holds when decompressed, where it is
    opened; else that is 16 times as much, and 16 MiB at least."""
    producer_id_expiration_ms: int = 86_400_000
    """Forget the sequences of an idempotent producer that is idle so long."""
    delete: bool = True
    """Old records may be deleted (``cleanup.policy`` has ``delete``); without it none may."""
    compact: bool = False
    """Keep the last record of each key (``cleanup.policy`` has ``compact``). Without ``delete`` the
    log has no limit in ``retention_ms`` and ``retention_bytes``."""
    flush_before_expose: bool = False
    """Readers see what is on the disk, not what was appended (the paper's rule)."""
    log_append_time: bool = False
    """Records get the broker's time (``message.timestamp.type`` is ``LogAppendTime``)."""
    timestamp_before_max_ms: int = NEVER
    """How far behind the broker's clock a producer's timestamp may be ..."""
    timestamp_after_max_ms: int = NEVER
    """... and how far ahead of it."""
    codec: str | None = None
    """Batches are compressed again with this codec (``compression.type``); None: they stay as the
    producer compressed them."""
    codec_level: int | None = None
    """The level of that codec; None: its default."""
    min_cleanable_dirty_ratio: float = 0.5
    """A log is compacted when this share of it, 0 to 1, was written since the last time."""
    min_compaction_lag_ms: int = 0
    """A segment with a record younger than this is not compacted."""
    max_compaction_lag_ms: int = NEVER
    """A log whose oldest record is waiting longer is compacted whatever its dirty ratio."""
    delete_retention_ms: int = 86_400_000
    """How long a tombstone stays after its first compaction, so that consumers can read it."""
    quick: bool = field(init=False, repr=False, compare=False)
    """Whether only the header of a batch and the lengths of its records are checked: the other
    settings need no more. Computed here, since every append uses it."""

    def __post_init__(self) -> None:
        limited = (self.timestamp_before_max_ms, self.timestamp_after_max_ms) != (NEVER, NEVER)
        opened = self.compact or self.codec is not None or self.record_validation != "lengths"
        object.__setattr__(self, "quick", not (opened or limited))
