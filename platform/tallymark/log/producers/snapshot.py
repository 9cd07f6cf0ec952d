"""Snapshots of the producer state, so that a start need not read the whole log.

``%020d.snapshot``, the state before the offset of its name, in Kafka's format, big-endian::

    version int16 = 1 | crc uint32 | count int32 | count entries of 46 bytes
                        CRC-32C of everything after this field

    entry: producer id int64 | epoch int16 | last sequence int32 | last offset int64
         | offset delta int32 | timestamp int64 | coordinator epoch int32 | txn first offset int64

Only the *last* batch of a producer is in it. Written at every roll and at a clean stop; the one at
the beginning of each segment is kept, since a log may be cut at any of them (KAFKA-5435: with the
two newest only, a cut log was read from its start). It is not synced: a snapshot that a crash has
torn fails its CRC. Then the one before it is used, and the log is replayed from there.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from contextlib import suppress
from typing import Final

import crc32c

from tallymark.log.disk.files import Data, Files, write_file
from tallymark.log.producers.state import KeptBatch, ProducerEntry, ProducerStates

_SUFFIX: Final = ".snapshot"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_MODULUS: Final = 2**31


def encode_snapshot(states: ProducerStates) -> bytes:
    """The bytes of a snapshot file."""
    body = _COUNT.pack(len(states)) + b"".join(_encode_entry(entry) for entry in states)
    return _HEADER.pack(_VERSION, crc32c.crc32c(body)) + body


def decode_snapshot(data: Data) -> ProducerStates:
    """Read a snapshot. ValueError where it is torn or of another version."""
    body = memoryview(data)[_HEADER.size :]
    if len(body) < _COUNT.size:
        raise ValueError("too short")
    version, crc = _HEADER.unpack_from(data)
    if version != _VERSION or crc != crc32c.crc32c(body):
        raise ValueError(f"version {version} or its CRC does not hold")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise ValueError(f"{count} entries announced, {len(body)} bytes there")
    return ProducerStates(
        _decode_entry(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])
    )


class ProducerSnapshots:
    """The snapshot files of one log."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory

    def write(self, offset: int, states: ProducerStates, bases: Container[int]) -> None:
        """Write the state before ``offset``, and remove all older snapshots but those at the
        ``bases`` of the log's segments, and the newest of them."""
        write_file(self._files, self._path(offset), encode_snapshot(states), durable=False)
        older = [each for each in self._offsets() if each < offset]
        for old in older[:-1]:
            if old not in bases:
                self._files.remove(self._path(old))

    def cut(self, end_offset: int) -> None:
        """Remove those above ``end_offset``: the log ends there now, and may continue otherwise."""
        for offset in self._offsets():
            if offset > end_offset:
                self._files.remove(self._path(offset))

    def newest(self, end_offset: int) -> tuple[int, ProducerStates] | None:
        """The newest good snapshot not above ``end_offset``, with its offset. Those above it, of a
        part of the log that was cut, are removed."""
        for offset in reversed(self._offsets()):
            if offset <= end_offset:
                try:
                    return offset, decode_snapshot(self._files.read(self._path(offset)))
                except ValueError:
                    pass  # torn by a crash; the one before it is used
            self._files.remove(self._path(offset))
        return None

    def at_or_below(self, offset: int) -> tuple[int, ProducerStates] | None:
        """The newest good snapshot not above ``offset``, with its offset. Removes none."""
        for each in reversed(self._offsets()):
            if each <= offset:
                with suppress(ValueError):
                    return each, decode_snapshot(self._files.read(self._path(each)))
        return None

    def _offsets(self) -> list[int]:
        names = (name.removesuffix(_SUFFIX) for name in self._files.listdir(self._directory)
                 if name.endswith(_SUFFIX))  # fmt: skip
        return sorted(int(name) for name in names if name.isdigit())

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{_SUFFIX}"


def _encode_entry(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else KeptBatch(-1, -1, -1, -1)
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence,
        last.last_offset,
        last.last_offset - last.first_offset,
        entry.updated_ms,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )


def _decode_entry(
    producer_id: int,
    epoch: int,
    sequence: int,
    offset: int,
    delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerEntry:
    first = (sequence - delta) % _MODULUS
    batches = [KeptBatch(first, sequence, offset - delta, offset)]
    return ProducerEntry(
        producer_id,
        epoch,
        batches if sequence >= 0 else [],
        first,
        timestamp,
        coordinator_epoch,
        txn_first_offset,
    )
