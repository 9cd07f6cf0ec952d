"""The names of a broker's settings: from field to Kafka's name, older names, secret ones. Pure."""

from __future__ import annotations

from typing import Final

OTHER_NAMES: Final = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Older names of Kafka that mean the same setting."""

SECRET_WORDS: Final = ("password", "secret", "jaas")
"""A setting with one of these in its name is never shown."""


def kafka_name(field: str) -> str:
    """``log_segment_bytes`` -> ``log.segment.bytes``."""
    return field.replace("_", ".")


def is_secret(field: str) -> bool:
    """Whether the value of a setting is secret."""
    return any(word in field for word in SECRET_WORDS)
