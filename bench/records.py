"""What reading a record costs, by the pure path and by the compiled loops; and what these cost.

    python bench/records.py [--records 100000] [--rounds 5] [--json FILE]

Stamped records of 200 bytes, or of 100 to 300, in fetches of about 1 MiB, uncompressed. All ways
end with offsets, timestamps, sizes and stamps as columns:

* ``pure``: ``iterate_batches`` and ``RecordColumns``, with the columns made;
* ``batch by batch``: ``iterate_batches`` and ``record_columns``, a table for each batch;
* ``fetch``: ``find_batches`` and ``read_batches``, into two tables that are used again.

The ways take turns; the medians of the rounds are printed, in nanoseconds a record. Below that: the
time until the loops are ready, in processes of their own, and the memory of these.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from support.measure import machine, table

from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark.protocol.records.batch import HEADER_SIZE, encode_batch, iterate_batches
from tallymark.protocol.records.compiled import kernel, layout

_FETCH: Final = 1 << 20
_ROWS: Final = 1 << 16
_BATCHES: Final = (1, 50, 70, 500)
_START: Final = """
import sys, time
def memory():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
from tallymark.protocol.records.compiled import kernel
import numpy
before, begin = memory(), time.perf_counter()
if "--import" in sys.argv:
    import numba, numba.core.compiler
else:
    kernel.warm()
    assert kernel.KERNEL.wait()
print(time.perf_counter() - begin, memory() - before)
"""


def fetches(count: int, batch: int, differ: bool) -> list[bytes]:
    """``count`` records in fetches."""
    rng = random.Random(1)
    found: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for first in range(0, count, batch):
        rows = [
            (
                None,
                bytes(rng.randint(100, 300) if differ else 200),
                [("tm", encode_stamp(Stamp(b"instance", 3, number, "server-1")))],
                1_700_000_000_000 + number // 50,
            )
            for number in range(first, first + batch)
        ]
        parts.append(encode_batch(rows, base_offset=first))
        size += len(parts[-1])
        if size >= _FETCH:
            found.append(b"".join(parts))
            parts, size = [], 0
    return [*found, b"".join(parts)]


def pure(data: bytes) -> int:
    """How many records were read."""
    count = 0
    for batch in iterate_batches(data):
        columns = batch.columns()
        sizes, stamps = columns.sizes(), columns.last_headers("tm")
        count += min(len(columns.timestamps), len(columns.offsets), len(sizes), len(stamps))
    return count


def batch_by_batch(data: bytes) -> int:
    """How many records were read."""
    count = 0
    for batch in iterate_batches(data):
        header = batch.header
        columns = kernel.record_columns(
            batch.data[HEADER_SIZE:],
            header.record_count,
            header.base_offset,
            header.base_timestamp,
        )
        assert columns is not None
        count += columns.shape[1]
    return count


def whole_fetch(data: bytes, batches: kernel.IntArray, columns: kernel.IntArray) -> int:
    """How many records were read."""
    count = pos = 0
    while found := kernel.find_batches(data, pos, batches):
        first, some = 0, batches[:found]
        while first < found:
            first = kernel.read_batches(data, b"", some, first, columns)
        assert not some[:, layout.BREAK].any()
        count += int(some[:, layout.ROWS].sum())
        pos = int(some[-1, layout.NEXT])
    return count


def measure(count: int, rounds: int) -> list[dict[str, Any]]:
    """A row of the table for each kind of batch."""
    batches, columns = kernel.batch_table(1024), kernel.column_table(_ROWS)
    ways: dict[str, Callable[[bytes], int]] = {
        "pure": pure,
        "batch by batch": batch_by_batch,
        "fetch": lambda data: whole_fetch(data, batches, columns),
    }
    rows: list[dict[str, Any]] = []
    for batch in _BATCHES:
        for differ in (False, True):
            log = fetches(count, batch, differ)
            total = sum(map(pure, log))
            taken: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(rounds):
                for name, read in ways.items():
                    begin = time.perf_counter()
                    assert sum(map(read, log)) == total
                    taken[name].append((time.perf_counter() - begin) / total * 1e9)
            sizes = "100 to 300 B" if differ else "200 B"
            figures = {f"{name}, ns": round(median(some)) for name, some in taken.items()}
            rows.append({"records a batch": batch, "value": sizes, **figures})
    return rows


def starts(rounds: int) -> list[dict[str, Any]]:
    """How long a process waits for the loops, and its memory for them."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for what, arguments, fresh in (
            ("import numba", ["--import"], False),
            ("compiled for the first time", [], True),
            ("loaded from the cache, import included", [], False),
        ):
            results: list[tuple[float, float]] = []
            for number in range(rounds):
                cache = Path(folder, f"{number}" if fresh else "kept")
                results.append(_start(arguments, cache))
            seconds, memory = (median(some) for some in zip(*results, strict=True))
            rows.append({"start": what, "seconds": f"{seconds:.2f}", "MB": round(memory)})
    return rows


def _start(arguments: Sequence[str], cache: Path) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", _START, *arguments],
        env=os.environ | {"TALLYMARK_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def _table(rows: Sequence[dict[str, Any]]) -> str:
    return table([list(rows[0]), *([str(each) for each in row.values()] for row in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    kernel.warm()
    if not kernel.KERNEL.wait():
        raise SystemExit("the loops are not compiled here; the log line above says why")
    print(machine())
    read = measure(arguments.records, arguments.rounds)
    print(_table(read))
    started = starts(min(3, arguments.rounds))
    print(_table(started))
    if arguments.json:
        result: dict[str, Any] = {"machine": machine(), "records": read, "starts": started}
        arguments.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
