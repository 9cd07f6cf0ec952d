"""What a topic may be called and how it may be configured. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Final

from tallymark.broker.settings import LONG_MAX, BrokerSettings
from tallymark.errors import CODES, KafkaError
from tallymark.log.config import LogConfig

MAX_PARTITIONS: Final = 10_000
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION unless the name is 1 to 249 of ``a-z A-Z 0-9 . _ -`` and not
    ``.`` or ``..`` (it becomes a folder and a ZooKeeper node)."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise KafkaError(CODES["INVALID_TOPIC_EXCEPTION"], repr(name[:80]))


def check_partitions(count: int) -> None:
    """Raise INVALID_PARTITIONS unless 1 to 10,000."""
    if not 1 <= count <= MAX_PARTITIONS:
        raise KafkaError(
            CODES["INVALID_PARTITIONS"], f"{count} partitions, 1 to {MAX_PARTITIONS} are possible"
        )


def log_config(settings: BrokerSettings, overrides: Mapping[str, str]) -> LogConfig:
    """How the logs of a topic behave: its own settings where given, else the broker's.

    A compacted topic keeps everything: there is no compaction, and deleting by age would lose the
    last value of a key. Raises INVALID_CONFIG naming the wrong setting.
    """
    given = {name: _value(name, text) for name, text in overrides.items()}

    def number(name: str, default: int) -> int:
        value = given.get(name, default)
        assert isinstance(value, int)
        return value

    compacted = "compact" in str(given.get("cleanup.policy", "delete"))
    return LogConfig(
        segment_bytes=number("segment.bytes", settings.log_segment_bytes),
        segment_ms=number("segment.ms", settings.log_roll_ms),
        index_interval_bytes=number("index.interval.bytes", settings.log_index_interval_bytes),
        flush_messages=number("flush.messages", settings.log_flush_interval_messages),
        flush_ms=number("flush.ms", settings.log_flush_interval_ms),
        retention_ms=-1 if compacted else number("retention.ms", settings.log_retention_ms),
        retention_bytes=-1
        if compacted
        else number("retention.bytes", settings.log_retention_bytes),
        max_message_bytes=number("max.message.bytes", settings.message_max_bytes),
        producer_id_expiration_ms=settings.producer_id_expiration_ms,
    )


def understood(overrides: Mapping[str, str]) -> dict[str, str]:
    """The settings of a topic that this broker knows. What is stored may have been written by
    another kind of broker: a strange setting must not take the partition down."""
    known: dict[str, str] = {}
    for name, text in overrides.items():
        try:
            _value(name, text)
        except KafkaError:
            continue
        known[name] = text
    return known


def _value(name: str, text: str) -> int | str:
    rule = RULES.get(name)
    if rule is None:
        near = difflib.get_close_matches(name, RULES, n=1, cutoff=0.5)
        hint = f", did you mean {near[0]}?" if near else ""
        raise KafkaError(CODES["INVALID_CONFIG"], f"unknown topic config {name!r}{hint}")
    try:
        return rule(text)
    except ValueError as error:
        raise KafkaError(CODES["INVALID_CONFIG"], f"{name}={text!r}: {error}") from None


def _between(low: int, high: int) -> Callable[[str], int]:
    def rule(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return rule


def _one_of(*allowed: str) -> Callable[[str], str]:
    def rule(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"only {' or '.join(allowed)} is served")
        return text

    return rule


RULES: Final[Mapping[str, Callable[[str], int | str]]] = {
    "cleanup.policy": _one_of("delete", "compact", "compact,delete", "delete,compact"),
    "compression.type": _one_of("producer"),
    "flush.messages": _between(1, LONG_MAX),
    "flush.ms": _between(1, LONG_MAX),
    "index.interval.bytes": _between(1, LONG_MAX),
    "max.message.bytes": _between(0, 2**31 - 1),
    "message.timestamp.type": _one_of("CreateTime"),
    "min.insync.replicas": _one_of("1"),
    "retention.bytes": _between(-1, LONG_MAX),
    "retention.ms": _between(-1, LONG_MAX),
    "segment.bytes": _between(1024, 2**31 - 1),
    "segment.ms": _between(1, LONG_MAX),
}
"""Every topic config that is understood, and what it may be."""
