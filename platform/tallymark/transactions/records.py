"""The records of ``__transaction_state``, in Kafka's own formats, so that its tools can read them.

Key, version 0::

    version i16 | transactional id string

Value, versions 0 and 1; no value (a tombstone) means that the id is forgotten::

    version i16 | producer id i64 | epoch i16 | timeout ms i32 | state i8
    | [topic string | [partition i32]]?      what the transaction has written to
    | updated ms i64 | started ms i64 | tagged fields (from 1)

A string has an i16 length, an array an i32 length, -1 for null. Version 1 is flexible: lengths are
uvarints of n + 1, each topic ends with tagged fields, and these tags follow at the end::

    0 previous producer id i64   1 next producer id i64   2 client's transaction version i16
    4 last epoch i16 (KAFKA-20357)                        each left out while it has its default

Tag 3 is Kafka's next producer epoch, of KIP-939, which we do not serve. Our coordinators write
version 1: without its tags a retried EndTxn of TV2 is not recognised after a start. Apache Kafka
reads it from 3.9 on. Tags that are not known are kept and written again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final, TypeVar

from tallymark.errors import CorruptRecordError, RemoteProtocolError
from tallymark.protocol.schema import Buffer
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.protocol.varint import decode_uvarint, encode_uvarint
from tallymark.transactions.transaction import NONE, State, Transaction

T = TypeVar("T")

TransactionRecord = tuple[bytes, bytes | None]
"""Key and value of one record; a None value is a tombstone."""

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_HEAD: Final = struct.Struct(">hqhib")
_TIMES: Final = struct.Struct(">qq")
_KEY_VERSION: Final = 0
_HIGHEST_VALUE: Final = 1
_TAGS: Final = {
    0: ("previous_producer_id", _LONG, NONE),
    1: ("next_producer_id", _LONG, NONE),
    2: ("version", _SHORT, 0),
    4: ("last_epoch", _SHORT, NONE),
}
"""By tag: the field, its type and its default."""


def encode_key(transactional_id: str) -> bytes:
    """The key of a record."""
    text = transactional_id.encode()
    return b"".join((_SHORT.pack(_KEY_VERSION), _SHORT.pack(len(text)), text))


def decode_key(data: Buffer) -> str | None:
    """The transactional id, or None where the record is of a kind that is not known. Raises
    CorruptRecordError."""
    return _checked(_key, data)


def encode_value(transaction: Transaction, version: int) -> bytes:
    """The value of a record. Version 0 has no room for the tags."""
    head = _HEAD.pack(
        version,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        transaction.state,
    )
    times = _TIMES.pack(transaction.updated_ms, transaction.started_ms)
    topics = [
        (topic.encode(), [partition for _, partition in group])
        for topic, group in groupby(sorted(transaction.partitions), lambda each: each[0])
    ]
    if version == 0:
        return b"".join((head, *_old_topics(topics), times))
    return b"".join((head, *_topics(topics), times, *_tags(transaction)))


def decode_value(transactional_id: str, data: Buffer) -> Transaction:
    """The transaction of a record. Raises CorruptRecordError, also for a version or a state that is
    not known."""
    return _checked(lambda value: _transaction(transactional_id, value), data)


def state_in(value: bytes) -> State:
    """The state in a value that :func:`decode_value` has read."""
    return State(value[_HEAD.size - 1])


def _old_topics(topics: Iterable[tuple[bytes, list[int]]]) -> Iterable[bytes]:
    topics = tuple(topics)
    yield _INT.pack(len(topics))
    for topic, partitions in topics:
        yield _SHORT.pack(len(topic)) + topic
        yield struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)


def _topics(topics: Iterable[tuple[bytes, list[int]]]) -> Iterable[bytes]:
    topics = tuple(topics)
    yield encode_uvarint(len(topics) + 1)
    for topic, partitions in topics:
        yield encode_uvarint(len(topic) + 1) + topic + encode_uvarint(len(partitions) + 1)
        yield struct.pack(f">{len(partitions)}i", *partitions) + b"\0"


def _tags(transaction: Transaction) -> Iterable[bytes]:
    known = (
        (tag, code.pack(getattr(transaction, name)))
        for tag, (name, code, default) in _TAGS.items()
        if getattr(transaction, name) != default
    )
    tags = sorted((*known, *transaction.unknown_tags))
    yield encode_uvarint(len(tags))
    for tag, value in tags:
        yield encode_uvarint(tag) + encode_uvarint(len(value)) + value


def _checked(decode: Callable[[memoryview], T], data: Buffer) -> T:
    try:
        return decode(memoryview(data))
    except (RemoteProtocolError, IndexError, struct.error, ValueError) as error:
        raise CorruptRecordError(f"record of a transaction: {error}") from error


def _key(data: memoryview) -> str | None:
    cursor = _Cursor(data)
    return cursor.text(cursor.number(_SHORT)) if cursor.number(_SHORT) == _KEY_VERSION else None


def _transaction(transactional_id: str, data: memoryview) -> Transaction:
    version, producer_id, epoch, timeout_ms, state = _HEAD.unpack_from(data)
    if not 0 <= version <= _HIGHEST_VALUE:
        raise ValueError(f"version {version} is not known")
    cursor = _Cursor(data, _HEAD.size)
    partitions = frozenset(cursor.old_topics() if version == 0 else cursor.topics())
    updated_ms, started_ms = cursor.number(_LONG), cursor.number(_LONG)
    known: dict[str, int] = {}
    unknown: list[tuple[int, bytes]] = []
    for tag, value in cursor.tags() if version else ():
        if tag in _TAGS:
            name, code, _ = _TAGS[tag]
            (known[name],) = code.unpack(value)
        else:
            unknown.append((tag, bytes(value)))
    return Transaction(
        transactional_id,
        producer_id,
        epoch,
        timeout_ms,
        State(state),
        partitions,
        updated_ms,
        started_ms,
        unknown_tags=tuple(unknown),
        **known,
    )


class _Cursor:
    """Reads one record from front to back. Short bytes raise struct.error or ValueError."""

    def __init__(self, data: memoryview, at: int = 0) -> None:
        self._data = data
        self._at = at

    def number(self, code: struct.Struct) -> int:
        value: int = code.unpack_from(self._data, self._at)[0]
        self._at += code.size
        return value

    def text(self, length: int) -> str:
        return str(self._bytes(length), "utf-8")

    def old_topics(self) -> Iterator[TopicPartition]:
        for _ in range(max(self.number(_INT), 0)):
            topic = self.text(self.number(_SHORT))
            for _ in range(max(self.number(_INT), 0)):
                yield topic, self.number(_INT)

    def topics(self) -> Iterator[TopicPartition]:
        for _ in range(self._count()):
            topic = self.text(self._count())
            for _ in range(self._count()):
                yield topic, self.number(_INT)
            for _ in self.tags():
                pass

    def tags(self) -> Iterator[tuple[int, memoryview]]:
        for _ in range(self._unsigned()):
            tag = self._unsigned()
            yield tag, self._bytes(self._unsigned())

    def _count(self) -> int:
        """A compact length: 0 for null."""
        return max(self._unsigned() - 1, 0)

    def _unsigned(self) -> int:
        value = self._data[self._at]
        if value < 0x80:
            self._at += 1
        else:
            value, self._at = decode_uvarint(self._data, self._at)
        return value

    def _bytes(self, length: int) -> memoryview:
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise ValueError(f"{length} bytes announced at {self._at}, {len(self._data)} there")
        part, self._at = self._data[self._at : end], end
        return part
