"""The partition of a record, chosen as librdkafka's partitioners choose, before librdkafka does.

A stamp names the partition, so it must be known before the record is sent.

::

    partitioner          with a key           without one
    consistent_random    CRC-32               sticky (the empty key too)       librdkafka's default
    consistent           CRC-32               as of the empty key
    murmur2_random       murmur2              sticky                           as Java's clients
    murmur2              murmur2              as of the empty key
    fnv1a_random         FNV-1a               sticky                           as Sarama
    fnv1a                FNV-1a               as of the empty key
    random               sticky               sticky

Sticky (KIP-480): the same partition for ten milliseconds, then another one at random, so that
batches are full and records evenly spread.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, Generic, NamedTuple, TypeVar
from zlib import crc32

from tallymark.errors import UserError
from tallymark.protocol.murmur2 import murmur2

STICKY_MS: Final = 10
_REMEMBERED: Final = 1 << 14
"""Keys whose hash is cached, where it is computed in Python."""
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193

PartitionT = TypeVar("PartitionT")


class Partitioner(NamedTuple):
    """``hash`` of a key, non-negative (None: keys do not matter). ``sticky_null`` and
    ``sticky_empty``: whether a record without a key, or with an empty one, counts as keyless."""

    hash: Callable[[bytes], int] | None
    sticky_null: bool
    sticky_empty: bool = False


@lru_cache(_REMEMBERED)
def _murmur2(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


@lru_cache(_REMEMBERED)
def fnv1a(key: bytes) -> int:
    """FNV-1a, 32 bits, as a signed number without its sign, as Sarama computes it."""
    value = _FNV_OFFSET
    for byte in key:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value if value < 1 << 31 else (1 << 32) - value


PARTITIONERS: Final = {
    "consistent_random": Partitioner(crc32, sticky_null=True, sticky_empty=True),
    "consistent": Partitioner(crc32, sticky_null=False),
    "murmur2_random": Partitioner(_murmur2, sticky_null=True),
    "murmur2": Partitioner(_murmur2, sticky_null=False),
    "fnv1a_random": Partitioner(fnv1a, sticky_null=True),
    "fnv1a": Partitioner(fnv1a, sticky_null=False),
    "random": Partitioner(None, sticky_null=True, sticky_empty=True),
}
"""By the names that librdkafka has for them."""


def partitioner_named(name: object) -> Partitioner:
    """The partitioner of this name. UserError: librdkafka has no such partitioner, so what it
    chooses is not known here."""
    if isinstance(name, str) and name in PARTITIONERS:
        return PARTITIONERS[name]
    raise UserError(
        f"audited(): the partitioner {name!r} is not one of librdkafka's",
        f"give one of {', '.join(PARTITIONERS)}, or name the partition of each record",
    )


class PartitionChooser(Generic[PartitionT]):
    """Chooses among the partitions of one topic, in the order of their numbers; at least one.

    ``sticky`` is where records without a key go before ``until`` (ms), if they are not to be placed
    like the empty key."""

    __slots__ = ("_hash", "_partitioner", "partitions", "sticky", "until")

    def __init__(self, partitions: Sequence[PartitionT], partitioner: Partitioner) -> None:
        self.partitions = partitions
        self._partitioner = partitioner
        self._hash = partitioner.hash
        self.sticky = random.choice(partitions)
        self.until = -1

    def choose(self, key: str | bytes | None, now_ms: int) -> PartitionT:
        """The partition of a record with this key now; a text is encoded as UTF-8."""
        how = self._hash
        if key and how is not None:
            data = key.encode() if isinstance(key, str) else key
            return self.partitions[how(data) % len(self.partitions)]
        sticky = self._partitioner.sticky_null if key is None else self._partitioner.sticky_empty
        if how is not None and not sticky:
            return self.partitions[how(b"") % len(self.partitions)]
        if now_ms >= self.until:
            self.sticky = random.choice(self.partitions)
            if self._partitioner.sticky_null:
                self.until = now_ms + STICKY_MS
        return self.sticky
