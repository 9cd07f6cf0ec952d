"""How long the first start takes that brings an audit store of version 7 up to date.

    python bench/audit_store.py --only migration [--scale 1]

Sums and incidents are made from the verdicts that are there. A store of that version is filled with
rows as collectors leave them, then opened by a process of its own: seconds, its processor time (on
PostgreSQL without the server's), the most memory that it had, and what it said meanwhile.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from support.dashboard_store import batches, verdict_rows

from tallymark.clock import now_ms
from tallymark.sql import open_engine
from tallymark_audit.store.schema import tables

sys.path.append(str(Path(__file__).parents[3] / "tests/support"))
sys.path.append(str(Path(__file__).parents[3] / "tests/support/audit"))
sys.path.append(str(Path(__file__).parents[3] / "tests/support/servers"))
from old_stores import load_old_store
from postgres import start_postgres

VERSION: Final = 7
TOPICS: Final = 10_000
WINDOWS: Final = 1_440
OPENING: Final = """
import resource, sys, time
from tallymark_audit.store import open_store
began = time.monotonic()
open_store(sys.argv[1]).close()
used = resource.getrusage(resource.RUSAGE_SELF)
print(time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def migrated(verdicts: int) -> list[list[str]]:
    """The rows of a table, for each kind of store; ``verdicts`` are in it before."""
    rows = [["store", "verdicts", "seconds", "processor s", "memory MB"]]
    for kind in ("sqlite", "postgresql"):
        with empty_store(kind) as address:
            count = fill(address, verdicts)
            rows.append([kind, f"{count:,}", *opened(address)])
    return rows


@contextmanager
def empty_store(kind: str) -> Iterator[str]:
    """The address of a database without tables."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/audit.db"
        return
    server = start_postgres("shared_buffers=256MB")
    try:
        yield server.new_database()
    finally:
        server.stop()


def fill(address: str, most: int) -> int:
    """Make it a store of the older version with so many verdicts; how many there are."""
    load_old_store(address, VERSION)
    newest = now_ms() // 60_000 * 60_000
    found = islice(verdict_rows(random.Random(7), TOPICS, WINDOWS, newest), most)
    kept = tables.verdict_history.columns.keys()
    count = 0
    engine = open_engine(address, synchronous="NORMAL")
    with engine.begin() as connection:
        for some in batches(found):
            count += len(some)
            connection.execute(tables.verdicts.insert(), some)
            past = [{name: row[name] for name in kept} for row in some]
            connection.execute(tables.verdict_history.insert(), past)
    engine.dispose()
    return count


def opened(address: str) -> list[str]:
    """What it takes to open it, as it is printed."""
    command = [sys.executable, "-c", OPENING, address]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, used, memory = map(float, ended.stdout.split())
    return [f"{seconds:.0f}", f"{used:.0f}", f"{memory:.0f}"]
