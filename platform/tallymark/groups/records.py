"""The records of ``__consumer_offsets``, in Kafka's own formats, so that its tools can read them.

Every key and value opens with its version. Keys, by version::

    0, 1   OffsetCommitKey    version i16 | group string | topic string | partition i32
    2      GroupMetadataKey   version i16 | group string
    3 ...  of groups of KIP-848 and later: not ours, left alone

Values of an offset; 3 is written, 1 where a client sets the time at which its offset ends::

    0, 2   version i16 | offset i64 | metadata string | commit timestamp i64
    1      version i16 | offset i64 | metadata string | commit timestamp i64 | expiry i64
    3, 4   version i16 | offset i64 | leader epoch i32 | metadata string | commit timestamp i64

Values of a group; 3 is written::

    version i16 | protocol type string | generation i32 | protocol string? | leader string?
    | state since i64 (from 2) | [member]
    member: id string | instance id string? (from 3) | client id string | client host string
            | rebalance timeout i32 (from 1) | session timeout i32 | subscription bytes
            | assignment bytes

A string is an i16 length and UTF-8, ``?`` may be null (-1), bytes and arrays have an i32 length.
Version 4 of both values is flexible (compact lengths, tagged fields; KIP-915). No value (a
tombstone) means that the offset or group is deleted.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from tallymark.errors import CorruptRecordError, RemoteProtocolError
from tallymark.protocol.readers import Reader, struct_reader
from tallymark.protocol.schema import (
    Array,
    Buffer,
    Bytes,
    Int32,
    Int64,
    String,
    Struct,
    f,
    wire,
)
from tallymark.protocol.writers import Writer, struct_writer

S = TypeVar("S", bound=Struct)

GroupRecord = tuple[bytes, bytes | None]
"""Key and value of one record; a None value is a tombstone."""

LONGEST_TEXT: Final = 32_767
"""The most bytes of a string in a record."""

_VERSION: Final = struct.Struct(">h")
_SHORT, _TWO_SHORTS = struct.Struct(">h"), struct.Struct(">hh")
_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")
_OFFSET_HEAD: Final = struct.Struct(">hqih")
"""Of an offset's value: version, offset, leader epoch, length of the text."""
_OFFSET_KEY: Final = 1
_GROUP_KEY: Final = 2
_VALUE: Final = 3
_VALUE_WITH_EXPIRY: Final = 1
_FLEXIBLE: Final = 4
_HIGHEST_VALUE: Final = 4


@wire
class OffsetKey(Struct):
    """The key of an offset: a group, a topic and a partition."""

    group: str = f(String, about="The group.")
    topic: str = f(String, about="Name of the topic.")
    partition: int = f(Int32, about="Number of the partition.")


@wire
class GroupKey(Struct):
    """The key of a group."""

    group: str = f(String, about="The group.")


@wire
class CommittedOffset(Struct):
    """How far a group has read a partition. Times are ms UTC, -1 for none."""

    offset: int = f(Int64, about="Next offset to read.")
    leader_epoch: int = f(Int32, since=3, default=-1, about="Epoch of the record before, or -1.")
    metadata: str = f(String, about="Free text of the client.")
    commit_timestamp: int = f(Int64, default=-1, about="When it was committed.")
    expire_timestamp: int = f(
        Int64, since=1, until=1, default=-1, about="When the client wants it forgotten, or -1."
    )


@wire
class MemberMetadata(Struct):
    """A member of a stable generation."""

    member_id: str = f(String, about="Id of the member.")
    group_instance_id: str | None = f(
        String, since=3, nullable_since=3, default=None, about="Its static id, or null."
    )
    client_id: str = f(String, about="Client id of its connection.")
    client_host: str = f(String, about="Address of its connection.")
    rebalance_timeout: int = f(Int32, since=1, default=-1, about="ms it has to join again.")
    session_timeout: int = f(Int32, about="ms it may be silent.")
    subscription: Buffer = f(Bytes, about="What it sent for the chosen protocol.")
    assignment: Buffer = f(Bytes, about="Its part, as the leader wrote it.")


@wire
class GroupMetadata(Struct):
    """A group as it is stored: a stable generation, or an empty group."""

    protocol_type: str = f(String, about='What the group is for: "consumer", "connect", ...')
    generation: int = f(Int32, about="Number of the generation.")
    protocol: str | None = f(String, nullable_since=0, default=None, about="The chosen protocol.")
    leader: str | None = f(String, nullable_since=0, default=None, about="Member id of the leader.")
    current_state_timestamp: int = f(
        Int64, since=2, default=-1, about="Since when it is in this state, ms UTC, or -1."
    )
    members: Sequence[MemberMetadata] = f(Array(MemberMetadata), about="Its members.")


def encode_key(key: OffsetKey | GroupKey) -> bytes:
    """The key of a record."""
    if isinstance(key, OffsetKey):
        group, topic = key.group.encode(), key.topic.encode()
        if len(group) <= LONGEST_TEXT and len(topic) <= LONGEST_TEXT:
            head, size = _TWO_SHORTS.pack(_OFFSET_KEY, len(group)), _SHORT.pack(len(topic))
            return b"".join((head, group, size, topic, _INT.pack(key.partition)))
    return _encode(key, _OFFSET_KEY if isinstance(key, OffsetKey) else _GROUP_KEY)


def encode_value(value: CommittedOffset | GroupMetadata) -> bytes:
    """The value of a record, in the version that every Kafka since 2.3 reads."""
    expires = isinstance(value, CommittedOffset) and value.expire_timestamp >= 0
    if isinstance(value, CommittedOffset) and not expires:
        text = value.metadata.encode()
        if len(text) <= LONGEST_TEXT:
            head = _OFFSET_HEAD.pack(_VALUE, value.offset, value.leader_epoch, len(text))
            return b"".join((head, text, _LONG.pack(value.commit_timestamp)))
    return _encode(value, _VALUE_WITH_EXPIRY if expires else _VALUE)


def decode_key(data: Buffer) -> OffsetKey | GroupKey | None:
    """The key, or None where the record is of a kind that is not ours. Raises
    CorruptRecordError."""
    version = _version_of(data)
    if version in (0, _OFFSET_KEY):
        return _quick_key(data) or _decode(OffsetKey, data, version)
    return _decode(GroupKey, data, version) if version == _GROUP_KEY else None


def decode_offset(data: Buffer) -> CommittedOffset:
    """The value of a commit. Raises CorruptRecordError, also for a version that is not known."""
    version = _value_version_of(data)
    quick = _quick_offset(data) if version == _VALUE else None
    return quick or _decode(CommittedOffset, data, version)


def _quick_key(data: Buffer) -> OffsetKey | None:
    """The same as :func:`_decode`, written by hand: a commit of thousands of partitions, and a
    restart with millions, read nothing else. None for an unusual key."""
    try:
        _, size = _TWO_SHORTS.unpack_from(data)
        at = _TWO_SHORTS.size + size
        (length,) = _SHORT.unpack_from(data, at)
        end = at + _SHORT.size + length
        (partition,) = _INT.unpack_from(data, end)
        if size < 0 or length < 0:
            return None
        group = str(data[_TWO_SHORTS.size : at], "utf-8")
        return OffsetKey(group, str(data[at + _SHORT.size : end], "utf-8"), partition)
    except (struct.error, UnicodeDecodeError):
        return None


def _quick_offset(data: Buffer) -> CommittedOffset | None:
    """As :func:`_quick_key`, of version 3."""
    try:
        _, offset, epoch, size = _OFFSET_HEAD.unpack_from(data)
        end = _OFFSET_HEAD.size + size
        (timestamp,) = _LONG.unpack_from(data, end)
        if size < 0:
            return None
        text = str(data[_OFFSET_HEAD.size : end], "utf-8")
        return CommittedOffset(offset, epoch, text, timestamp)
    except (struct.error, UnicodeDecodeError):
        return None


def decode_group(data: Buffer) -> GroupMetadata:
    """The value of a group. Raises CorruptRecordError, also for a version that is not known."""
    return _decode(GroupMetadata, data, _value_version_of(data))


def _version_of(data: Buffer) -> int:
    if len(data) < _VERSION.size:
        raise CorruptRecordError(f"a group record of {len(data)} bytes has no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise CorruptRecordError(f"group record of version {version}")
    return version


def _value_version_of(data: Buffer) -> int:
    version = _version_of(data)
    if version > _HIGHEST_VALUE:
        raise CorruptRecordError(f"group record value of unknown version {version}")
    return version


def _encode(value: Struct, version: int) -> bytes:
    parts: list[Any] = [_VERSION.pack(version)]
    _CODECS[type(value), version][1](value, parts)
    return b"".join(parts)


def _decode(cls: type[S], data: Buffer, version: int) -> S:
    """Bytes behind the last field are ignored, as Kafka does."""
    try:
        value: S = _CODECS[cls, version][0](memoryview(data), _VERSION.size)[0]
    except (RemoteProtocolError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise CorruptRecordError(f"{cls.__name__} v{version}: {error}") from error
    return value


def _is_flexible(cls: type[Struct], version: int) -> bool:
    return version >= _FLEXIBLE and cls in (CommittedOffset, GroupMetadata)


_CODECS: Final[dict[tuple[type[Struct], int], tuple[Reader, Writer]]] = {
    (cls, version): (
        struct_reader(cls, version, _is_flexible(cls, version)),
        struct_writer(cls, version, _is_flexible(cls, version)),
    )
    for cls in (OffsetKey, GroupKey, CommittedOffset, GroupMetadata)
    for version in range(_HIGHEST_VALUE + 1)
}
