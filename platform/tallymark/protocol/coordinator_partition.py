"""Which partition of a state topic owns a coordinator's key.

Groups are in ``__consumer_offsets``, transactional ids in ``__transaction_state``; the leader of
the partition is the coordinator of the group or transaction.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
"""Kinds of keys, as FindCoordinator has them."""


def coordinator_partition(key: str, partitions: int) -> int:
    """Kafka's choice: ``(hashCode(key) & 0x7fffffff) % partitions``.

    It must equal Java's to the bit: other tools compute it by themselves.
    """
    return (java_hash(key) & 0x7FFFFFFF) % partitions


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: over UTF-16 units, in signed 32-bit arithmetic."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
