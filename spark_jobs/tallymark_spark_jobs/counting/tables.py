"""Records that compiled loops have read (extra ``fast``), as the counter takes them.

:mod:`tallymark_spark_jobs.source.tables` reads whole fetches into tables of integers; what is in
these is drawn in :mod:`tallymark.protocol.records.compiled.layout`. Nothing here is compiled.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from tallymark.protocol.records.compiled.layout import (
    KEY,
    KEY_SIZE,
    OFFSET,
    ROWS,
    SCRATCH,
    SIZE,
    STAMP,
    STAMP_SIZE,
    TIMESTAMP,
    VALUE,
    VALUE_SIZE,
)
from tallymark.protocol.schema import Buffer
from tallymark_spark_jobs.counting.identities import LEAST_DATA, Bytes, Integers, Words
from tallymark_spark_jobs.counting.strips import Records

NULL_VALUE: Final = 0x6E756C6C
"""In place of a checksum, as :mod:`tallymark_audit.model.hashing` has it."""


class TableLike(Protocol):
    """What is used of the source's tables: the records of many batches, in the order of the
    log."""

    @property
    def data(self) -> Buffer: ...
    @property
    def scratch(self) -> Buffer: ...
    @property
    def batches(self) -> Integers: ...
    @property
    def columns(self) -> Integers: ...
    @property
    def aborted(self) -> Sequence[bool]: ...
    def column(self, field: int) -> Integers: ...


def records_of(table: TableLike, contents: bool) -> Records:
    """The records of a table. ``contents``: with the checksums of keys and values."""
    data, shift = _one_buffer(table)
    stamp = table.column(STAMP)
    rows = table.batches[:, ROWS]
    return Records(
        data,
        stamp if shift is None else stamp + shift,
        table.column(STAMP_SIZE),
        table.column(OFFSET),
        table.column(TIMESTAMP),
        table.column(SIZE),
        np.array(table.aborted, np.bool_).repeat(rows),
        _checksums(table, data, shift) if contents else None,
    )


def _one_buffer(table: TableLike) -> tuple[Bytes, Integers | None]:
    """The bytes that all positions are in, and how far each record's are to be shifted."""
    is_scratch = table.batches[:, SCRATCH] != 0
    if not is_scratch.any():
        return _padded(table.data), None
    if is_scratch.all():
        return _padded(table.scratch), None
    both = np.concatenate((np.frombuffer(table.data, np.uint8), _padded(table.scratch)))
    return both, np.where(is_scratch, len(table.data), 0).repeat(table.batches[:, ROWS])


def _padded(data: Buffer) -> Bytes:
    return np.frombuffer(
        data if len(data) >= LEAST_DATA else bytes(data) + bytes(LEAST_DATA), np.uint8
    )


def _checksums(table: TableLike, data: Bytes, shift: Integers | None) -> Words:
    keys, values = table.column(KEY), table.column(VALUE)
    if shift is not None:
        keys, values = keys + shift, values + shift
    view = memoryview(data)
    low = [
        zlib.crc32(view[at : at + size]) if size >= 0 else NULL_VALUE
        for at, size in zip(values.tolist(), table.column(VALUE_SIZE).tolist(), strict=True)
    ]
    found = np.array(low, np.uint64)
    key_sizes = table.column(KEY_SIZE)
    if np.max(key_sizes) >= 0:
        high = [
            zlib.crc32(view[at : at + size], size + 1) if size >= 0 else 0
            for at, size in zip(keys.tolist(), key_sizes.tolist(), strict=True)
        ]
        found |= np.array(high, np.uint64) << np.uint64(32)
    return found
