"""``python guard_page.py SEEDS``: the compiled loops beside memory whose access ends the process.

Every buffer ends where a page begins that may neither be read nor written, or begins where one
ends: one byte too far, and the system ends the process (SIGSEGV). ``python guard_page.py outside``
does just that, to show that it happens.

::

    │ no access │ free ... records │ no access │       and      │ no access │ records ... │
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from random import Random
from typing import Any, Final

import numpy as np
from hostile_records import BASES, records

from tallymark.protocol.records.batch import encode_batch
from tallymark.protocol.records.compiled import checking, kernel, layout, repartition
from tallymark.protocol.records.compiled.repartition_loop import PART_AT, PART_FIELDS

PAGES: Final = 64
_NO_ACCESS: Final = 0  # PROT_NONE
_libc: Final = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Memory between two pages without access."""

    def __init__(self) -> None:
        size = PAGES * mmap.PAGESIZE
        self._map = mmap.mmap(-1, size + 2 * mmap.PAGESIZE)
        self._begin = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + mmap.PAGESIZE
        self._end = self._begin + size
        for page in (self._begin - mmap.PAGESIZE, self._end):
            if _libc.mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, _NO_ACCESS):
                raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, size: int, at_end: bool) -> Any:
        """So many bytes beside the guard, as an array."""
        begin = self._end - size if at_end else self._begin
        return np.frombuffer((ctypes.c_uint8 * size).from_address(begin), np.uint8)

    def bytes(self, data: bytes, at_end: bool) -> Any:
        """The data there, as the loops get it."""
        array = self.place(len(data), at_end)
        array[:] = np.frombuffer(data, np.uint8)
        array.flags.writeable = False
        return array

    def table(self, rows: int, columns: int) -> kernel.IntArray:
        """A table whose last number ends at the guard."""
        found: kernel.IntArray = self.place(rows * columns * 8, True).view(np.int64)
        return found.reshape(rows, columns)


def copy_by_key(random: Random, array: Any, columns: kernel.IntArray, out: Guarded) -> int:
    """With the columns as they were read, or with wrong numbers in them; whether it was done."""
    count = columns.shape[1]
    for _ in range(random.choice((0, 0, 1, 3))):
        wrong = random.choice((-1, 0, 1, len(array) - 1, len(array), len(array) + 1, *BASES))
        columns[random.randrange(layout.COLUMNS), random.randrange(count)] = wrong
    targets = np.empty(count, np.int64)
    parts = np.zeros((random.choice((1, 3)), PART_FIELDS), np.int64)
    where = (array, columns, count)
    choose, copy = (repartition.KERNEL[name] for name in ("choose_partitions", "copy_records"))
    if choose(*where, random.choice(BASES), 0, targets, parts) < 0:
        return 0
    sizes = parts[:, 1]
    room = int(sizes.sum())
    parts[:, PART_AT] = sizes.cumsum() - sizes
    if random.random() < 0.2:
        parts[0, PART_AT] = random.choice((-1, 1, room, *BASES))
        copy(*where, targets, parts, out.place(room, True))
        return 0
    assert copy(*where, targets, parts, out.place(room, random.random() < 0.5)) == 0
    return 1


def main(what: str) -> None:
    kernel.warm()
    repartition.warm()
    checking.warm()
    assert checking.KERNEL.wait(250)
    assert kernel.KERNEL.wait(250)
    assert repartition.KERNEL.wait(250)
    data, columns, batches, out = Guarded(), Guarded(), Guarded(), Guarded()
    read_one, read_batches = kernel.KERNEL["read_one"], kernel.KERNEL["read_batches"]
    find_batches, check_records = kernel.KERNEL["find_batches"], checking.KERNEL["check_records"]
    if what == "outside":
        ctypes.string_at(data.bytes(b"x", True).ctypes.data, 2)
    whole = copied = 0
    for seed in range(int(what)):
        random = Random(seed)
        payload, count = records(random)
        at_end = seed % 2 == 0
        array = data.bytes(payload, at_end)
        check_records(array, count, count + random.randrange(-1, 9))
        room = max(0, min(count, 200))
        table = columns.table(layout.COLUMNS, room)
        wrong = read_one(array, count, 0, random.choice(BASES), 0, False, table)
        whole += wrong == layout.WHOLE
        if wrong == layout.WHOLE and count > 0:
            copied += copy_by_key(random, array, table, out)
        plan = batches.table(1, layout.BATCH_FIELDS)
        plan[0] = [random.choice((0, 1, len(payload), *BASES)) for _ in range(layout.BATCH_FIELDS)]
        if seed % 3:
            plan[0, : layout.COUNT + 1] = 0, len(payload), random.randrange(2), count
        read_batches(array, array, plan, 0, table)
        if payload and 0 < count < 100:
            fetch = bytearray(encode_batch([(None, payload, (), 0)] * min(count, 9)) * 2)
            for _ in range(random.randrange(3)):
                fetch[random.randrange(len(fetch))] = random.randrange(256)
            cut = random.randrange(len(fetch))
            array = data.bytes(bytes(fetch[cut:] if seed % 5 else fetch[:cut]), at_end)
            plan = batches.table(2, layout.BATCH_FIELDS)
            found = find_batches(array, 0, plan)
            read_batches(array, array, plan[:found], 0, table)
    print(f"{copied} copied, {whole} whole")


if __name__ == "__main__":
    main(sys.argv[1])
