"""The compiled loop over strips with types, and its tables."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any, Final

import numpy as np

from tallymark.jit.kernel import Kernel
from tallymark.protocol.records.compiled.kernel import BYTES, TABLE, byte_array
from tallymark.protocol.records.compiled.layout import ROWS
from tallymark.protocol.records.compiled.primitives import is_utf8
from tallymark_spark_jobs.counting.compiled import content_loop
from tallymark_spark_jobs.counting.compiled import strip_loop as loop
from tallymark_spark_jobs.counting.identities import Identity, Integers, identity_of
from tallymark_spark_jobs.counting.strips import Strip
from tallymark_spark_jobs.counting.tables import TableLike

KERNEL: Final = Kernel(
    f"{__name__}:KERNEL",
    "counting in Spark's tasks",
    functions={
        loop.cut_strips: (
            f"int64({BYTES}, {BYTES}, {TABLE}, Array(boolean, 1, 'C'), {TABLE}, "
            f"Array(int64, 1, 'C'), {TABLE}, Array(int64, 1, 'C'), {TABLE}, {TABLE})"
        ),
    },
    helpers=(
        is_utf8,
        loop.number_at,
        loop.is_same,
        loop.is_name,
        loop.hash_of,
        loop.is_sender,
        loop.sequence_if_same,
        loop.cell_of,
        loop.goes_on,
        loop.begin_strip,
        loop.put_in,
        content_loop.crc_of,
        content_loop.mix_one,
        content_loop.is_inside,
        content_loop.content_of,
        loop.cut_batch,
    ),
)
_FIRST_MS: Final = -(1 << 63)
_LAST_MS: Final = (1 << 63) - 1


class StripCutter:
    """Cuts the records of tables; its own memory is used again: some MB. Not thread-safe."""

    def __init__(self) -> None:
        self._slots = np.empty(0, np.int64)
        self._cells = np.empty((0, loop.CELL_FIELDS), np.int64)
        self._strips = np.empty((0, loop.STRIP_FIELDS), np.int64)

    def cut(
        self,
        table: TableLike,
        window_ms: int,
        times: tuple[int, int],
        contents: bool,
        straight: bool,
    ) -> tuple[list[Strip], list[Identity]]:
        """As :func:`tallymark_spark_jobs.counting.strips.cut`. Raises ValueError for a table that
        is none."""
        batches = np.ascontiguousarray(table.batches)
        rows = int(batches[:, ROWS].sum())
        slots = self._room(rows)
        low, high = times
        if high <= _FIRST_MS or low > _LAST_MS:
            return [], []
        rules = (window_ms, max(low, _FIRST_MS), min(high - 1, _LAST_MS), straight, contents)
        found: int = KERNEL["cut_strips"](
            byte_array(table.data),
            byte_array(table.scratch),
            batches,
            np.array(table.aborted, np.bool_),
            table.columns,
            np.array(rules, np.int64),
            crc_tables(),
            slots,
            self._cells[:rows],
            self._strips[:rows],
        )
        if found < 0:
            raise ValueError("these are not the tables of batches and columns")
        strips: list[list[int]] = self._strips[:found, : loop.NEWEST].tolist()
        cells = int(np.max(self._strips[:found, loop.CELL])) + 1 if found else 0
        return list(map(Strip._make, strips)), self._senders(table, max(cells, 0))

    def _room(self, rows: int) -> Integers:
        """Tables for so many rows; the slots, all free."""
        size = 2 << rows.bit_length()
        if rows > len(self._strips):
            self._slots = np.empty(size, np.int64)
            self._cells = np.empty((rows, loop.CELL_FIELDS), np.int64)
            self._strips = np.empty((rows, loop.STRIP_FIELDS), np.int64)
        slots = self._slots[:size]
        slots.fill(-1)
        return slots

    def _senders(self, table: TableLike, count: int) -> list[Identity]:
        """Of each cell the sender, by number; of those without stamps it means nothing."""
        views = memoryview(table.data), memoryview(table.scratch)
        rows: list[list[int]] = self._cells[:count].tolist()
        found: list[Identity] = []
        for row in rows:
            view = views[row[loop.BUFFER]]
            head = bytes(view[row[loop.HEAD] + 1 : row[loop.NUMBER]])
            server = bytes(view[row[loop.SERVER] : row[loop.STOP]])
            sender = identity_of(head, server) if row[loop.KIND] == 0 else None
            found.append(sender or Identity(0, "", ""))
        return found


@lru_cache(maxsize=1)
def crc_tables() -> Integers:
    """Row ``n``: of each byte the CRC-32 with ``n`` zero bytes behind it."""
    # zlib complements its register before and after: this shows the plain table.
    table = [zlib.crc32(bytes((byte,)), 0xFFFF_FFFF) ^ 0xFFFF_FFFF for byte in range(256)]
    rows: list[Any] = [table]
    while len(rows) < 8:
        rows.append([crc >> 8 ^ table[crc & 0xFF] for crc in rows[-1]])
    return np.array(rows, np.int64)
