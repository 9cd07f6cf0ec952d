"""How many stamped records a second a collector counts on one core, and what a cell costs.

    python bench/collector.py [--records 500000] [--rounds 5] [--json FILE]

The log is in memory, with values of 200 bytes, in batches as producers make them (16 KiB). Each
round does all the work of a collector with a fetch response: it checks the CRCs, counts, and
commits to a SQLite file of its own. ``one producer``: all batches are of one producer; ``64
producers``: the batches of 64 producers in turn; ``sizes differ``: the same with values of 100 to
300 bytes; ``mixed batches``: as a mirror makes them, a few records of each producer in each batch.
``one record a batch``: as producers that do not wait make them. ``content``: with the content
check on. Each case is counted by the pure path and by the compiled loops
(:mod:`tallymark_audit.model.compiled_runs`) in turn, where numba is. Time is the process's CPU
time; the median and the best of the rounds are printed, and the largest memory (RSS) of a process
that counts in each way. Memory of cells is that of open ones, each of another producer, as
measured by ``tracemalloc``.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, cast
from uuid import UUID

from support.measure import machine, table

from tallymark.client import Fetched, FetchSpec
from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark.protocol.records.batch import encode_batch, iterate_batches
from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.collector.counting import fetch_runs
from tallymark_audit.model.compiled_runs.cutter import warm
from tallymark_audit.model.log_reader import LogReader
from tallymark_audit.store import open_store
from tallymark_audit.testing import MemoryTopic

_VALUE: Final = b"v" * 300
_BATCH: Final = 70
"""Records of 200 bytes in 16 KiB."""
_FETCH: Final = 60
"""Batches in a fetch of 1 MiB."""
_WINDOW_MS: Final = 60_000
_CELLS: Final = (1_000, 2_000, 8_000)
_RATE: Final = 50
"""Records per millisecond of their timestamps."""


@dataclass
class PreparedLog:
    """One partition with prepared fetch responses, as bytes."""

    answers: list[tuple[int, int, bytes]]
    """(first offset, offset after the last record, bytes)"""

    @property
    def end(self) -> int:
        return self.answers[-1][1]

    def topics(self) -> Mapping[str, MemoryTopic]:
        return {"bench": MemoryTopic("bench", UUID(int=1), (0,))}

    def topics_named(self, names: Iterable[str]) -> Mapping[str, MemoryTopic]:
        return {name: topic for name, topic in self.topics().items() if name in set(names)}

    def multifetch(self, specs: Sequence[FetchSpec], **_: Any) -> list[Fetched]:
        (spec,) = specs
        for start, behind, data in self.answers:
            if start == spec.offset:
                batches = list(iterate_batches(data))
                for batch in batches:
                    batch.check_crc()
                return [Fetched("bench", 0, start, self.end, 0, batches, behind, 0)]
        return [Fetched("bench", 0, spec.offset, self.end, 0, (), spec.offset, 0)]


def batches(
    records: int, producers: int, mixed: bool, batch: int = _BATCH
) -> Iterator[list[Stamp]]:
    """The stamps of each batch."""
    instances = [b"%08d" % number for number in range(producers)]
    sequences = [0] * producers
    turn = 0
    for _ in range(records // batch):
        stamps: list[Stamp] = []
        while len(stamps) < batch:
            number = turn % producers
            turn += 1
            count = batch // 7 if mixed else batch
            first = sequences[number]
            sequences[number] += count
            name = f"web-{number:03d}"
            stamps += [Stamp(instances[number], 0, first + i, name) for i in range(count)]
        yield stamps


def prepared(
    records: int,
    producers: int = 1,
    mixed: bool = False,
    sizes: tuple[int, int] = (200, 200),
    batch: int = _BATCH,
) -> PreparedLog:
    rng = random.Random(1)
    now = time.time_ns() // 1_000_000 - records // _RATE
    now -= now % _WINDOW_MS
    answers: list[tuple[int, int, bytes]] = []
    offset = start = 0
    parts: list[bytes] = []
    for stamps in batches(records, producers, mixed, batch):
        found = [
            (
                None,
                _VALUE[: rng.randint(*sizes)],
                (("tm", encode_stamp(stamp)),),
                now + (offset + at) // _RATE,
            )
            for at, stamp in enumerate(stamps)
        ]
        parts.append(encode_batch(found, base_offset=offset, leader_epoch=0))
        offset += len(found)
        if len(parts) == _FETCH * _BATCH // batch:
            answers.append((start, offset, b"".join(parts)))
            start, parts = offset, []
    if parts:
        answers.append((start, offset, b"".join(parts)))
    return PreparedLog(answers)


def rate(log: PreparedLog, **settings: Any) -> float:
    """Records counted per second of CPU time."""
    with _collector(log, window_ms=_WINDOW_MS, **settings) as collector:
        began = time.process_time()
        drain(collector, log)
        return log.end / (time.process_time() - began)


def bytes_of(cells: int) -> int:
    """The bytes of memory of so many open cells."""
    log = prepared(cells * _BATCH // 7, producers=cells, mixed=True)
    with _collector(log, window_ms=10**15, max_new_runs=0) as collector:
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        drain(collector, log)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return held - before


def _ways() -> Iterator[str]:
    yield "pure"
    if warm():
        yield "compiled"


def _peak_of(way: str) -> float:
    """:func:`_peak` in a process of its own."""
    command = [sys.executable, __file__, "--peak", way]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _peak(way: str) -> float:
    """The largest memory (MB) of a process that counts; 20 MB of it are the logs."""
    logs = [prepared(30_000, 64, mixed=mixed) for mixed in (False, True)]
    assert way == "pure" or warm()
    for log in logs:
        rate(log, content_check=True)
    # Not ru_maxrss, which counts the process that started this one, too.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def _by(way: str) -> Iterator[None]:
    found = fetch_runs.ready
    if way == "pure":
        fetch_runs.ready = lambda: False
    try:
        yield
    finally:
        fetch_runs.ready = found


@contextmanager
def _collector(log: PreparedLog, **settings: Any) -> Iterator[Collector]:
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/a.db") as store:
        made = CollectorSettings("bench", max_wait_ms=0, **settings)
        collector = Collector(store, cast("LogReader", log), made, "bench")
        collector.start()
        yield collector


def drain(collector: Collector, log: PreparedLog) -> None:
    """Run the collector until all records are committed."""
    while collector.counters.records < log.end:
        collector.step()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--parts", action="store_true", help="where the time goes, instead")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        print(_peak(args.peak))
        return 0
    if args.parts:
        from support.audit import collector_parts  # it measures what is in this module

        collector_parts.report(args.records, args.rounds, args.json)
        return 0
    logs = {
        "one producer": prepared(args.records),
        "64 producers": prepared(args.records, 64),
        "64 producers, sizes differ": prepared(args.records, 64, sizes=(100, 300)),
        "mixed batches": prepared(args.records, 64, mixed=True),
        "one record a batch": prepared(args.records // 10, batch=1),
        "one record a batch, 64 producers": prepared(args.records // 10, 64, batch=1),
    }
    cases: dict[str, tuple[PreparedLog, bool]] = {name: (log, False) for name, log in logs.items()}
    for name in ("one producer", "64 producers", "64 producers, sizes differ"):
        cases[f"{name}, content"] = logs[name], True
    runs: dict[str, dict[str, list[float]]] = {name: {} for name in cases}
    ways = list(_ways())
    for log, content in cases.values():
        for way in ways:
            with _by(way):
                rate(log, content_check=content)
    for _ in range(args.rounds):
        for name, (log, content) in cases.items():
            for way in ways:
                with _by(way):
                    found = rate(log, content_check=content)
                runs[name].setdefault(way, []).append(found)
    held = {count: bytes_of(count) for count in _CELLS}
    least, most = min(held), max(held)
    each = (held[most] - held[least]) / (most - least)
    peaks = {way: _peak_of(way) for way in ways}
    result = {
        "machine": machine(),
        "records_per_second": runs,
        "bytes_a_cell": each,
        "peak_mb": peaks,
    }
    head = ["log", *ways, *(f"{way}, at best" for way in ways)]
    rates = [
        [
            name,
            *(f"{median(some[way]):,.0f}" for way in ways),
            *(f"{max(some[way]):,.0f}" for way in ways),
        ]
        for name, some in runs.items()
    ]
    print(machine())
    print(table([head, *rates]))
    print()
    print(table([["largest memory", *ways], ["MB", *(f"{peaks[way]:.0f}" for way in ways)]]))
    print()
    sizes = [[f"{count:,}", f"{size / 1e6:.1f}"] for count, size in held.items()]
    print(table([["open cells", "MB"], *sizes, ["each further one", f"{each:,.0f} bytes"]]))
    if args.json:
        args.json.write_text(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
