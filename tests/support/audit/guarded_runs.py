"""``python guarded_runs.py SEEDS``: the compiled loops over runs beside memory that nobody may
touch (:mod:`guard_page`). Half of the tables have wrong numbers in them."""

from __future__ import annotations

import sys
from random import Random

from guard_page import Guarded
from hostile_fetches import hostile_fetch
from hostile_records import BASES

from tallymark.protocol.records.compiled import kernel as records
from tallymark.protocol.records.compiled import layout
from tallymark_audit.collector.counting.readable import in_order
from tallymark_audit.model.compiled_runs import cutter, kernel
from tallymark_audit.model.compiled_runs.layout import BLOCK_FIELDS, RUN_FIELDS, SKETCH_FIELDS

_ROOM = 400


def damage(random: Random, table: records.IntArray, near: int) -> None:
    """Write a few wrong numbers into a table."""
    for _ in range(random.choice((0, 0, 1, 4)) if table.size else 0):
        wrong = random.choice((-1, 0, 1, 2, near - 1, near, near + 1, *BASES))
        table[random.randrange(table.shape[0]), random.randrange(table.shape[1])] = wrong


def main(seeds: int) -> None:
    assert cutter.warm()
    loops, bounds, tables = kernel.KERNEL, kernel.sketch_bounds(), kernel.crc_tables()
    data, columns, runs, sketches, blocks = (Guarded() for _ in range(5))
    whole = 0
    for seed in range(seeds):
        random = Random(seed)
        fetched, _ = hostile_fetch(random)
        fetch = b"".join(batch.data for batch in in_order(fetched))[: 60 * 4096]
        array = data.bytes(fetch, seed % 2 == 0)
        batches = records.batch_table(8)
        found = records.KERNEL["find_batches"](array, 0, batches)
        table = columns.table(layout.COLUMNS, random.choice((_ROOM, 70)))
        done = records.KERNEL["read_batches"](array, array, batches[:found], 0, table)
        room = table.shape[1]
        made = runs.table(room, RUN_FIELDS)
        damage(random, batches, len(fetch))
        damage(random, table, len(fetch))
        times = random.choice(((1000, 5000, 0), (1, BASES[3], BASES[6]), (BASES[3], 0, 0)))
        cut = loops["cut_runs"](array, array, batches, 0, done, table, made, *times)
        if cut < 0:
            continue
        damage(random, made[:cut], len(fetch))
        seen_at = random.choice((-1, 6000, *BASES))
        cut = max(0, loops["join_runs"](array, array, batches, made, cut, seen_at))
        damage(random, made[:cut], len(fetch))
        sketch, block = sketches.table(room, SKETCH_FIELDS), blocks.table(room, BLOCK_FIELDS)
        first = loops["sketch_runs"](made, cut, table, seen_at, bounds, sketch)
        second = loops["hash_runs"](array, array, batches, made, cut, table, tables, block)
        whole += first >= 0 and second >= 0
    print(f"{whole} whole")


if __name__ == "__main__":
    main(int(sys.argv[1]))
