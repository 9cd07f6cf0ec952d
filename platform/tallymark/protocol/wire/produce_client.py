"""Writes and reads Produce for producers without message objects, thousands of times a second.

The other side of :mod:`tallymark.protocol.wire.produce`. The declarations of
:mod:`tallymark.protocol.messages.k00_produce` are the reference; a test compares both. Batches are
not copied: a request is a list of buffers.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from tallymark.errors import LocalProtocolError
from tallymark.protocol.frames import decode_response
from tallymark.protocol.messages import ProduceRequest, ProduceResponse
from tallymark.protocol.schema import Buffer
from tallymark.protocol.varint import encode_uvarint

LOWEST: Final = 3
"""The first version with batches of format v2."""
HIGHEST: Final = 13
IDS_FROM: Final = 13
"""The first version that names topics by id."""
_FLEXIBLE: Final = 9

_HEAD: Final = struct.Struct(">ihhih")
_SIZE_TO_ID: Final = struct.Struct(">ihhi")
_ACKS: Final = struct.Struct(">hi")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_APPENDED: Final = struct.Struct(">ihqqqbbb")
"""index, error, base offset, append time, log start, no record errors, no message, tags of the
partition."""
_END: Final = struct.Struct(">bib")
"""Tags of the topic, throttle time, tags of the answer."""

Batch: TypeAlias = tuple[int, bytes, Buffer]
"""Partition, header and records of a record batch."""
Topic: TypeAlias = tuple[str, uuid.UUID, list[Batch]]


class PartitionResponse(NamedTuple):
    """One partition of a response without errors."""

    partition: int
    base_offset: int
    append_time_ms: int


def write_produce(
    version: int,
    correlation_id: int,
    client_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Sequence[Topic],
    transactional_id: str | None = None,
) -> list[Buffer]:
    """The frame of a request of ``version`` 3 to 13, as buffers. LocalProtocolError for a client
    id, topic or batch that is too long."""
    if not LOWEST <= version <= HIGHEST:
        raise LocalProtocolError(f"Produce v{version} cannot be written")
    flexible = version >= _FLEXIBLE
    if flexible and transactional_id is None and len(topics) == 1 and len(topics[0][2]) == 1:
        return _write_one(version, correlation_id, client_id, acks, timeout_ms, topics[0])
    parts: list[Buffer] = [b""]
    if transactional_id is not None:
        begin = _name(transactional_id, flexible) + _ACKS.pack(acks, timeout_ms)
    else:
        begin = (b"\0" if flexible else b"\xff\xff") + _ACKS.pack(acks, timeout_ms)
    pending = begin + _count(len(topics), flexible)
    for name, topic_id, batches in topics:
        pending += topic_id.bytes if version >= IDS_FROM else _name(name, flexible)
        pending += _count(len(batches), flexible)
        for index, header, records in batches:
            size = len(header) + len(records)
            pending += _INT32.pack(index)
            pending += encode_uvarint(size + 1) if flexible else _INT32.pack(size)
            parts += (pending + header, records)
            pending = b"\0" if flexible else b""
        pending += b"\0" if flexible else b""
    parts.append(pending + (b"\0" if flexible else b""))
    name_bytes = (client_id or "").encode()
    length = -1 if client_id is None else len(name_bytes)
    size = sum(map(len, parts)) + 10 + len(name_bytes) + flexible
    try:
        head = _HEAD.pack(size, 0, version, correlation_id, length)
    except struct.error as error:
        raise LocalProtocolError(f"a Produce request of {size} bytes: {error}") from error
    parts[0] = head + name_bytes + (b"\0" if flexible else b"")
    return parts


def _write_one(
    version: int,
    correlation_id: int,
    client_id: str | None,
    acks: int,
    timeout_ms: int,
    topic: Topic,
) -> list[Buffer]:
    """One batch for one partition, which most requests of a busy producer are."""
    name, topic_id, ((index, header, records),) = topic
    size = len(header) + len(records)
    front = _front(version, client_id, acks, timeout_ms, name, topic_id, index)
    length = encode_uvarint(size + 1)
    whole = len(front) + len(length) + size + 3 + 8
    if whole >= 1 << 31:
        raise LocalProtocolError(f"a Produce request of {whole} bytes is too long")
    head = _SIZE_TO_ID.pack(whole, 0, version, correlation_id)
    return [b"".join((head, front, length, header)), records, b"\0\0\0"]


@lru_cache(maxsize=4096)
def _front(
    version: int,
    client_id: str | None,
    acks: int,
    timeout_ms: int,
    topic: str,
    topic_id: uuid.UUID,
    index: int,
) -> bytes:
    """The bytes between the correlation id and the length of the only batch."""
    client = (client_id or "").encode()
    if len(client) > 0x7FFF:
        raise LocalProtocolError(f"a client id of {len(client)} bytes is too long")
    return b"".join(
        (
            _INT16.pack(-1 if client_id is None else len(client)),
            client,
            b"\0",  # tags of the header
            b"\0",  # no transactional id
            _ACKS.pack(acks, timeout_ms),
            b"\2",
            topic_id.bytes if version >= IDS_FROM else _name(topic, flexible=True),
            b"\2",
            _INT32.pack(index),
        )
    )


def read_produced(frame: memoryview, version: int) -> list[PartitionResponse] | ProduceResponse:
    """The answer: the short form when it is about partitions of one topic and nothing failed.

    Raises RemoteProtocolError for bytes that are none."""
    if version >= _FLEXIBLE:
        short = _read_short(frame, version)
        if short is not None:
            return short
    return decode_response(frame, ProduceRequest, version)[1]


def _read_short(frame: memoryview, version: int) -> list[PartitionResponse] | None:
    """``correlation i32 | tags 0 | topics 2 | name or id | partitions | _APPENDED each | _END``."""
    try:
        if frame[4] or frame[5] != 2:
            return None
        pos = 22 if version >= IDS_FROM else 6 + frame[6]
        end = len(frame) - _END.size
        count = frame[pos] - 1
        # A number or name of more bytes has its high bit set and does not fit either.
        if pos + 1 + count * _APPENDED.size != end or any(_END.unpack_from(frame, end)[::2]):
            return None
        found: list[PartitionResponse] = []
        for answer in _APPENDED.iter_unpack(frame[pos + 1 : end]):
            index, error, base, appended, _, errors, message, tags = answer
            if error or errors != 1 or message or tags:
                return None
            found.append(PartitionResponse(index, base, appended))
    except (IndexError, struct.error):
        return None
    return found


def _count(count: int, flexible: bool) -> bytes:
    return encode_uvarint(count + 1) if flexible else _INT32.pack(count)


@lru_cache(maxsize=1024)
def _name(name: str, flexible: bool) -> bytes:
    text = name.encode()
    if len(text) > 0x7FFF:
        raise LocalProtocolError(f"a topic's name of {len(text)} bytes is too long")
    return (encode_uvarint(len(text) + 1) if flexible else _INT16.pack(len(text))) + text
