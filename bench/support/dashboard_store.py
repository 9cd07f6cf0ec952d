"""A large audit store: 10,000 topics, 1,440 windows, 2 million verdicts, 3 clusters.

One topic in twenty has messages in every window, the others in a few, as topics are. The rows of
verdicts and of their history are inserted as they are; sums and incidents are made from them by the
code that does so for a store of an older version.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, Table

from tallymark_audit.judge.verdicts import State
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Claim, Observation
from tallymark_audit.store import Store
from tallymark_audit.store.judged.filling import fill_incidents, fill_sums
from tallymark_audit.store.judged.verdicts import COLLECTOR
from tallymark_audit.store.schema import tables
from tallymark_audit.store.schema.rows import claim_to_row, observation_to_row

W: Final = 60_000
WINDOWS: Final = 1_440
TOPICS: Final = 10_000
BUSY_SHARE: Final = 0.05
FEW: Final = 29
"""Windows, on average, of a topic that is not busy."""
BAD_SHARE: Final = 0.0002
MESSAGES: Final = 400
SOURCES: Final = ("dc1", "dc2")
TARGET: Final = "aggregate"
RUN: Final = "00112233445566aa"
_AT_ONCE: Final = 20_000

Row = dict[str, Any]


def topic_name(number: int) -> str:
    """As teams call them: ``team-07.orders.0042``."""
    return f"team-{number % 40:02}.orders.{number:04}"


def edges_of(number: int) -> tuple[str, str]:
    """The two hops of a topic."""
    source = SOURCES[number % len(SOURCES)]
    return f"producer-to-{source}", f"{source}-to-{TARGET}"


def fill_big(store: Store, now: int, topics: int = TOPICS, windows: int = WINDOWS) -> int:
    """Fill an empty store with what was judged up to ``now`` (ms). How many verdicts there are."""
    newest = now - now % W - 2 * W
    dice = random.Random(17)
    count = 0
    with store.write() as connection:
        for some in batches(verdict_rows(dice, topics, windows, newest)):
            count += len(some)
            connection.execute(tables.verdicts.insert(), some)
            past = [{k: v for k, v in row.items() if k in _HISTORY} for row in some]
            connection.execute(tables.verdict_history.insert(), past)
        fill_sums(connection)
        fill_incidents(connection, W)
        _around(connection, topics, newest, now)
    return count


_HISTORY: Final = frozenset(column.name for column in tables.verdict_history.c)


def verdict_rows(dice: random.Random, topics: int, windows: int, newest: int) -> Iterator[Row]:
    """Rows of ``verdicts`` of so many windows up to ``newest``."""
    for number in range(topics):
        busy = number < topics * BUSY_SHARE
        last = range(windows)
        chosen = last if busy else sorted(dice.sample(last, dice.randint(1, min(windows, 2 * FEW))))
        for edge in edges_of(number):
            for index in chosen:
                yield _verdict(dice, edge, topic_name(number), newest - index * W)


def _verdict(dice: random.Random, edge: str, topic: str, window: int) -> Row:
    claimed = dice.randint(1, 2 * MESSAGES)
    bad = dice.random() < BAD_SHARE
    lost = min(claimed, dice.randint(1, 20)) if bad else 0
    return {
        "edge": edge, "topic": topic, "window": window, "source": COLLECTOR,
        "state": str(State.LOSS if bad else State.COMPLETE), "revision": 1,
        "judged_at": window + W + 20_000, "claimed": claimed, "observed": claimed - lost,
        "missing": lost, "duplicates": 0, "unclaimed": 0, "explained": 0,
        "reasons": [], "cells": [], "accepted_by": "",
    }  # fmt: skip


def _around(connection: Connection, topics: int, newest: int, now: int) -> None:
    """What pages read beside verdicts."""
    clusters = (*SOURCES, TARGET)
    numbers = range(topics)

    def insert(table: Table, rows: Iterator[Row]) -> None:
        for some in batches(rows):
            connection.execute(table.insert(), some)

    insert(
        tables.watermarks,
        (
            {"edge": edge, "topic": topic_name(number), "through": newest + W,
             "horizon": newest + W, "holes": [], "at": now}
            for number in numbers
            for edge in edges_of(number)
        ),
    )  # fmt: skip
    insert(
        tables.collectors,
        (
            {"cluster": one, "generation": 1, "owner": f"collector-{one}", "heartbeat": now,
             "started_at": newest - WINDOWS * W, "discovered_through": now}
            for one in clusters
        ),
    )  # fmt: skip
    insert(
        tables.progress,
        (
            {"cluster": one, "topic": topic_name(number), "partition": 0, "next_offset": 1_000_000,
             "generation": 1, "counted_through": now, "high_watermark": 1_000_000}
            for number in numbers
            for one in (SOURCES[number % 2], TARGET)
        ),
    )  # fmt: skip
    insert(
        tables.reporters,
        (
            {"cluster": SOURCES[host % 2], "reporter": f"producer-web-{host}", "kind": "producer",
             "tier": "producer", "server": f"web-{host}", "application": "shop", "instance": RUN,
             "first_seen": newest - WINDOWS * W, "last_heard": now, "complete_through": now,
             "seen": [], "ahead": []}
            for host in range(300)
        ),
    )  # fmt: skip
    insert(tables.latency_sums, _latencies(clusters, newest))
    _cells(connection, newest)


def _latencies(clusters: tuple[str, ...], newest: int) -> Iterator[Row]:
    dice = random.Random(3)
    hour = 3_600_000
    for cluster in clusters:
        for topic, span in (("", 600_000), (topic_name(0), hour), (topic_name(1), hour)):
            for start in range(newest - WINDOWS * W - newest % span, newest, span):
                sketch = sketches.empty()
                for _ in range(20):
                    sketches.add(sketch, dice.lognormvariate(6, 0.6))
                yield {"cluster": cluster, "topic": topic, "start": start - start % span,
                       "sketch": sketches.to_list(sketch)}  # fmt: skip


def _cells(connection: Connection, newest: int) -> None:
    """Both sides of the newest windows of the first two topics: 20 servers, 4 partitions."""
    claims: list[Row] = []
    observations: list[Row] = []
    for number in range(2):
        source = SOURCES[number % 2]
        for window in range(newest - 20 * W, newest + 1, W):
            for server in range(20):
                key = CellKey(
                    topic_name(number), server % 4, window, f"web-{server}", f"{server:016x}"
                )
                ranges = RangeSet.from_list([0, MESSAGES // 20 - 1])
                claim = Claim(key, count=MESSAGES // 20, accepted=ranges, acknowledged=ranges)
                claims.append(claim_to_row(source, f"producer-web-{server}", 0, 1, claim))
                for cluster in (source, TARGET):
                    seen = Observation(key, count=MESSAGES // 20, ranges=ranges)
                    observations.append(observation_to_row(cluster, key.topic, key.partition, seen))
    connection.execute(tables.claims.insert(), claims)
    connection.execute(tables.observations.insert(), observations)


def batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """So many rows as one statement takes well."""
    while some := list(islice(rows, _AT_ONCE)):
        yield some
