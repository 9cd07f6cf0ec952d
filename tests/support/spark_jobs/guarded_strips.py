"""``python guarded_strips.py SEEDS``: the compiled loop over strips beside memory that nobody may
touch (:mod:`guard_page`). Half of the tables have wrong numbers in them."""

from __future__ import annotations

import sys
from random import Random

import numpy as np
from guard_page import Guarded
from hostile_records import BASES
from three_ways import hostile_log, warm

from tallymark.protocol.records.compiled import kernel as records
from tallymark.protocol.records.compiled import layout
from tallymark_spark_jobs.counting.compiled.kernel import KERNEL, crc_tables
from tallymark_spark_jobs.counting.compiled.strip_loop import CELL_FIELDS, STRIP_FIELDS

_ROOM = 400


def damage(random: Random, table: records.IntArray, near: int) -> None:
    """Write a few wrong numbers into a table."""
    for _ in range(random.choice((0, 0, 1, 4)) if table.size else 0):
        wrong = random.choice((-1, 0, 1, 2, near - 1, near, near + 1, *BASES))
        table[random.randrange(table.shape[0]), random.randrange(table.shape[1])] = wrong


def main(seeds: int) -> None:
    warm()
    crcs = crc_tables()
    data, columns, slots, cells, strips = (Guarded() for _ in range(5))
    whole = 0
    for seed in range(seeds):
        random = Random(seed)
        log, _ = hostile_log(random)
        fetch = b"".join(batch.data for batch, _ in log.batches)[: 60 * 4096]
        array = data.bytes(fetch, seed % 2 == 0)
        batches = records.batch_table(8)
        found = records.KERNEL["find_batches"](array, 0, batches)
        table = columns.table(layout.COLUMNS, random.choice((_ROOM, 70)))
        done = records.KERNEL["read_batches"](array, array, batches[:found], 0, table)
        damage(random, batches, len(fetch))
        damage(random, table, len(fetch))
        rows = random.choice((0, 1, 5, table.shape[1]))
        room = slots.table(1, 2 << rows.bit_length())[0]
        room.fill(-1)
        times = random.choice(((0, 5000), (-(1 << 63), (1 << 63) - 1)))
        window = random.choice((1000, 1, BASES[3]))
        rules = np.array((window, *times, random.randrange(2), random.randrange(2)), np.int64)
        aborted = np.array([random.random() < 0.3 for _ in range(8)], np.bool_)
        made = strips.table(rows, STRIP_FIELDS)
        tables = (crcs, room, cells.table(rows, CELL_FIELDS), made)
        cut = KERNEL["cut_strips"](array, array, batches[:done], aborted, table, rules, *tables)
        whole += cut >= 0
    print(f"{whole} whole")


if __name__ == "__main__":
    main(int(sys.argv[1]))
