"""What consumers send one another through a group of type "consumer", in Kafka's formats.

The coordinator does not decode them; they are the metadata of a JoinGroup protocol and the
assignment of a SyncGroup. Each begins with its version::

    subscription   version i16 | [topic string] | user data bytes?
                   | [topic string, [partition i32]] owned (from 1)
                   | generation i32 (from 2) | rack string? (from 3)
    assignment     version i16 | [topic string, [partition i32]] | user data bytes?

A string has an i16 length, bytes and arrays an i32 count, ``?`` may be null (-1). Versions are read
as KIP-429 says: of a newer version than ours we read the fields that we know and ignore the rest,
so that members of different versions can share a group.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from tallymark.errors import LocalProtocolError, RemoteProtocolError
from tallymark.protocol.readers import Reader, struct_reader
from tallymark.protocol.schema import Array, Buffer, Bytes, Int32, String, Struct, f, wire
from tallymark.protocol.writers import Writer, struct_writer

S = TypeVar("S", bound=Struct)

HIGHEST_VERSION: Final = 3
"""Highest version of both structs; the lowest is 0."""

_VERSION: Final = struct.Struct(">h")


@wire
class ConsumerProtocolTopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = f(String, about="Name of the topic.")
    partitions: Sequence[int] = f(Array(Int32), about="Numbers of the partitions.")


@wire
class ConsumerProtocolSubscription(Struct):
    """The topics of a member, and the partitions that it owns: its metadata in JoinGroup."""

    topics: Sequence[str] = f(Array(String), about="The topics it reads.")
    user_data: Buffer | None = f(
        Bytes, nullable_since=0, default=None, about="Words of its assignor, or null."
    )
    owned_partitions: Sequence[ConsumerProtocolTopicPartitions] = f(
        Array(ConsumerProtocolTopicPartitions), since=1, about="What it reads now (KIP-429)."
    )
    generation_id: int = f(
        Int32, since=2, default=-1, about="Generation in which it got them, or -1."
    )
    rack_id: str | None = f(
        String, since=3, nullable_since=3, default=None, about="Its rack, or null (KIP-881)."
    )


@wire
class ConsumerProtocolAssignment(Struct):
    """The partitions of a member, as the leader wrote them: its assignment in SyncGroup."""

    assigned_partitions: Sequence[ConsumerProtocolTopicPartitions] = f(
        Array(ConsumerProtocolTopicPartitions), about="What it reads from now on."
    )
    user_data: Buffer | None = f(
        Bytes, nullable_since=0, default=None, about="Words of the leader's assignor, or null."
    )


def encode_subscription(
    subscription: ConsumerProtocolSubscription, version: int = HIGHEST_VERSION
) -> bytes:
    """The bytes with their version in front. Raises LocalProtocolError."""
    return _encode(subscription, version)


def encode_assignment(
    assignment: ConsumerProtocolAssignment, version: int = HIGHEST_VERSION
) -> bytes:
    """The bytes with their version in front. Raises LocalProtocolError."""
    return _encode(assignment, version)


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Raises RemoteProtocolError. ``user_data`` is a view of ``data``."""
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """Raises RemoteProtocolError. ``user_data`` is a view of ``data``."""
    return _decode(ConsumerProtocolAssignment, data)


def _encode(value: Struct, version: int) -> bytes:
    name = type(value).__name__
    if not 0 <= version <= HIGHEST_VERSION:
        raise LocalProtocolError(f"{name} v{version}: there are 0 to {HIGHEST_VERSION}")
    parts: list[Any] = [_VERSION.pack(version)]
    try:
        _CODECS[type(value)][1][version](value, parts)
    except (LocalProtocolError, struct.error, AttributeError, TypeError, ValueError) as error:
        raise LocalProtocolError(f"{name} v{version} does not encode: {error}") from error
    return b"".join(parts)


def _decode(cls: type[S], data: Buffer) -> S:
    view = memoryview(data)
    if len(view) < _VERSION.size:
        raise RemoteProtocolError(f"{cls.__name__} of {len(view)} bytes has no version")
    version: int = _VERSION.unpack_from(view)[0]
    if version < 0:
        raise RemoteProtocolError(f"{cls.__name__} v{version}: no such version")
    try:
        value: S = _CODECS[cls][0][min(version, HIGHEST_VERSION)](view, _VERSION.size)[0]
    except (RemoteProtocolError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"{cls.__name__} v{version} is cut or bad: {error}") from error
    return value


def _codec(cls: type[Struct]) -> tuple[list[Reader], list[Writer]]:
    """Its readers and writers, by version."""
    versions = range(HIGHEST_VERSION + 1)
    readers = [struct_reader(cls, version, flexible=False) for version in versions]
    return readers, [struct_writer(cls, version, flexible=False) for version in versions]


_CODECS: Final[dict[type[Struct], tuple[list[Reader], list[Writer]]]] = {
    cls: _codec(cls) for cls in (ConsumerProtocolSubscription, ConsumerProtocolAssignment)
}
