"""What checking a log costs: headers and CRCs only, and ``--deep`` by the walk over records and by
the compiled loop.

    python bench/verify_log.py [--mb 200] [--rounds 5] [--json FILE]

A log of stamped records of 200 bytes, in batches of 16 and 64 KiB, uncompressed and with zstd, read
from the page cache. The ways take turns; least processor time of the rounds, as MB/s of the files
(10^6 bytes) on one core.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest import mock

from support.measure import machine, table

from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark.log import OsFiles
from tallymark.log.disk.kept_offsets import StartOffsets
from tallymark.log.verify.verify import Surroundings, verify_log
from tallymark.protocol.records.batch import encode_batch, place_batch
from tallymark.protocol.records.check import COMPILED
from tallymark.protocol.records.compiled import checking

MB: Final = 1_000_000
_WAYS: Final = ("headers", "deep, pure", "deep, compiled")


def batches(megabytes: int, size: int, codec: str) -> Iterator[bytes]:
    """Batches of about ``size`` bytes before compression, with offsets."""
    rng = Random(1)
    count = size // 240
    some: list[tuple[bytes, int]] = []
    for number in range(20):
        rows = [
            (
                None,
                rng.randbytes(100) + bytes(100),
                [("tm", encode_stamp(Stamp(b"instance", 3, number * count + n, "server-1")))],
                1_700_000_000_000 + n // 50,
            )
            for n in range(count)
        ]
        some.append((encode_batch(rows, compression=codec), count))
    offset = written = 0
    while written < megabytes * MB:
        for data, number in some:
            placed = bytearray(data)
            place_batch(placed, 0, offset, 0)
            offset += number
            written += len(placed)
            yield bytes(placed)


def check(folder: Path, way: str) -> float:
    """Processor seconds."""
    files = OsFiles()
    around = Surroundings(True, {}, {}, StartOffsets(files, str(folder.parent)))
    kernel: Any = checking.KERNEL
    compiled = kernel._compiled if way == "deep, compiled" else None
    with mock.patch.object(checking.KERNEL, "_compiled", compiled):
        began = time.process_time()
        report = verify_log(files, str(folder), around, deep=way != "headers")
        taken = time.process_time() - began
    if not report.ok:
        raise RuntimeError(str(report.damage[:3]))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    checking.warm()
    if not checking.KERNEL.wait():
        raise SystemExit("the loop is not compiled here; the log line above says why")
    walk = "compiled by mypyc" if COMPILED else "in Python"
    facts: dict[str, Any] = {**machine(), "mb": args.mb, "rounds": args.rounds, "walk": walk}
    print(json.dumps(facts))
    rows: list[list[str]] = [["batches", "codec", *(f"{way}, MB/s" for way in _WAYS)]]
    results: list[dict[str, Any]] = []
    for size, codec in ((16_384, "none"), (65_536, "none"), (65_536, "zstd")):
        with tempfile.TemporaryDirectory(prefix="tallymark-bench-") as name:
            folder = Path(name) / "bench-0"
            folder.mkdir()
            log = folder / f"{0:020d}.log"
            with log.open("wb") as file:
                file.writelines(batches(args.mb, size, codec))
            bytes_there = log.stat().st_size
            taken: dict[str, list[float]] = {way: [] for way in _WAYS}
            for _ in range(args.rounds):
                for way in _WAYS:
                    taken[way].append(check(folder, way))
        rates = {way: bytes_there / min(some) / MB for way, some in taken.items()}
        rows.append([f"{size >> 10} KiB", codec, *(f"{rate:,.0f}" for rate in rates.values())])
        results.append({"size": size, "codec": codec, **rates})
    print(table(rows))
    if args.json:
        args.json.write_text(json.dumps({"machine": facts, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
