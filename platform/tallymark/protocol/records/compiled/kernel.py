"""The compiled loops with types: what readers of records call.

::

    warm()                                     once, where a process starts that reads much
    ...
    if ready():
        batches, columns = batch_table(256), column_table(65_536)        once, used again
        found = find_batches(data, 0, batches)
        scratch, number = unpack_batches(data, batches[:found], 32 << 20)
        done = read_batches(data, scratch, batches[:number], 0, columns)
        for batch in batches[:done]:
            batch[BREAK] == WHOLE: its records are columns[:, batch[ROW] : batch[ROW] + batch[ROWS]]
            else: read it by the pure path, which says what is wrong

Until then, and where numba is not, the pure path serves:
:func:`~tallymark.protocol.records.batch.iterate_batches` and
:class:`~tallymark.protocol.records.columns.RecordColumns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from tallymark.jit.kernel import Kernel
from tallymark.protocol.records.compiled import batch_loop, record_loop
from tallymark.protocol.records.compiled.layout import BATCH_FIELDS, COLUMNS, WHOLE
from tallymark.protocol.records.compiled.primitives import integer, is_utf8, no_room, varint
from tallymark.protocol.records.reader import SMALLEST_RECORD
from tallymark.protocol.schema import Buffer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    IntArray: TypeAlias = NDArray[np.int64]

BYTES: Final = "Array(uint8, 1, 'C', readonly=True)"
"""The type of a buffer, for kernels that call these loops."""
TABLE: Final = "Array(int64, 2, 'C')"

KERNEL: Final = Kernel(
    f"{__name__}:KERNEL",
    "reading records",
    functions={
        batch_loop.find_batches: f"int64({BYTES}, int64, {TABLE})",
        record_loop.read_batches: f"int64({BYTES}, {BYTES}, {TABLE}, int64, {TABLE})",
        record_loop.read_one: f"int64({BYTES}, int64, int64, int64, int64, boolean, {TABLE})",
    },
    helpers=(
        varint,
        integer,
        no_room,
        is_utf8,
        record_loop.read_headers,
        record_loop.read_records,
    ),
)
_PAGE: Final = 512
_SPREAD: Final = 48
"""In numbers of 64 bits: the columns of a table are so far apart, modulo a page."""
warm: Final = KERNEL.warm
ready: Final = KERNEL.ready


def batch_table(batches: int) -> IntArray:
    """A table for the headers of so many batches: ``[number, FIELD]``."""
    import numpy as np

    return np.zeros((batches, BATCH_FIELDS), np.int64)


def column_table(records: int) -> IntArray:
    """A table for the columns of so many records, 88 bytes each, or a few more:
    ``[COLUMN, row]``."""
    import numpy as np

    # Columns at a multiple of a page from one another take each other's places in the processor's
    # cache (57 ns a record instead of 40), so there are some bytes more.
    return np.empty((COLUMNS, records + (_SPREAD - records) % _PAGE), np.int64)


def find_batches(data: Buffer, pos: int, batches: IntArray) -> int:
    """Write the headers of the batches from ``pos`` on: how many were found, at most as many as the
    table has rows. Stops before a batch that is cut, that no header can be, or whose offsets end
    beyond 64 bits: :func:`~tallymark.protocol.records.batch.iterate_batches` says of the rest, from
    the last NEXT on, what it is. CRCs are not checked, nothing is decompressed.
    """
    found: int = KERNEL["find_batches"](byte_array(data), pos, batches)
    if found < 0:
        raise ValueError("this is no table of batches")
    return found


def read_batches(
    data: Buffer, scratch: Buffer, batches: IntArray, first: int, columns: IntArray
) -> int:
    """Write the records of the ``batches`` from ``first`` on: the number of the batch for which
    ``columns`` had no room left, or how many there are. The next call begins there, at row 0 again;
    one that returns ``first`` needs a table of more records.

    The records of compressed batches are in ``scratch``, where
    :func:`~tallymark.protocol.records.compiled.unpack.unpack_batches` puts them. A broken batch has
    its BREAK, and no rows. Raises ValueError for tables of another shape, TypeError for other
    types.
    """
    done: int = KERNEL["read_batches"](
        byte_array(data), byte_array(scratch), batches, first, columns
    )
    if done < 0:
        raise ValueError("these are not the tables of batches and columns")
    return done


def record_columns(
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    timestamp: int | None = None,
) -> IntArray | None:
    """The columns of the ``count`` records that fill ``payload``, as
    :class:`~tallymark.protocol.records.columns.RecordColumns` reads them; None where that must, for
    it refuses them or has a number beyond 64 bits."""
    if count * SMALLEST_RECORD > len(payload):
        return None
    count = max(count, 0)
    columns = column_table(count)
    where = (base_offset, base_timestamp, timestamp or 0, timestamp is not None)
    wrong = KERNEL["read_one"](byte_array(payload), count, *where, columns)
    return columns[:, :count] if wrong == WHOLE else None


def byte_array(data: Buffer) -> NDArray[np.uint8]:
    """The bytes as the compiled loops take them: not copied, not to be written."""
    import numpy as np

    return np.frombuffer(data if type(data) is bytes else memoryview(data).toreadonly(), np.uint8)
