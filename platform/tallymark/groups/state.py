"""The offsets and groups in one partition of ``__consumer_offsets``. Changed only by replay."""

from __future__ import annotations

from dataclasses import dataclass, field

from tallymark.groups.offsets import OffsetsState
from tallymark.groups.pending import AT_ONCE, Written
from tallymark.groups.records import (
    GroupMetadata,
    GroupRecord,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
)


@dataclass(slots=True)
class GroupsState:
    """The stored state of the groups that one partition owns."""

    offsets: OffsetsState = field(default_factory=OffsetsState)
    metadata: dict[str, GroupMetadata] = field(default_factory=dict[str, GroupMetadata])

    def replay(self, record: GroupRecord, written: Written = AT_ONCE) -> None:
        """Apply one record, in log order. Raises CorruptRecordError and then changes nothing."""
        raw_key, value = record
        key = decode_key(raw_key)
        if isinstance(key, OffsetKey):
            self.offsets.replay(key, None if value is None else decode_offset(value), written)
        elif key is not None and value is None:
            self.metadata.pop(key.group, None)
        elif key is not None and value is not None:
            self.metadata[key.group] = decode_group(value)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply the marker of a transaction, in log order."""
        self.offsets.end(producer_id, commit=commit)

    def knows(self, group: str) -> bool:
        """Whether the group exists."""
        offsets = self.offsets
        return group in self.metadata or offsets.has(group) or offsets.pending.has(group)

    def groups(self) -> set[str]:
        """All groups that exist."""
        return {*self.metadata, *self.offsets.groups(), *self.offsets.pending.groups()}
