"""The cost of a day of counting for the audit store, and how long its queries take.

    python bench/audit_store.py [--scale 1] [--store postgresql|sqlite] [--only sizing,queries]
                                [--json FILE]
    python bench/audit_store.py --only migration [--scale 1]    see support/audit/store_migration.py

``sizing``: at scale 1 a tenth of a day of 100 topics, 50 instances and 1,440 windows in 4 tiers, so
2,880,000 cells (10 topics). Each is written once, by the code with which collectors save: claims of
producers and of a group, counts of a cluster and of its mirror's target, and the verdicts of three
edges. Then the housekeeping archives all windows. Seconds are wall-clock time and include the
database's; the time to make the input is not included. ``per day`` is for the whole 28,800,000
cells. The store keeps up if it is far below 86,400: the rest of the day is for rewrites of cells
while their window is open.

``queries``: 1,000,000 cells at scale 1; the queries for one topic and day, on both databases.
PostgreSQL is a private server with fsync on; apart from that it is set up as in the tests.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import text
from support.audit.store_migration import migrated
from support.measure import machine, table

from tallymark_audit.store.reading import window_evidence

sys.path.append(str(Path(__file__).parents[1] / "tests/support"))
sys.path.append(str(Path(__file__).parents[1] / "tests/support/servers"))
from postgres import start_postgres

from tallymark.deployment import AuditSettings
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.events.events import AuditEvent, CellReport
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Observation
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import counts
from tallymark_audit.store.counted.claims import add_events
from tallymark_audit.store.counted.totals import totals_of
from tallymark_audit.store.housekeeping.housekeeper import Housekeeper
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.reading import queries

DAY: Final = 86_400_000
WINDOW: Final = 60_000
WINDOWS: Final = DAY // WINDOW
INSTANCES: Final = 50
FULL_DAY: Final = 28_800_000
AT_ONCE: Final = 10
"""Windows in one transaction: a collector's transaction has some hundred cells."""
RECORDS: Final = 400
"""Records of one cell."""
LATENCY: Final = (-1, 40, 55, 120, 60, 180, 65, 50, 80, 10)
EDGES: Final = (
    Edge("producer-to-dc1", "producer", "dc1", "producer"),
    Edge("dc1-to-aggregate", "dc1", "aggregate", "mirror"),
    Edge("aggregate-to-group:g", "aggregate", "group:g", "consumer"),
)
TABLES: Final = (
    "observations",
    "claims",
    "archive",
    "totals",
    "window_changes",
    "verdicts",
    "verdict_history",
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--scale", type=float, default=1.0)
    arguments.add_argument("--store", choices=["postgresql", "sqlite"], default="postgresql")
    arguments.add_argument("--only", default="sizing,queries")
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    results: dict[str, Any] = {"machine": machine(), "scale": given.scale}
    parts = given.only.split(",")
    if "sizing" in parts:
        results["sizing"] = sizing(given.store, given.scale)
    if "queries" in parts:
        results["queries"] = {
            kind: answering(kind, given.scale) for kind in ("sqlite", "postgresql")
        }
        print_queries(results["queries"])
    if "migration" in parts:
        results["migration"] = migrated(int(1_000_000 * given.scale))
        print(table(results["migration"]))
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")


@contextmanager
def new_store(kind: str) -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        if kind == "sqlite":
            with open_store(f"sqlite:///{folder}/audit.db") as store:
                yield store
            return
        server = start_postgres(
            "fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=256MB"
        )
        try:
            with open_store(server.new_database()) as store:
                yield store
        finally:
            server.stop()


@dataclass
class Clock:
    """Seconds by the work that they were spent on."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - began


def sizing(kind: str, scale: float) -> dict[str, Any]:
    """Write and archive; returns the measured times and sizes."""
    topics = max(1, round(10 * scale))
    windows = WINDOWS if scale >= 0.1 else max(2 * AT_ONCE, round(WINDOWS * scale * 10))
    cells = topics * windows * INSTANCES * 4
    clock = Clock()
    with new_store(kind) as store:
        ledgers = {name: Ledger(store, name) for name in ("dc1", "aggregate")}
        for ledger in ledgers.values():
            ledger.take_over("bench", 1)
        for at in range(0, windows, AT_ONCE):
            some = [number * WINDOW for number in range(at, min(windows, at + AT_ONCE))]
            write_cells(store, clock, [f"topic-{n}" for n in range(topics)], some)
        full = sizes(store)
        settings = AuditSettings(window_ms=WINDOW, collapse_after_ms=0)
        with clock.on("archiving"):
            for ledger in ledgers.values():
                house = Housekeeper(ledger, EDGES, settings)
                for step in range(topics * windows // 500 + 2):
                    house.step(2 * DAY + step)
        packed = sizes(store)
    return told(kind, cells, clock, full, packed)


def told(
    kind: str, cells: int, clock: Clock, full: dict[str, Any], packed: dict[str, Any]
) -> dict[str, Any]:
    factor = FULL_DAY / cells
    print(f"\n{kind}: {cells:,} cells, {100 / factor:.1f} % of a day of 28,800,000\n")
    each = {"claims": 2, "counts": 2, "verdicts": 4, "archiving": 4}
    rows = [
        [
            what,
            f"{seconds:.1f} s",
            f"{cells * each[what] / 4 / seconds:,.0f}",
            f"{seconds * factor:,.0f} s",
        ]
        for what, seconds in clock.seconds.items()
    ]
    total = sum(clock.seconds.values())
    rows.append(["all", f"{total:.1f} s", f"{cells / total:,.0f}", f"{total * factor:,.0f} s"])
    print(table([["work", "took", "cells a second", "per day"], *rows]))
    print()
    print(
        table(
            [
                ["table", "rows", "bytes", "archived: rows", "bytes", "a day"],
                *(
                    [
                        name,
                        f"{full[name][0]:,}",
                        f"{full[name][1]:,}",
                        f"{packed[name][0]:,}",
                        f"{packed[name][1]:,}",
                        f"{packed[name][1] * factor / 1e9:.2f} GB",
                    ]
                    for name in full
                ),
            ]
        )
    )
    bytes_before, bytes_after = (sum(size for _, size in one.values()) for one in (full, packed))
    print(f"\n{bytes_before / cells:.0f} bytes a cell, archived {bytes_after / cells:.1f}")
    return {
        "store": kind,
        "cells": cells,
        "seconds": clock.seconds,
        "seconds_a_day": total * factor,
        "full": full,
        "archived": packed,
    }


def write_cells(store: Store, clock: Clock, topics: list[str], windows: list[int]) -> None:
    events = [
        event
        for instance in range(INSTANCES)
        for event in (report("producer", instance, topics, windows),)
    ] + [report("consumer", 0, topics, windows)]
    for cluster, some in (("dc1", events[:-1]), ("aggregate", events[-1:])):
        with clock.on("claims"), store.write() as connection:
            add_events(connection, cluster, some, windows[0])
    for cluster in ("dc1", "aggregate"):
        for topic in topics:
            seen = [observation(topic, w, i) for w in windows for i in range(INSTANCES)]
            with clock.on("counts"), store.write() as connection:
                counts.save_observations(connection, cluster, topic, 0, seen, windows[0])
    judged = [
        Verdict(edge.name, topic, window, State.COMPLETE, INSTANCES, INSTANCES)
        for edge in EDGES
        for topic in topics
        for window in windows
    ]
    with clock.on("verdicts"), store.write() as connection:
        record_verdicts(connection, judged, COLLECTOR, windows[0])


def report(kind: Any, instance: int, topics: list[str], windows: list[int]) -> AuditEvent:
    """The report of one producer about these windows; that of a consumer is about all instances."""
    whose = range(INSTANCES) if kind == "consumer" else [instance]
    cells = [
        CellReport(
            topic,
            0,
            window,
            server=server_of(who) if kind == "consumer" else "",
            instance=instance_of(who) if kind == "consumer" else "",
            count=RECORDS,
            bytes=200 * RECORDS,
            accepted=sequences(window),
            acknowledged=sequences(window),
            latency=LATENCY,
            min_timestamp=window + 3,
            max_timestamp=window + 59_990,
        )
        for topic in topics
        for window in windows
        for who in whose
    ]
    number = windows[0] // WINDOW // AT_ONCE
    return AuditEvent(
        kind,
        f"{kind}-{instance}",
        server_of(instance),
        "bench",
        instance_of(instance),
        event_number=number,
        covers_from=number,
        emitted_at=windows[-1],
        window_ms=WINDOW,
        complete_through=windows[-1],
        cells=tuple(cells),
        consumer_group="g" if kind == "consumer" else "",
        tier=kind,
    )


def observation(topic: str, window: int, instance: int) -> Observation:
    at = window // WINDOW * INSTANCES * RECORDS
    return Observation(
        CellKey(topic, 0, window, server_of(instance), instance_of(instance)),
        count=RECORDS,
        bytes=200 * RECORDS,
        ranges=sequences(window),
        latency=LATENCY,
        first_offset=at + instance,
        last_offset=at + INSTANCES * RECORDS - instance,
        min_timestamp=window + 3,
        max_timestamp=window + 59_990,
    )


def sequences(window: int) -> RangeSet:
    first = window // WINDOW * RECORDS
    return RangeSet.single(first, first + RECORDS - 1)


def server_of(instance: int) -> str:
    return f"web-{instance:03}.example"


def instance_of(instance: int) -> str:
    return f"{(instance + 1) * 0x9E3779B97F4A7C15 % 2**64:016x}"


def sizes(store: Store) -> dict[str, tuple[int, int]]:
    """Rows and bytes by table, indexes included."""
    found: dict[str, tuple[int, int]] = {}
    with store.engine.connect() as connection:
        postgres = connection.dialect.name == "postgresql"
        connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        for name in TABLES:
            if postgres:
                connection.execute(text(f"VACUUM FULL {name}"))
                how = f"SELECT pg_total_relation_size('{name}')"
            else:
                how = (
                    "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name IN "
                    f"(SELECT name FROM sqlite_master WHERE tbl_name = '{name}')"
                )
            rows = connection.scalar(text(f"SELECT count(*) FROM {name}")) or 0
            try:
                size = connection.scalar(text(how)) or 0
            except Exception:  # this SQLite was built without dbstat
                size = 0
            found[name] = rows, int(size)
    return found


def answering(kind: str, scale: float) -> dict[str, Any]:
    """Median and slowest ms of each query over 1,000,000 cells."""
    topics = max(1, round(14 * scale))
    windows = WINDOWS if scale >= 0.07 else max(50, round(WINDOWS * scale * 14))
    with new_store(kind) as store:
        Ledger(store, "dc1").take_over("bench", 1)
        for number in range(topics):
            fill(store, f"topic-{number}", windows)
        with store.engine.connect() as connection:
            connection.execute(text("ANALYZE"))
            connection.commit()
        topic = f"topic-{topics // 2}"
        asked: dict[str, Callable[[Any], Any]] = {
            "verdicts of a topic and day, one edge": lambda c: queries.windows(
                c, "producer-to-dc1", topic, 0, DAY, limit=2000
            ),
            "verdicts of a topic and day, all edges": lambda c: queries.windows(
                c, None, topic, 0, DAY, limit=5000
            ),
            "what is wrong, newest": lambda c: queries.windows(c, states=["LOSS"], limit=100),
            "evidence of a window": lambda c: window_evidence.evidence(
                c, "producer-to-dc1", topic, windows // 2 * WINDOW
            ),
            "overview": queries.overview,
            "totals of a topic and day, per tier": lambda c: totals_of(c, topic, 0, DAY),
        }
        found = {name: timed(store, ask) for name, ask in asked.items()}
    return {"cells": topics * windows * INSTANCES, "ms": found}


def fill(store: Store, topic: str, windows: int) -> None:
    for at in range(0, windows, 50):
        some = [number * WINDOW for number in range(at, min(windows, at + 50))]
        seen = [observation(topic, w, i) for w in some for i in range(INSTANCES)]
        judged = [
            Verdict(
                edge.name,
                topic,
                window,
                State.LOSS if window // WINDOW % 97 == 5 else State.COMPLETE,
                20_000,
                20_000,
            )
            for edge in EDGES
            for window in some
        ]
        with store.write() as connection:
            counts.save_observations(connection, "dc1", topic, 0, seen, some[0])
            record_verdicts(connection, judged, COLLECTOR, some[0])


def timed(store: Store, ask: Callable[[Any], Any]) -> list[float]:
    took: list[float] = []
    for _ in range(7):
        began = time.perf_counter()
        with store.read() as connection:
            ask(connection)
        took.append(1000 * (time.perf_counter() - began))
    return [round(statistics.median(took), 2), round(max(took), 2)]


def print_queries(found: dict[str, Any]) -> None:
    cells = next(iter(found.values()))["cells"]
    print(f"\n{cells:,} cells; median (slowest) ms\n")
    names = list(next(iter(found.values()))["ms"])
    rows = [
        [name, *("{} ({})".format(*found[kind]["ms"][name]) for kind in found)] for name in names
    ]
    print(table([["question", *found], *rows]))


if __name__ == "__main__":
    main()
