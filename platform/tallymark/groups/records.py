"""The records of ``__consumer_offsets``, in Kafka's own formats, so that its tools can read them.

Key, ``OffsetCommitKey`` version 1 (0 is the same; 2 and up belong to group metadata)::

    version i16 = 1 | group string | topic string | partition i32

Value, ``OffsetCommitValue`` version 3 is written; 0, 1 and 2 are read too::

    0, 2   version i16 | offset i64 | metadata string | commit timestamp i64
    1      version i16 | offset i64 | metadata string | commit timestamp i64 | expiry i64
    3      version i16 | offset i64 | leader epoch i32 | metadata string | commit timestamp i64

A string is an i16 length and UTF-8. No value (a tombstone) means that the offset is forgotten.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from tallymark.errors import CorruptRecordError

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")

KEY_VERSION: Final = 1
VALUE_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Whose offset: a group's, in one partition of one topic."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """``offset`` is the next one to read; ``leader_epoch`` that of the record before it, or -1."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = -1
    """ms UTC"""


def encode_key(key: OffsetKey) -> bytes:
    """The key of the record that commits an offset."""
    head = _I16.pack(KEY_VERSION) + _string(key.group) + _string(key.topic)
    return head + _I32.pack(key.partition)


def encode_value(committed: CommittedOffset) -> bytes:
    """The value of the record that commits an offset."""
    return b"".join(
        (
            _I16.pack(VALUE_VERSION),
            _I64.pack(committed.offset),
            _I32.pack(committed.leader_epoch),
            _string(committed.metadata),
            _I64.pack(committed.commit_timestamp),
        )
    )


def decode_key(data: bytes) -> OffsetKey | None:
    """The key, or None where the record is not about an offset. Raises CorruptRecordError."""
    reader = _Reader(data)
    if reader.i16() not in (0, KEY_VERSION):
        return None
    return OffsetKey(reader.string(), reader.string(), reader.i32())


def decode_value(data: bytes) -> CommittedOffset:
    """The value of a commit. Raises CorruptRecordError, also for versions after 3."""
    reader = _Reader(data)
    version = reader.i16()
    if not 0 <= version <= VALUE_VERSION:
        raise CorruptRecordError(f"offset commit value of unknown version {version}")
    offset = reader.i64()
    epoch = reader.i32() if version >= 3 else -1
    return CommittedOffset(offset, epoch, reader.string(), reader.i64())


def _string(text: str) -> bytes:
    data = text.encode()
    return _I16.pack(len(data)) + data


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def i16(self) -> int:
        return self._number(_I16)

    def i32(self) -> int:
        return self._number(_I32)

    def i64(self) -> int:
        return self._number(_I64)

    def string(self) -> str:
        size = self.i16()
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise CorruptRecordError(f"string of {size} bytes at {self._at} in an offset record")
        part = self._data[self._at : end]
        self._at = end
        try:
            return part.decode()
        except UnicodeDecodeError as error:
            raise CorruptRecordError(f"offset record: {error}") from error

    def _number(self, form: struct.Struct) -> int:
        try:
            (value,) = form.unpack_from(self._data, self._at)
        except struct.error as error:
            raise CorruptRecordError(f"offset record ends at {len(self._data)}") from error
        self._at += form.size
        assert isinstance(value, int)
        return value
