"""The records of groups as kio reads them: its reader, over declarations made from Kafka's schema.

kio has no declarations for what coordinators write. It looks at the types of fields, so annotations
must be types here, not text.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from group_records import GROUPS, TEXT, TIME
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64

from tallymark.groups.records import CommittedOffset, GroupMetadata, encode_value


@dataclass(frozen=True, slots=True, kw_only=True)
class KioOffset:
    """OffsetCommitValue version 3, declared for kio."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = False
    offset: i64 = field(metadata={"kafka_type": "int64"})
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    metadata: str = field(metadata={"kafka_type": "string"})
    commit_timestamp: i64 = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KioMember:
    """MemberMetadata of GroupMetadataValue version 3, declared for kio."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = False
    member_id: str = field(metadata={"kafka_type": "string"})
    group_instance_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    client_id: str = field(metadata={"kafka_type": "string"})
    client_host: str = field(metadata={"kafka_type": "string"})
    rebalance_timeout: i32 = field(metadata={"kafka_type": "int32"})
    session_timeout: i32 = field(metadata={"kafka_type": "int32"})
    subscription: bytes = field(metadata={"kafka_type": "bytes"})
    assignment: bytes = field(metadata={"kafka_type": "bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KioGroup:
    """GroupMetadataValue version 3, declared for kio."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = False
    protocol_type: str = field(metadata={"kafka_type": "string"})
    generation: i32 = field(metadata={"kafka_type": "int32"})
    protocol: str | None = field(metadata={"kafka_type": "string"})
    leader: str | None = field(metadata={"kafka_type": "string"})
    current_state_timestamp: i64 = field(metadata={"kafka_type": "int64"})
    members: tuple[KioMember, ...]


@given(GROUPS)
@settings(max_examples=30)
def test_kio_reads_our_groups(group: GroupMetadata) -> None:
    data = encode_value(group)
    theirs, size = entity_reader(KioGroup)(data, 2)
    assert size == len(data) - 2
    assert (theirs.protocol_type, theirs.generation) == (group.protocol_type, group.generation)
    assert (theirs.protocol, theirs.leader) == (group.protocol, group.leader)
    assert theirs.current_state_timestamp == group.current_state_timestamp
    assert [
        (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.rebalance_timeout,
         m.session_timeout, m.subscription, m.assignment)
        for m in theirs.members
    ] == [
        (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.rebalance_timeout,
         m.session_timeout, m.subscription, m.assignment)
        for m in group.members
    ]  # fmt: skip


@given(st.builds(CommittedOffset, TIME, st.integers(-1, 2**31 - 1), TEXT, TIME))
@settings(max_examples=30)
def test_kio_reads_our_offsets(offset: CommittedOffset) -> None:
    data = encode_value(offset)
    theirs, size = entity_reader(KioOffset)(data, 2)
    assert size == len(data) - 2
    assert (theirs.offset, theirs.leader_epoch) == (offset.offset, offset.leader_epoch)
    assert (theirs.metadata, theirs.commit_timestamp) == (offset.metadata, offset.commit_timestamp)
