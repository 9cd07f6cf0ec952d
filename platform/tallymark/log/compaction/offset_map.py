"""The offset map of a compaction: of every key the offset of its last record. Bounded memory.

A key of up to 15 bytes is kept as it is. A longer one is replaced by 16 bytes of BLAKE2b, so that a
key of a megabyte costs as much as a key of 16 bytes. Two keys with the same digest would count as
one: with 128 bits that takes about 2^64 keys, and they cannot be made on purpose (Kafka uses MD5,
where they can).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

ENTRY_BYTES: Final = 200
"""What an entry costs at most, measured: the digest, the offset, its share of the table while the
table grows."""

_DIGEST: Final = 16


class OffsetMap:
    """Key -> offset of its last record; as many keys as fit into ``memory_bytes``."""

    __slots__ = ("_offsets", "capacity")

    def __init__(self, memory_bytes: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self.capacity = max(memory_bytes // ENTRY_BYTES, 1)

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Note a record; offsets ascend from call to call. False, without noting it, where the key
        is new and the map is full."""
        short = _short(key)
        if len(self._offsets) >= self.capacity and short not in self._offsets:
            return False
        self._offsets[short] = offset
        return True

    def spare(self) -> OffsetMap:
        """An empty map with the room that this one has left."""
        other = OffsetMap(0)
        other.capacity = self.capacity - len(self._offsets)
        return other

    def update(self, other: OffsetMap) -> None:
        """Add a :meth:`spare` map, whose records come after all of these."""
        self._offsets.update(other._offsets)

    def last(self, key: bytes) -> int:
        """The offset of the key's last record, -1 where it was not seen."""
        return self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    return key if len(key) < _DIGEST else blake2b(key, digest_size=_DIGEST).digest()
