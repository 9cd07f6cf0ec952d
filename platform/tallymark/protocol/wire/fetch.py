"""Reads and writes Fetch without message objects, since a broker does that thousands of times a
second.

The declarations of :mod:`tallymark.protocol.messages.k01_fetch` are the reference; as with
:mod:`tallymark.protocol.wire.produce`, a test compares both.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from tallymark.errors import RemoteProtocolError
from tallymark.protocol.messages.k01_fetch import CORRUPT_TAG
from tallymark.protocol.readers import read_uuid
from tallymark.protocol.varint import encode_uvarint
from tallymark.protocol.wire.lengths import (
    classic_length,
    compact_length,
    read_string,
    read_tags,
    skip_tags,
)

LOWEST: Final = 4
HIGHEST: Final = 18
_SESSIONS: Final = 7
_FORGETS: Final = 7
_PREFERRED: Final = 11
_FLEXIBLE: Final = 12
_IDS: Final = 13
_REPLICA_TAGGED: Final = 15
_TELLS_HIGH_WATERMARK: Final = 18
_HIGH_WATERMARK: Final = 1

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_LIMITS: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_HEADER: Final = struct.Struct(">ii")
_HEADER_TAGGED: Final = struct.Struct(">iib")
_ASK: Final = {
    4: struct.Struct(">iqi"),
    5: struct.Struct(">iqqi"),
    9: struct.Struct(">iiqqi"),
    12: struct.Struct(">iiqiqi"),
}
_ASK_BY_VERSION: Final = {v: _ASK[max(k for k in _ASK if k <= v)] for v in range(4, 19)}
_FOUND: Final = {
    4: struct.Struct(">ihqqi"),
    5: struct.Struct(">ihqqqi"),
    11: struct.Struct(">ihqqqii"),
    12: struct.Struct(">ihqqqbi"),
}

_ABORTED: Final = struct.Struct(">qq")
_ABORTED_TAGGED: Final = struct.Struct(">qqb")
_DIVERGING: Final = struct.Struct(">bbiqb")
_LEADER: Final = struct.Struct(">bbiib")
_REPLICA: Final = struct.Struct(">iq")
_INT64: Final = struct.Struct(">q")
UNTOLD: Final = 2**63 - 1
"""The high watermark of a follower that does not send it."""

Topic: TypeAlias = str | UUID
"""A topic's name below v13, its id from there on."""


class Ask(NamedTuple):
    """What to read of one partition; -1 where the version, or the consumer, does not set it.
    ``log_start_offset`` and ``high_watermark`` are what a follower has; the largest number for a
    high watermark that it does not send (before v18). ``corrupt``: the batch at ``fetch_offset``
    came corrupt to a follower of ours."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_bytes: int
    log_start_offset: int = -1
    high_watermark: int = UNTOLD
    corrupt: bool = False


class Replica(NamedTuple):
    """The follower that asks: broker id (-1 for a consumer) and broker epoch (-1 before v15)."""

    id: int = -1
    epoch: int = -1


class PlainFetch(NamedTuple):
    """A Fetch request. ``rack`` is that of a consumer, "" for none (from v11 on)."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[Topic, list[Ask]]]
    forgotten: list[tuple[Topic, tuple[int, ...]]]
    replica: Replica = Replica()
    rack: str = ""


class Found(NamedTuple):
    """What was read of one partition. ``records`` are bytes or anything with a ``size``; ``tags``
    are the tagged fields (:func:`partition_tags`), written from v12 on."""

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: Any
    tags: bytes = b"\0"
    aborted: Sequence[tuple[int, int]] = ()
    """(producer id, first offset) of the transactions that a reader of committed records leaves
    out."""


def partition_tags(
    diverging: tuple[int, int] | None = None, leader: tuple[int, int] | None = None
) -> bytes:
    """The tagged fields of one partition in an answer from v12 on. ``diverging``: the greatest
    epoch of the leader's log that is not above the one asked for, and the offset where it ends
    (tag 0). ``leader``: id and epoch of the leader to turn to (tag 1). Tag 2, a snapshot, is for
    logs of metadata only."""
    tags: list[bytes] = []
    if diverging is not None:
        tags.append(_DIVERGING.pack(0, _DIVERGING.size - 2, *diverging, 0))
    if leader is not None:
        tags.append(_LEADER.pack(1, _LEADER.size - 2, *leader, 0))
    return bytes([len(tags)]) + b"".join(tags)


def read_fetch(body: memoryview, version: int) -> PlainFetch:
    """Read a request of ``version`` 4 to 18; what follows its last field is ignored.

    Raises RemoteProtocolError for bytes that are none.
    """
    try:
        return _read(body, version)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"Fetch v{version} is cut or bad: {error}") from error


def write_fetched(
    version: int,
    correlation_id: int,
    session_id: int,
    topics: Sequence[tuple[Topic, Sequence[Found]]],
    *,
    error_code: int = 0,
    committed: bool = False,
    throttle_ms: int = 0,
) -> list[Any]:
    """The frame of an answer of ``version`` 4 to 18, as buffers and slices that follow one another.

    ``committed``: the consumer reads committed records only, so the response has the list of
    aborted transactions; otherwise null.
    """
    flexible = version >= _FLEXIBLE
    parts: list[Any] = [b""]
    run = [_INT32.pack(throttle_ms)]
    if version >= _SESSIONS:
        run += (_INT16.pack(error_code), _INT32.pack(session_id))
    run.append(_count(len(topics), flexible))
    size = 0
    for topic, partitions in topics:
        run += (_topic(topic, flexible), _count(len(partitions), flexible))
        for found in partitions:
            records = found.records
            length = len(records) if isinstance(records, bytes) else records.size
            run.append(_found(version, found, committed, length))
            if length:
                if isinstance(records, bytes):
                    run.append(records)
                else:
                    parts += (b"".join(run), records)
                    run = []
                    size += length
            if flexible:
                run.append(found.tags)
        if flexible:
            run.append(b"\0")
    if flexible:
        run.append(b"\0")
    parts.append(b"".join(run))
    size += sum(len(part) for part in parts if isinstance(part, bytes))
    if flexible:
        parts[0] = _HEADER_TAGGED.pack(size + 5, correlation_id, 0)
    else:
        parts[0] = _HEADER.pack(size + 4, correlation_id)
    return parts


def _read(body: memoryview, version: int) -> PlainFetch:
    flexible = version >= _FLEXIBLE
    replica, pos = Replica(), 0
    if version < _REPLICA_TAGGED:
        replica, pos = Replica(_INT32.unpack_from(body, 0)[0]), 4
    max_wait_ms, min_bytes, max_bytes, isolation = _LIMITS.unpack_from(body, pos)
    pos += _LIMITS.size
    session_id, session_epoch = 0, -1
    if version >= _SESSIONS:
        session_id, session_epoch = _SESSION.unpack_from(body, pos)
        pos += _SESSION.size
    count, pos = _length(body, pos, flexible)
    topics: list[tuple[Topic, list[Ask]]] = []
    for _ in range(count):
        topic, pos = _read_topic(body, pos, version)
        asks, pos = _read_asks(body, pos, version)
        topics.append((topic, asks))
    forgotten: list[tuple[Topic, tuple[int, ...]]] = []
    if version >= _FORGETS:
        count, pos = _length(body, pos, flexible)
        for _ in range(count):
            topic, pos = _read_topic(body, pos, version)
            number, pos = _length(body, pos, flexible, 4)
            forgotten.append((topic, struct.unpack_from(f">{number}i", body, pos)))
            pos += 4 * number
            if flexible:
                pos = skip_tags(body, pos)
    rack = ""
    if version >= 11:
        rack, pos = read_string(body, pos, flexible)
    if flexible and body[pos] != 0:
        replica = _replica(body, pos, replica)
    return PlainFetch(
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        topics,
        forgotten,
        replica,
        rack,
    )


def _replica(body: memoryview, pos: int, told: Replica) -> Replica:
    state = read_tags(body, pos)[0].get(1)
    return told if state is None else Replica(*_REPLICA.unpack_from(state))


def _read_asks(body: memoryview, pos: int, version: int) -> tuple[list[Ask], int]:
    flexible = version >= _FLEXIBLE
    layout = _ASK_BY_VERSION[version]
    count, pos = _length(body, pos, flexible, layout.size)
    asks: list[Ask] = []
    for _ in range(count):
        fields = layout.unpack_from(body, pos)
        pos += layout.size
        if flexible:
            partition, epoch, offset, last_epoch, start, most = fields
            high, corrupt = UNTOLD, False
            if body[pos] == 0:
                pos += 1
            else:
                tags, pos = read_tags(body, pos)
                if _HIGH_WATERMARK in tags and version >= _TELLS_HIGH_WATERMARK:
                    high = _INT64.unpack_from(tags[_HIGH_WATERMARK])[0]
                if CORRUPT_TAG in tags and version >= _REPLICA_TAGGED:
                    corrupt = tags[CORRUPT_TAG][0] != 0
            asks.append(Ask(partition, epoch, offset, last_epoch, most, start, high, corrupt))
        elif version >= 9:
            partition, epoch, offset, start, most = fields
            asks.append(Ask(partition, epoch, offset, -1, most, start))
        else:
            start = fields[2] if version >= 5 else -1
            asks.append(Ask(fields[0], -1, fields[1], -1, fields[-1], start))
    if flexible:
        pos = skip_tags(body, pos)
    return asks, pos


def _read_topic(body: memoryview, pos: int, version: int) -> tuple[Topic, int]:
    if version >= _IDS:
        return read_uuid(body, pos)
    return read_string(body, pos, version >= _FLEXIBLE)


def _length(body: memoryview, pos: int, flexible: bool, unit: int = 1) -> tuple[int, int]:
    return compact_length(body, pos, unit) if flexible else classic_length(body, pos, unit)


def _found(version: int, found: Found, committed: bool, length: int) -> bytes:
    index, error, high, stable, start = found[:5]
    if committed and found.aborted:
        return _with_aborted(version, found, length)
    if version >= _FLEXIBLE:
        head = _FOUND[12].pack(index, error, high, stable, start, committed, -1)
        return head + encode_uvarint(length + 1)
    aborted = 0 if committed else -1
    if version >= 11:
        head = _FOUND[11].pack(index, error, high, stable, start, aborted, -1)
    elif version >= 5:
        head = _FOUND[5].pack(index, error, high, stable, start, aborted)
    else:
        head = _FOUND[4].pack(index, error, high, stable, aborted)
    return head + _INT32.pack(length)


def _with_aborted(version: int, found: Found, length: int) -> bytes:
    """The same with its list of aborted transactions."""
    flexible = version >= _FLEXIBLE
    numbers = _FOUND[5 if version >= 5 else 4].pack(*found[: 5 if version >= 5 else 4], 0)
    layout, tags = (_ABORTED_TAGGED, (0,)) if flexible else (_ABORTED, ())
    parts = [numbers[:-4], _count(len(found.aborted), flexible)]
    parts += (layout.pack(*each, *tags) for each in found.aborted)
    if version >= _PREFERRED:
        parts.append(_INT32.pack(-1))
    parts.append(encode_uvarint(length + 1) if flexible else _INT32.pack(length))
    return b"".join(parts)


def _topic(topic: Topic, flexible: bool) -> bytes:
    if isinstance(topic, UUID):
        return topic.bytes
    text = topic.encode()
    return (encode_uvarint(len(text) + 1) if flexible else _INT16.pack(len(text))) + text


def _count(count: int, flexible: bool) -> bytes:
    return encode_uvarint(count + 1) if flexible else _INT32.pack(count)
