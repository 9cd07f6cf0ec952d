"""The type for a partition of a topic, and the protocol's numbers for its two ends."""

from __future__ import annotations

from typing import Final, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""(topic, partition)"""
NAME_RULE: Final = "1 to 249 of a-z A-Z 0-9 . _ -"
"""What the name of a topic has."""
EARLIEST: Final = -2
"""Requests the first offset there is (ListOffsets' number for it)."""
LATEST: Final = -1
"""Requests the offset of the next record."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The topic in which brokers store the groups' offsets."""
TRANSACTIONS_TOPIC: Final = "__transaction_state"
"""The topic in which brokers store the transactional ids."""
STATE_TOPICS: Final = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC))
"""The brokers' own topics: only they create, write and delete them."""
