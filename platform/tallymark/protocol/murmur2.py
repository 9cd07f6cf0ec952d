"""Kafka's murmur2, and the partition of a key by it.

Kafka's Java client sends a record with a key to ``toPositive(murmur2(key)) % partitions``. All
clients that want the same key in the same partition compute the same.
"""

from __future__ import annotations

import struct
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2, 32 bits, unsigned, with the seed of Kafka's ``Utils.murmur2``."""
    length = len(data)
    words = length >> 2
    h = _SEED ^ length
    for k in struct.unpack_from(f"<{words}I", data):
        k = k * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    rest = data[words << 2 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of ``key`` among ``partitions``, as Kafka's default partitioner chooses."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
