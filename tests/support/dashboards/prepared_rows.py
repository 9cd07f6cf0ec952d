"""Rows of a prepared store for which no function of the audit writes alone."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, Table

from tallymark_audit.model import sketches
from tallymark_audit.model.cells import CellKey, Copy
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Claim, Observation
from tallymark_audit.store.schema.rows import claim_to_row, observation_to_row
from tallymark_audit.store.schema.tables import (
    claims,
    collectors,
    incidents,
    latency_sums,
    observations,
    progress,
    repairs,
    reporter_topics,
    reporters,
    runs,
    watermarks,
)
from tallymark_audit.store.schema.upsert import upsert

RUN: Final = "00112233445566aa"
HOUR: Final = 3_600_000
TEN_MINUTES: Final = 600_000
BYTES: Final = 180

Hole: TypeAlias = tuple[int, str]
"""The window (start, ms) that holds a watermark, and its state."""


class Rows:
    """Inserts into one store, as of ``now`` (ms)."""

    def __init__(self, connection: Connection, now: int) -> None:
        self.connection, self.now = connection, now
        self._random = random.Random(17)

    def _add(self, table: Table, **values: Any) -> None:
        upsert(self.connection, table, [values])

    def watermarks(
        self, edge: str, topics: Sequence[str], horizon: int, holes: Mapping[str, Hole]
    ) -> None:
        """All windows before ``horizon`` are judged; a topic with a hole is complete up to it."""
        for topic in topics:
            hole = holes.get(topic)
            self._add(
                watermarks, edge=edge, topic=topic, horizon=horizon, at=self.now,
                through=min(hole[0], horizon) if hole else horizon,
                holes=[[*hole, False]] if hole and hole[0] < horizon else [],
            )  # fmt: skip

    def collector(self, cluster: str, committed: int) -> None:
        """In charge for a day; it last committed then (ms)."""
        began = self.now - 24 * HOUR
        self._add(
            collectors, cluster=cluster, generation=3, owner=f"collector-{cluster}",
            started_at=began, heartbeat=committed, discovered_through=committed,
        )  # fmt: skip
        for place in range(6):
            topic, partition = ("metrics", "orders", "payments")[place // 2], place % 2
            self._add(
                progress, cluster=cluster, topic=topic, partition=partition, topic_id="",
                next_offset=91_000, leader_epoch=1, generation=3, counted_through=committed,
                high_watermark=91_000,
            )  # fmt: skip

    def latency(self, cluster: str, begin: int, until: int, slow: int) -> None:
        """Half a second or so; a minute in the hour of ``slow`` (ms)."""
        for topic, span in (("", TEN_MINUTES), ("orders", HOUR), ("payments", HOUR)):
            for start in range(begin - begin % span, until, span):
                sketch = sketches.empty()
                worst = 60_000 if abs(start - slow) < HOUR else 2_500
                for _ in range(40):
                    sketches.add(sketch, self._random.lognormvariate(6, 0.6))
                sketches.add(sketch, worst)
                row = {"cluster": cluster, "topic": topic, "start": start}
                self._add(latency_sums, **row, sketch=sketches.to_list(sketch))

    def reporter(self, cluster: str, server: str, application: str, heard: int) -> None:
        name = f"producer-{server}"[:200]
        self._add(
            reporters, cluster=cluster, reporter=name, kind="producer", tier="producer",
            server=server, application=application, instance=RUN, first_seen=self.now - 24 * HOUR,
            last_heard=heard, complete_through=heard - 5_000, seen=[], ahead=[],
        )  # fmt: skip
        for topic in ("payments",) if cluster == "dc2" else ("orders", "views"):
            self._add(reporter_topics, cluster=cluster, topic=topic, reporter=name)

    def run(self, job: str, started: int, took: int, outcome: str) -> None:
        self.connection.execute(
            runs.insert().values(
                job=job, started_at=started, finished_at=started + took,
                from_ms=started - 24 * HOUR, to_ms=started, outcome=outcome,
                detail={"windows": 288, "missing": 12},
            )
        )  # fmt: skip

    def repair(
        self, edge: str, topic: str, window: int, at: int, sequences: Sequence[int], copied: int
    ) -> None:
        self.connection.execute(
            repairs.insert().values(
                at=at, edge=edge, topic=topic, window=window, partition=1, server="web-7",
                instance=RUN, sequences=list(sequences), copied=copied, present=0,
                outcome="repaired",
            )
        )  # fmt: skip

    def log_event(
        self, cluster: str, topic: str, partition: int, first: int, end: int, at: int, kind: str,
        reason: str,
    ) -> None:  # fmt: skip
        self.connection.execute(
            incidents.insert().values(
                cluster=cluster, topic=topic, partition=partition, from_offset=first, to_offset=end,
                at=at, kind=kind, reason=reason,
            )
        )  # fmt: skip

    def claimed_and_seen(
        self, cluster: str, topic: str, window: int, count: int, lost: Sequence[int] = ()
    ) -> None:
        """A producer's claim, and what the cluster has of it without the ``lost`` sequences."""
        key = CellKey(topic, 1, window, "web-7", RUN)
        whole = RangeSet.single(0, count - 1)
        there = whole - RangeSet.from_list(list(lost)) if lost else whole
        claim = Claim(key, accepted=whole, acknowledged=whole, count=count, bytes=count * BYTES)
        upsert(self.connection, claims, [claim_to_row(cluster, "producer-web-7", 0, 1, claim)])
        self._seen(cluster, key, there, there.size)

    def both_sides(
        self,
        upstream: str,
        downstream: str,
        topic: str,
        window: int,
        partition: int,
        count: int,
        again: int = 0,
    ) -> None:
        """What both clusters of a mirror hold; ``again`` copies more downstream."""
        key = CellKey(topic, partition, window, "web-7", RUN)
        whole = RangeSet.single(0, count - 1)
        self._seen(upstream, key, whole, count)
        self._seen(downstream, key, whole, count + again)

    def _seen(self, cluster: str, key: CellKey, ranges: RangeSet, count: int) -> None:
        more = count - ranges.size
        seen = Observation(
            key,
            count=count,
            bytes=count * BYTES,
            ranges=ranges,
            copies=tuple(Copy(1, 7_700 + n, 55 + n) for n in range(more)),
            first_offset=91_000,
            last_offset=91_000 + count - 1,
            min_timestamp=key.window,
            max_timestamp=key.window + TEN_MINUTES - 1,
        )
        row = observation_to_row(cluster, key.topic, key.partition, seen)
        upsert(self.connection, observations, [row])
