"""Arrow columns of tallies, from their buffers: ``pyarrow.array(list)`` imports pandas, which costs
a fresh Python worker a second or two."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def column(values: Sequence[Any], kind: pa.DataType) -> Any:
    """A column without nulls: of text, flags, signed integers, or lists of such."""
    import pyarrow as pa

    rows = len(values)
    if pa.types.is_list(kind):
        offsets = np.fromiter(accumulate(map(len, values), initial=0), np.int32, rows + 1)
        inside = column(list(chain.from_iterable(values)), kind.value_type)
        return _made(kind, rows, [offsets], [inside])
    if pa.types.is_string(kind):
        texts = [text.encode() for text in values]
        offsets = np.fromiter(accumulate(map(len, texts), initial=0), np.int32, rows + 1)
        return _made(kind, rows, [offsets, b"".join(texts)])
    if pa.types.is_boolean(kind):
        return _made(kind, rows, [np.packbits(np.array(values, np.bool_), bitorder="little")])
    return _made(kind, rows, [np.array(values, f"i{kind.bit_width // 8}")])


def _made(kind: Any, rows: int, buffers: Sequence[Any], children: Sequence[Any] = ()) -> Any:
    import pyarrow as pa

    wrapped = [None, *(pa.py_buffer(buffer) for buffer in buffers)]
    return pa.Array.from_buffers(kind, rows, wrapped, 0, 0, list(children) or None)
