"""An audit store with one of each: what a page has to show, and what may break it.

By way of the functions that collectors and jobs write with, so that sums and incidents follow; only
what has no such function is inserted. Times are relative to ``now``, so pages show it as of today.

=========== ======================== =================================================
topic       edge                     what happened
=========== ======================== =================================================
metrics     all                      nothing: clean
orders      dc1-to-aggregate         12 lost six hours ago, repaired an hour later
payments    producer-to-dc2          7 lost three hours ago, of which nothing is left
clicks      dc2-to-aggregate         40 duplicated two hours ago
views       producer-to-dc1          a producer is silent for an hour: UNKNOWN
=========== ======================== =================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from prepared_rows import Rows

from tallymark.deployment import AuditSettings, Deployment
from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.alert import Alert
from tallymark_audit.model.cells import CellKey, Copy
from tallymark_audit.model.pages import window_page
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store import Store
from tallymark_audit.store.counted.incidents import GIVEN_UP, UNCLEAN_ELECTION
from tallymark_audit.store.judged.alerts import save
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, locate_cells, record_verdicts
from tallymark_audit.store.schema.rows import cell_to_json

W: Final = 600_000
HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR
EDGES: Final = ("producer-to-dc1", "dc1-to-aggregate", "producer-to-dc2", "dc2-to-aggregate")
LONG: Final = "x" * 120 + "." + "y" * 128
HOSTILE: Final = (
    "<script>alert('topic')</script>",
    "orders\u202edrawkcab",
    "مواضيع.الطلبات",
    '"><img src=x onerror=alert(1)>',
    LONG,
)
"""Names that a broker would refuse and a store may hold; the last is as long as Kafka allows."""
SETTLED: Final = 90_000
"""So long after its end (ms) a window is judged."""
EVENTS: Final = 1_000
"""Messages of a topic in a window."""


@dataclass(frozen=True)
class Prepared:
    """The store, and the windows (start, ms) of what went wrong in it."""

    store: Store
    deployment: Deployment
    now: int
    repaired: int
    gone: int
    doubled: int
    silent: int

    @property
    def holes(self) -> dict[str, dict[str, tuple[int, str]]]:
        """By edge and topic the window that holds the watermark, and its state."""
        return {
            "producer-to-dc1": {"views": (self.silent, str(State.UNKNOWN))},
            "producer-to-dc2": {"payments": (self.gone, str(State.LOSS))},
            "dc2-to-aggregate": {"clicks": (self.doubled, str(State.DUPLICATION))},
        }

    @property
    def wrong(self) -> frozenset[tuple[str, int]]:
        """Topics and windows that are not clean; on the other hop of the topic they are not judged,
        so that each stands alone."""
        silent = {("views", window) for window in range(self.silent, self.now, W)}
        wrong = {("orders", self.repaired), ("payments", self.gone), ("clicks", self.doubled)}
        return frozenset(silent | wrong)


_record = partial(record_verdicts, window_ms=W)


def deployment_in(folder: Path, **settings: Any) -> Deployment:
    """A deployment of three clusters whose windows are ten minutes long."""
    audit = AuditSettings(window_ms=W, settle_min_ms=60_000, silence_ms=W)
    return Deployment(data_dir=folder, audit=audit, **settings)


def prepare(
    store: Store,
    deployment: Deployment,
    now: int,
    *,
    hours: int = 24,
    hostile: bool = True,
    more: int = 0,
    stopped: str = "",
) -> Prepared:
    """Fill an empty store. ``hours``: of clean windows before ``now`` (ms). ``hostile``: topics
    with :data:`HOSTILE` names, too. ``more``: so many clean topics of one window each.
    ``stopped``: the cluster whose collector stopped 150 minutes ago."""
    newest = now - now % W - W
    one = Prepared(
        store,
        deployment,
        now,
        newest - 6 * HOUR,
        newest - 3 * HOUR,
        newest - 2 * HOUR,
        newest - HOUR,
    )
    begin = newest - hours * HOUR
    ended = dict.fromkeys(("dc1", "dc2", "aggregate"), newest)
    if stopped:
        ended[stopped] = newest - 150 * 60_000
    with store.write() as connection:
        rows = Rows(connection, now)
        clean: dict[int, list[Verdict]] = {}
        for edge in EDGES:
            upstream, _, downstream = edge.partition("-to-")
            until = min(ended[downstream], ended.get(upstream, now))
            judged = list(_clean(edge, begin, until, now, hostile))
            for verdict in judged:
                if (verdict.topic, verdict.window) not in one.wrong:
                    clean.setdefault(verdict.window, []).append(verdict)
            topics = sorted({v.topic for v in judged})
            rows.watermarks(edge, topics, until, one.holes.get(edge, {}))
        for window, verdicts in sorted(clean.items()):
            at = min(now - 30_000, window + W + SETTLED)
            _record(connection, verdicts, COLLECTOR, at)
        if more:
            extra = [
                _verdict("producer-to-dc1", f"bulk-{n:05}", newest - n % 100 * W)
                for n in range(more)
            ]
            _record(connection, extra, COLLECTOR, now - 30_000)
        for cluster, until in ended.items():
            rows.collector(cluster, until + W if cluster == stopped else now - 4_000)
            rows.latency(cluster, begin, until, slow=one.gone)
        for topic in ("metrics", "orders", "clicks"):
            rows.both_sides("dc1", "aggregate", topic, newest, 0, EVENTS)
        rows.reporter("dc1", "web-1", "shop", now - 20_000)
        rows.reporter("dc1", "web-7", "shop", one.silent)
        rows.reporter("dc2", "api-2", "billing", now - 15_000)
        if hostile:
            rows.reporter("dc2", HOSTILE[0], HOSTILE[2], now - 15_000)
            rows.reporter("dc2", LONG, "billing", now - 15_000)
        _repaired(rows, one)
        _gone(rows, one)
        _doubled(rows, one)
        _silent(rows, one)
        rows.run("reconcile", newest - 5 * HOUR, 12_500, "discrepancies")
        rows.run("load", newest - 2 * HOUR, 48_200, "succeeded")
    return one


def _verdict(
    edge: str, topic: str, window: int, state: State = State.COMPLETE, **sums: Any
) -> Verdict:
    return Verdict(edge, topic, window, state, **{"claimed": EVENTS, "observed": EVENTS, **sums})


def _clean(edge: str, begin: int, until: int, now: int, hostile: bool) -> Iterable[Verdict]:
    topics = {"1": ("metrics", "orders", "views"), "2": ("payments", "clicks")}
    mine = topics["1" if "dc1" in edge else "2"]
    for topic in (*mine, *(HOSTILE if hostile and "dc2" in edge else ())):
        every = W if topic in mine else 6 * W
        for window in range(begin - begin % every, until + 1, every):
            open_now = window + W > now - 60_000
            yield _verdict(edge, topic, window, State.SETTLING if open_now else State.COMPLETE)


def _cell(topic: str, window: int, state: State, **found: Any) -> CellVerdict:
    key = CellKey(topic, 1, window, "web-7", "00112233445566aa")
    return CellVerdict(key, state, EVENTS, EVENTS - found.get("missing_count", 0), **found)


def _repaired(rows: Rows, one: Prepared) -> None:
    """Lost by the mirror; the messages are upstream, and a repair copied them."""
    edge, topic, window = "dc1-to-aggregate", "orders", one.repaired
    lost = RangeSet.from_list([210, 217, 400, 403])
    cell = _cell(topic, window, State.LOSS, missing=lost, missing_count=12)
    bad = _verdict(edge, topic, window, State.LOSS, observed=EVENTS - 12, missing=12, cells=(cell,))
    seen, mended = window + W + SETTLED, window + HOUR
    _record(rows.connection, [bad], COLLECTOR, seen)
    _record(rows.connection, [bad], SPARK, seen + 300_000)
    place = {"edge": edge, "topic": topic, "window": window, "source": SPARK, "revision": 0}
    where = {"cluster": "dc1", "partition": 1, "first_offset": 91_210, "last_offset": 91_217}
    located = {**place, "cells": [cell_to_json(cell)]}
    locate_cells(rows.connection, located, {0: [where]})
    rows.both_sides("dc1", "aggregate", topic, window, 1, EVENTS)
    rows.repair(edge, topic, window, mended, [210, 217, 400, 403], 12)
    good = replace(bad, state=State.COMPLETE, observed=EVENTS, missing=0, cells=())
    _record(rows.connection, [good], SPARK, mended + 60_000)
    _record(rows.connection, [good], COLLECTOR, mended + 30_000)
    save(rows.connection, [_alert(edge, topic, window, "12", seen, mended + 90_000)])


def unclean_election(one: Prepared) -> None:
    """Add what the audit says after one, in the words of a drill with three brokers. The broker
    that was killed reported its election after another one had said what it cut."""
    folder = "/var/lib/tallymark/dc2/broker-1/payments-3.27bfb2dd89a4424db287f4cb23db0145-truncated"
    at = one.now - 35 * 60_000
    cut = f"""broker 1 cut these offsets (epochs: 1 from 4248) for the leader of epoch 3; its high \
watermark was 4292; saved in {folder}: tallymark audit repair --tails {folder}"""
    elected = """broker 2 leads from leader epoch 3 on, elected although it may lack committed \
records: its log ended at offset 4248 (epochs: 0 from 0, 1 from 815, 3 from 4248). Start the other \
brokers: they save what they cut"""
    with one.store.write() as connection:
        rows = Rows(connection, one.now)
        rows.log_event("dc2", "payments", 3, 4_248, 4_783, at, GIVEN_UP, cut)
        rows.log_event("dc2", "payments", 3, 4_248, 4_248, at - 8_000, UNCLEAN_ELECTION, elected)


def _gone(rows: Rows, one: Prepared) -> None:
    """Acknowledged by the broker, and then cut off its log: nothing is left of them."""
    edge, topic, window = "producer-to-dc2", "payments", one.gone
    cell = _cell(topic, window, State.LOSS, missing=RangeSet.single(900, 906), missing_count=7)
    bad = _verdict(edge, topic, window, State.LOSS, observed=EVENTS - 7, missing=7, cells=(cell,))
    seen = window + W + SETTLED
    _record(rows.connection, [bad], COLLECTOR, seen)
    rows.claimed_and_seen("dc2", topic, window, EVENTS, lost=[900, 906])
    rows.log_event("dc2", topic, 1, 52_113, 52_120, seen - 60_000, "truncated", "the log was cut")
    save(rows.connection, [_alert(edge, topic, window, "7", seen)])


def _doubled(rows: Rows, one: Prepared) -> None:
    edge, topic, window = "dc2-to-aggregate", "clicks", one.doubled
    copies = tuple(Copy(1, 7_700 + n, 55 + n) for n in range(40))
    cell = _cell(topic, window, State.DUPLICATION, duplicates=40, copies=copies)
    bad = _verdict(edge, topic, window, State.DUPLICATION, duplicates=40, cells=(cell,))
    _record(rows.connection, [bad], COLLECTOR, window + W + SETTLED)
    rows.both_sides("dc2", "aggregate", topic, window, 1, EVENTS, again=40)


def _silent(rows: Rows, one: Prepared) -> None:
    reasons = ("silent: web-7 (shop) said nothing about this window",)
    unknown = [
        _verdict(
            "producer-to-dc1",
            "views",
            window,
            State.UNKNOWN,
            claimed=640,
            observed=640,
            reasons=reasons,
        )
        for window in range(one.silent, one.now - 2 * W, W)
    ]
    _record(rows.connection, unknown, COLLECTOR, one.now - 60_000)
    rows.claimed_and_seen("dc1", "views", one.silent, 640)


def _alert(edge: str, topic: str, window: int, missing: str, at: int, ends: int = 0) -> Alert:
    labels = {
        "alertname": "TallymarkMissingMessages",
        "severity": "critical",
        "edge": edge,
        "topic": topic,
    }
    said = {
        "summary": f"{missing} messages of {topic} are missing on {edge}",
        "description": f"{missing} messages of the window are missing",
        "link": window_page("http://127.0.0.1:8080", edge, topic, window),
    }
    status: Literal["firing", "resolved"] = "resolved" if ends else "firing"
    return Alert(labels, said, status, at, ends, status, (ends or at) + 1_000)
