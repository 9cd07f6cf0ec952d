"""How a partition of a topic is called, and the words of the protocol for its two ends."""

from __future__ import annotations

from typing import Final, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""(topic, partition)"""
EARLIEST: Final = -2
"""Asks for the first offset there is (ListOffsets' number for it)."""
LATEST: Final = -1
"""Asks for the offset that the next record gets."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The topic that brokers keep the groups' offsets in."""
