"""Which offset of the source is which offset of the target: pairs, stored in the target. Pure.

Copies have offsets of their own. For each source partition the mirror keeps the present *run*:
consecutive messages of the source that are consecutive in the target, too. Where only this mirror
writes, a run has no end; where others write in between, a run is one batch. Once a second the run
is published in the compacted topic ``_tallymark_mirror_offsets`` of the target::

    key    mirror | topic | partition | slot
    value  {"source_offset": 1200, "count": 300, "target_topic": "dc1.clicks",
            "target_partition": 0, "target_offset": 5100, "source_topic_id": "...", "time_ms": ...}

The slot is the number of trailing zeros of the second it is published in. Every other second
overwrites slot 0, every fourth one slot 1 and so on. So after compaction the pairs are dense for
the last minutes and sparse for the last weeks: about twenty pairs a partition. The mirror itself
has to remember none of them.

An old pair is still true or of no use, but never wrong: :func:`translate` returns an offset from
which no message is missed, and some may be read twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from tallymark.mirror.progress import Partition

TOPIC: Final = "_tallymark_mirror_offsets"
TOPIC_CONFIGS: Final = {"cleanup.policy": "compact"}
LAST_SLOT: Final = 21
"""The pair of a second that is divisible by 2**21 (24 days) is the last to go."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """Source offsets [``source_offset``, + ``count``) are target offsets [``target_offset``, +
    ``count``), one by one. ``source_topic_id``: 32 hex digits, of the topic they are offsets of."""

    source_offset: int
    count: int
    target_topic: str
    target_partition: int
    target_offset: int
    source_topic_id: str = ""
    time_ms: int = 0

    def joined(self, after: OffsetSync) -> OffsetSync | None:
        """This run with ``after`` at its end; None: they are not adjacent on both sides."""
        adjoins = (
            after.source_offset == self.source_offset + self.count
            and after.target_offset == self.target_offset + self.count
            and (after.target_topic, after.target_partition, after.source_topic_id)
            == (self.target_topic, self.target_partition, self.source_topic_id)
        )
        return replace(self, count=self.count + after.count) if adjoins else None


class PendingSyncs:
    """The runs of a mirror, and which of them are not published yet."""

    def __init__(self, mirror: str) -> None:
        self._mirror = mirror
        self._runs: dict[Partition, OffsetSync] = {}
        self._changed: set[Partition] = set()

    def copied(self, partition: Partition, sync: OffsetSync) -> None:
        """These offsets have arrived."""
        run = self._runs.get(partition)
        joined = run.joined(sync) if run is not None else None
        self._runs[partition] = joined or sync
        self._changed.add(partition)

    def take(self, now_ms: int) -> list[tuple[bytes, bytes]]:
        """Key and value of what changed since the last call."""
        slot = slot_of(now_ms // 1000)
        taken = [
            encode(self._mirror, at, slot, replace(self._runs[at], time_ms=now_ms))
            for at in sorted(self._changed)
        ]
        self._changed.clear()
        return taken


def slot_of(second: int) -> int:
    """Trailing zeros in binary."""
    return min(LAST_SLOT, (second & -second).bit_length() - 1) if second > 0 else LAST_SLOT


def translate(syncs: Iterable[OffsetSync], offset: int) -> tuple[str, int, int] | None:
    """(topic, partition, offset) at the target for a reader whose position in the source is
    ``offset``: all messages from there on have that offset in the target, or a later one. None: no
    pair is so old, so only the beginning of the target's topic is safe."""
    known = list(syncs)
    best = max(
        (sync for sync in known if sync.source_offset <= offset),
        key=lambda sync: (sync.source_offset, -sync.target_offset),
        default=None,
    )
    if best is None:
        return None
    found = best.target_offset + min(offset - best.source_offset, best.count)
    # Everything at or behind the position has to be read: after the target's log was truncated,
    # later messages may have lower offsets.
    later = [sync.target_offset for sync in known if sync.source_offset >= offset]
    return best.target_topic, best.target_partition, min([found, *later])


def encode(mirror: str, partition: Partition, slot: int, sync: OffsetSync) -> tuple[bytes, bytes]:
    """Key and value of a record."""
    topic, number = partition
    key = f"{mirror}|{topic}|{number}|{slot}".encode()
    return key, json.dumps(asdict(sync)).encode()


def decode(key: bytes | None, value: bytes | None) -> tuple[str, Partition, OffsetSync] | None:
    """(mirror, partition, pair); None for a record that is none."""
    try:
        mirror, topic, number, _ = (key or b"").decode().split("|")
        content: dict[str, Any] = json.loads(value or b"")
        return mirror, (topic, int(number)), OffsetSync(**content)
    except (ValueError, TypeError):
        return None
