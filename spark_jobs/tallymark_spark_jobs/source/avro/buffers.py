"""Arrow arrays out of lists of Python values, with nulls, straight from their buffers.

``pyarrow.array(list)`` imports pandas (see :mod:`tallymark_spark_jobs.source.columns`); numpy is
loaded anyway and says by an exception which value does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa


def numbers(kind: pa.DataType, dtype: str, values: Sequence[Any]) -> Any:
    """A column of fixed width. Raises OverflowError, TypeError or ValueError where a value is none
    of the ``dtype`` of numpy."""
    nulls = values.count(None)
    plain = [0 if value is None else value for value in values] if nulls else values
    return made(kind, len(values), nulls, [validity(values, nulls), np.array(plain, dtype)])


def booleans(values: Sequence[bool | None]) -> Any:
    """One bit a value."""
    nulls = values.count(None)
    bits = np.packbits(np.array([bool(value) for value in values], bool), bitorder="little")
    return made(pa.bool_(), len(values), nulls, [validity(values, nulls), bits])


def texts(values: Sequence[str | None]) -> Any:
    """Raises UnicodeEncodeError where a text cannot be UTF-8."""
    return variable(pa.string(), [None if value is None else value.encode() for value in values])


def variable(kind: pa.DataType, values: Sequence[bytes | None]) -> Any:
    """Binary, or text that is UTF-8 already."""
    nulls = values.count(None)
    plain: Sequence[Any] = [value or b"" for value in values] if nulls else values
    found = [validity(values, nulls), offsets(list(map(len, plain))), b"".join(plain)]
    return made(kind, len(values), nulls, found)


def decimals(kind: Any, values: Sequence[int | None]) -> Any:
    """Of the numbers without their point. Raises ValueError where one has too many digits."""
    nulls = values.count(None)
    limit = 10**kind.precision
    plain = [value or 0 for value in values]
    for value in plain:
        if not -limit < value < limit:
            raise ValueError(f"a decimal has more than {kind.precision} digits")
    data = b"".join([value.to_bytes(16, "little", signed=True) for value in plain])
    return made(kind, len(values), nulls, [validity(values, nulls), data])


def lists(kind: pa.DataType, values: Sequence[Sequence[Any] | None], items: Any) -> Any:
    """Lists or maps: ``items`` holds the items of all values, one after the other."""
    nulls = values.count(None)
    sizes = [0 if value is None else len(value) for value in values]
    return made(kind, len(values), nulls, [validity(values, nulls), offsets(sizes)], [items])


def structs(kind: pa.DataType, present: Sequence[object | None], children: Sequence[Any]) -> Any:
    """``present``: None where the struct itself is null; the children have a row there too."""
    nulls = present.count(None)
    return made(kind, len(present), nulls, [validity(present, nulls)], children)


def validity(values: Sequence[object | None], nulls: int) -> Any:
    """One bit a value, least significant first, 1 = there; None where all are."""
    if not nulls:
        return None
    return np.packbits([value is not None for value in values], bitorder="little")


def offsets(sizes: Sequence[int]) -> Any:
    """int32, one more than there are sizes. Raises OverflowError beyond 2 GiB."""
    return np.array(list(accumulate(sizes, initial=0)), "<i4")


def made(
    kind: pa.DataType, rows: int, nulls: int, parts: Sequence[Any], children: Sequence[Any] = ()
) -> Any:
    """The array of these buffers."""
    wrapped = [None if part is None else pa.py_buffer(part) for part in parts]
    return pa.Array.from_buffers(kind, rows, wrapped, nulls, 0, list(children) or None)
