"""Committed offsets: decided here, changed only by replaying records.

A commit runs in three steps, so that a restart needs no second code path::

    decide_commit(...)   -> records to append, one error code per partition
    (the caller appends the records to the group's partition of __consumer_offsets)
    state.replay(record) -> the state changes; a restart replays the whole partition

Groups here have no members yet (no JoinGroup): every commit comes from a consumer that assigned
its partitions itself, with generation -1 and without member id. Anything else is told so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tallymark.errors import CODES
from tallymark.groups.records import (
    CommittedOffset,
    OffsetKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

OffsetRecord = tuple[bytes, bytes | None]
"""Key and value; a None value forgets the offset."""


@dataclass(slots=True)
class OffsetsState:
    """The committed offsets of the groups that one partition owns. Only :meth:`replay` writes."""

    _groups: dict[str, dict[tuple[str, int], CommittedOffset]] = field(
        default_factory=dict[str, dict[tuple[str, int], CommittedOffset]]
    )

    def replay(self, record: OffsetRecord) -> None:
        """Apply one record, in log order. Raises CorruptRecordError and then changes nothing."""
        raw_key, value = record
        key = decode_key(raw_key)
        if key is None:
            return
        place = (key.topic, key.partition)
        if value is not None:
            self._groups.setdefault(key.group, {})[place] = decode_value(value)
        elif (offsets := self._groups.get(key.group)) is not None:
            offsets.pop(place, None)
            if not offsets:
                del self._groups[key.group]

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """What the group committed there, or None."""
        return self._groups.get(group, {}).get((topic, partition))

    def of_group(self, group: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Everything the group committed: topic, partition, offset; sorted."""
        for (topic, partition), committed in sorted(self._groups.get(group, {}).items()):
            yield topic, partition, committed

    def of_topic(self, topic: str) -> Iterator[OffsetKey]:
        """Every commit of any group on the topic."""
        for group, offsets in self._groups.items():
            for name, partition in offsets:
                if name == topic:
                    yield OffsetKey(group, name, partition)


@dataclass(frozen=True, slots=True)
class Commit:
    """One partition of a commit request. ``error`` is set where the caller refuses it already
    (an unknown partition)."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    error: int = 0


def decide_commit(
    group: str,
    member_id: str,
    generation: int,
    commits: Sequence[Commit],
    now_ms: int,
    max_metadata: int,
) -> tuple[list[OffsetRecord], list[int]]:
    """The records that a commit appends, and an error code for each of ``commits``."""
    refused = check_membership(member_id, generation)
    records: list[OffsetRecord] = []
    codes: list[int] = []
    for commit in commits:
        code = refused or commit.error
        if not code and len(commit.metadata.encode()) > max_metadata:
            code = CODES["OFFSET_METADATA_TOO_LARGE"]
        codes.append(code)
        if not code:
            key = OffsetKey(group, commit.topic, commit.partition)
            value = CommittedOffset(commit.offset, commit.leader_epoch, commit.metadata, now_ms)
            records.append((encode_key(key), encode_value(value)))
    return records, codes


def check_membership(member_id: str, generation: int) -> int:
    """The error code for a commit by a member: no group has members here. 0 for none."""
    if member_id:
        return CODES["UNKNOWN_MEMBER_ID"]
    return CODES["ILLEGAL_GENERATION"] if generation >= 0 else 0


def decide_forget_topic(state: OffsetsState, topic: str) -> list[OffsetRecord]:
    """Tombstones for every commit on a deleted topic: one created again under the name must not
    be resumed where the old one ended."""
    return [(encode_key(key), None) for key in state.of_topic(topic)]
