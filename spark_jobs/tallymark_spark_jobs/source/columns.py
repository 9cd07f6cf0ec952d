"""Arrow columns straight from lists and arrays.

``pyarrow.array(list)`` imports pandas to ask whether the list is one of its series: one to two
seconds in every fresh Python worker, more than a small job has to count. Columns are therefore
built from their buffers, as the Arrow columnar format lays them out::

    int       values          fixed width, one after the other
    string    offsets | data  int32 offsets (n + 1), then all the bytes
    nullable  validity | ...  one bit a row, least significant first, 1 = there
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_WIDTHS = {"int8": "b", "int32": "i", "int64": "q"}
_MOST: Final = (1 << 63) - 1


def integers(values: Sequence[int | None], kind: pa.DataType) -> Any:
    """An int8, int32, int64 or timestamp column; None is null."""
    code = _WIDTHS.get(str(kind), "q")
    nulls = values.count(None)
    if nulls:
        plain = array(code, [0 if value is None else value for value in values])
        return _made(kind, len(values), nulls, [_validity(values), plain])
    return _made(kind, len(values), 0, [None, array(code, cast("Sequence[int]", values))])


def numbers(values: NDArray[Any], kind: pa.DataType, valid: NDArray[np.bool_] | None = None) -> Any:
    """A column of an array whose type has the width of ``kind``; where ``valid`` is false there is
    null."""
    if valid is None or valid.all():
        return _made(kind, len(values), 0, [None, np.ascontiguousarray(values)])
    bits = np.packbits(valid, bitorder="little")
    nulls = len(values) - int(valid.sum())
    return _made(kind, len(values), nulls, [bits, np.ascontiguousarray(values)])


def joined(parts: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """All numbers as one array; those that 64 bits cannot hold become the last ones they can."""
    return np.concatenate([_array(part) for part in parts]) if parts else np.zeros(0, np.int64)


def _array(part: Sequence[int]) -> NDArray[np.int64]:
    if isinstance(part, range):
        return np.arange(part.start, part.stop, dtype=np.int64)
    try:
        return np.array(part, np.int64)
    except OverflowError:
        return np.array([max(-_MOST - 1, min(number, _MOST)) for number in part], np.int64)


def booleans(values: Sequence[bool]) -> Any:
    """A column without nulls, a bit a row."""
    bits = np.packbits(np.array(values, np.bool_), bitorder="little")
    return _made(pa.bool_(), len(values), 0, [None, bits])


def constant(value: str, rows: int) -> Any:
    """A string column of one value."""
    return repeated([(value.encode(), rows)])


def repeated(values: Sequence[tuple[bytes, int]]) -> Any:
    """A string column of values that are UTF-8 already, each so many times."""
    counts = np.array([count for _, count in values], np.int64)
    sizes = np.repeat(np.array([len(value) for value, _ in values], np.int32), counts)
    data = b"".join([value * count for value, count in values])
    return _made(pa.string(), len(sizes), 0, [None, _offsets(sizes), data])


def packed(data: bytes, sizes: NDArray[Any]) -> Any:
    """A binary column of all bytes one after the other; a size of -1 is null."""
    valid = sizes >= 0
    nulls = len(sizes) - int(valid.sum())
    bits = np.packbits(valid, bitorder="little") if nulls else None
    offsets = _offsets(np.maximum(sizes, 0) if nulls else sizes)
    return _made(pa.binary(), len(sizes), nulls, [bits, offsets, data])


def _offsets(sizes: NDArray[Any]) -> NDArray[np.int32]:
    # Arrow's binary and string columns count their bytes in int32; readers keep batches far below.
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def strings(values: Sequence[str]) -> Any:
    """A string column without nulls."""
    return utf8([value.encode() for value in values])


def utf8(values: Sequence[bytes]) -> Any:
    """A string column without nulls, of values that are UTF-8 already."""
    return _variable(pa.string(), values)


def binaries(values: Sequence[bytes | memoryview | None]) -> Any:
    """A binary column; None is null."""
    nulls = values.count(None)
    if not nulls:
        return _variable(pa.binary(), values)  # type: ignore[arg-type] # no None left
    if nulls == len(values):
        offsets = np.zeros(nulls + 1, np.int32)
        return _made(pa.binary(), nulls, nulls, [bytes((nulls + 7) // 8), offsets, b""])
    plain = [b"" if value is None else value for value in values]
    return _variable(pa.binary(), plain, nulls, _validity(values))


def lists(kind: pa.DataType, sizes: Sequence[int | None], items: Any) -> Any:
    """A list column: ``sizes[row]`` of the ``items`` column belong to the row; None is null."""
    nulls = sizes.count(None)
    offsets = array("i", accumulate((size or 0 for size in sizes), initial=0))
    buffers = [_validity(sizes) if nulls else None, offsets]
    return _made(kind, len(sizes), nulls, buffers, [items])


def structs(kind: pa.DataType, children: Sequence[Any]) -> Any:
    """A struct column without nulls."""
    return _made(kind, len(children[0]), 0, [None], children)


def _variable(
    kind: pa.DataType, values: Sequence[bytes | memoryview], nulls: int = 0, validity: Any = None
) -> Any:
    offsets = array("i", accumulate(map(len, values), initial=0))
    return _made(kind, len(values), nulls, [validity, offsets, b"".join(values)])


def _validity(values: Sequence[object]) -> bytes:
    bits = bytearray((len(values) + 7) // 8)
    for row, value in enumerate(values):
        if value is not None:
            bits[row >> 3] |= 1 << (row & 7)
    return bytes(bits)


def _made(
    kind: pa.DataType, rows: int, nulls: int, buffers: Sequence[Any], children: Sequence[Any] = ()
) -> Any:
    wrapped = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, rows, wrapped, nulls, 0, list(children) or None)
