"""When a segment is rolled and when a log is flushed. Pure."""

from __future__ import annotations

from tallymark.log.config import LogConfig
from tallymark.log.segments.offset_index import MAX_RELATIVE


def must_roll(
    config: LogConfig, size: int, age_ms: int, batch_size: int, last_relative: int
) -> bool:
    """Whether a batch goes to a new segment.

    ``size`` and ``age_ms`` are the active segment's, ``last_relative`` is the last offset of the
    batch minus the segment's base: the index stores it in 31 bits. An empty segment takes anything
    that fits the index.
    """
    if last_relative > MAX_RELATIVE:
        return True
    return size > 0 and (size + batch_size > config.segment_bytes or age_ms >= config.segment_ms)


def must_flush(config: LogConfig, messages: int, waited_ms: int) -> bool:
    """Whether to flush now: ``messages`` are not on the disk, the oldest for ``waited_ms``."""
    return messages > 0 and (messages >= config.flush_messages or waited_ms >= config.flush_ms)
