"""Checks the records of a batch without decoding them, and describes what is wrong.

:mod:`tallymark.protocol.records.walk` does the work. With the compiled copy of that module (``make
kernel``), :data:`COMPILED` is true and a record costs about 40 ns; without it about 0.6 us.
"""

from __future__ import annotations

import importlib
import zlib
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records import walk as record_walk
from tallymark.protocol.records.compression import CODECS
from tallymark.protocol.records.reader import SMALLEST_RECORD
from tallymark.protocol.schema import Buffer

try:
    _kernel: Any = importlib.import_module("tallymark.protocol.records.walk_compiled")
except ImportError:
    _kernel = record_walk
COMPILED: Final = _kernel is not record_walk
"""Whether the record kernel is compiled."""

QUICK: Final = 20_480
"""Bytes of a batch that :func:`is_whole` checks: all of a batch of 16 KB, as producers make
them."""
_PIECE: Final = 32_768
"""The kernel gets copies of so many bytes: larger copies would be new memory each time, which costs
more than everything else."""
_NONE: Final = 1 << 70
_Found: TypeAlias = tuple[int, int, int, int]
_DENSEST: Final = {"none": 1, "gzip": 1032, "snappy": 22, "lz4": 255, "zstd": 32_768}
"""How many bytes one compressed byte can hold at most: DEFLATE has 258 bytes in two bits, Snappy 64
bytes in three, LZ4 255 in one more of a length, Zstandard 128 KiB in a block of four."""
_WHY: Final = {
    record_walk.RUNS_OVER: "it runs over the end of the batch",
    record_walk.BAD_VARINT: "it has a number without an end",
    record_walk.BAD_OFFSET: "its offset is not the next one",
    record_walk.BAD_KEY: "its key is longer than the record, or has an impossible length",
    record_walk.BAD_VALUE: "its value is longer than the record, or has an impossible length",
    record_walk.BAD_HEADERS: "its headers are more or longer than the record",
    record_walk.BAD_HEADER_KEY: "the key of a header is no UTF-8, or longer than the record",
    record_walk.BAD_END: "its fields do not end where its length says",
}


def is_stale() -> bool:
    """Whether the compiled kernel was built from another source than the one beside it."""
    return COMPILED and zlib.crc32(Path(record_walk.__file__).read_bytes()) != _kernel.SOURCE


class BadRecordError(CorruptRecordError):
    """A record of a batch is invalid. ``record`` is its number, from 0 on; None where the batch as
    a whole is invalid."""

    def __init__(self, why: str, record: int | None = None) -> None:
        super().__init__(why if record is None else f"record {record}: {why}")
        self.record = record
        self.why = why


def check_count(codec: str, size: int, count: int) -> None:
    """Raise BadRecordError where ``size`` bytes, compressed by ``codec``, cannot hold ``count``
    records, whatever they are."""
    if count * SMALLEST_RECORD > size * _DENSEST[codec]:
        packed = "" if codec == CODECS[0] else f" of {codec}"
        raise BadRecordError(f"{count} records cannot stand in {size} bytes{packed}")


def is_whole(batch: Buffer, start: int, count: int) -> bool:
    """Whether ``count`` records seem to fill the batch from ``start`` on, in the time that an
    append can spare (3 %): with the kernel all records of the first :data:`QUICK` bytes are
    checked, without it the beginning of the first one. False: call :func:`check_records`.
    """
    if not COMPILED:
        return _begins_well(batch, start, count)
    if len(batch) <= QUICK:
        whole: bool = _kernel.is_whole(bytes(batch), start, count)
        return whole
    found: _Found = _kernel.walk(bytes(batch[:QUICK]), start, count, count - 1, count)
    wrong, number, _, _ = found
    return wrong == record_walk.RUNS_OVER and (number > 0 or _begins_well(batch, start, count))


def _begins_well(batch: Buffer, pos: int, count: int) -> bool:
    """Whether length, offset and key of the first record fit, and are written as usual."""
    size = len(batch)
    if size - pos < SMALLEST_RECORD * count:
        return False
    length = batch[pos]
    pos += 1
    if length >= 0x80:
        try:
            length, pos = record_walk.unsigned(cast("bytes", batch), pos - 1)
        except ValueError:
            return False
    end = pos + (length >> 1)
    if length & 1 or (end != size if count == 1 else end >= size) or batch[pos + 1] >= 0x80:
        return False
    key = batch[pos + 3]
    return not batch[pos + 2] and (key == 1 or (not key & 0x81 and pos + 4 + (key >> 1) < end))


def check_records(payload: Buffer, count: int, last_delta: int, *, start: int = 0) -> None:
    """Raise BadRecordError unless ``payload`` is from ``start`` on ``count`` whole records and
    nothing else, the last of which has at most the offset delta ``last_delta``. Takes almost no
    memory.
    """
    if len(payload) <= _PIECE:
        found: _Found = _kernel.walk(bytes(payload), start, count, last_delta, count)
    else:
        found = _in_pieces(memoryview(payload), start, count, last_delta)
    if found[0]:
        wrong, record, _, _ = found
        if wrong == record_walk.BYTES_LEFT:
            raise BadRecordError(f"bytes follow the last of {count} records")
        raise BadRecordError(_WHY[wrong], record)


def _in_pieces(data: memoryview, pos: int, count: int, last_delta: int) -> _Found:
    """The same as one walk over all of ``data``."""
    number = least = 0
    while True:
        piece = bytes(data[pos : pos + _PIECE])
        found: _Found = _kernel.walk(piece, 0, count, last_delta, count, number, least)
        wrong, number, least, stopped = found
        last = pos + len(piece) == len(data)
        pos += stopped
        if wrong != record_walk.RUNS_OVER or last:
            return found
        if stopped == 0:  # a record that is longer than the piece is checked in place
            view = cast("bytes", data)
            found = record_walk.walk(view, pos, count, last_delta, number + 1, number, least)
            wrong, number, least, pos = found
            if wrong or number == count:
                return found


def keyless_records(payload: Buffer, count: int, most: int) -> list[int]:
    """The numbers of the records without a key, of records that were checked before: the first
    ``most``."""
    keyless, _, _ = _kernel.scan(bytes(payload), count, True, 0, -_NONE, _NONE, most)
    return cast("list[int]", keyless)


def untimely_records(
    payload: Buffer, count: int, base: int, oldest: int, newest: int, most: int
) -> list[tuple[int, int]]:
    """(place, timestamp) of the records, checked before, whose timestamp is not from ``oldest`` to
    ``newest``: the first ``most``. Records without one (-1) are left out. ``base`` is the batch's
    base timestamp; all in ms."""
    least, greatest = oldest - base, newest - base
    _, found, _ = _kernel.scan(bytes(payload), count, False, -base, least, greatest, most)
    return [(place, base + delta) for place, delta in found]


def find_record(
    payload: Buffer, count: int, start: int, since: int | None
) -> tuple[int, int] | None:
    """(offset delta, timestamp delta) of the first of the records, checked before, that has an
    offset delta of ``start`` or more and a timestamp delta of ``since`` or more; without ``since``
    the first of those that have the greatest timestamp. None where there is none."""
    least = -_NONE if since is None else since
    found = _kernel.search(bytes(payload), count, start, least, since is None)
    return None if found[0] < 0 else cast("tuple[int, int]", found)


def greatest_delta(payload: Buffer, count: int) -> int:
    """The greatest timestamp delta of the records, checked before; 0 where there are none."""
    _, _, greatest = _kernel.scan(bytes(payload), count, False, 0, -_NONE, _NONE, 0)
    return cast("int", greatest)
