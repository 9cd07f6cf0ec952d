"""How long messages take: from their stamp until they were counted on a cluster. Percentiles come
from merged sketches, right to 2 %, and never from other percentiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select

from tallymark_audit.model import sketches
from tallymark_audit.store.counted.lateness import ALL_TOPICS
from tallymark_audit.store.schema.tables import latency_sums, lateness

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of the ``count`` messages that were counted on a cluster in a bucket of time (``start``, ms):
    the latencies (ms) that 50 %, 95 % and 99 % of them do not exceed, and the greatest."""

    cluster: str
    start: int
    count: int
    p50: float
    p95: float
    p99: float
    greatest: float


def latency_series(
    connection: Connection,
    clusters: Collection[str],
    topic: str | None,
    start: int,
    end: int,
    bucket_ms: int,
) -> list[Percentiles]:
    """By cluster and bucket, the earliest first, of what was counted from ``start`` up to ``end``
    (ms, excluded); ``topic`` as it is called on that cluster, None: all topics together. Of one
    topic whole hours are known, of all together ten minutes: the buckets hold those that begin
    there."""
    found: dict[tuple[int, str], sketches.Sketch] = {}
    for at, cluster, sketch in _sketches(connection, clusters, topic, start, end):
        sketches.merge_into(found.setdefault((at - at % bucket_ms, cluster), {}), sketch)
    return [_percentiles(name, at, one) for (at, name), one in sorted(found.items()) if one]


def latency_of(
    connection: Connection, clusters: Collection[str], topic: str | None, start: int, end: int
) -> dict[str, Percentiles]:
    """The same of the whole period, by cluster; without those that counted nothing then."""
    found: dict[str, sketches.Sketch] = {}
    for _, cluster, sketch in _sketches(connection, clusters, topic, start, end):
        sketches.merge_into(found.setdefault(cluster, {}), sketch)
    return {name: _percentiles(name, start, one) for name, one in found.items() if one}


def _sketches(
    connection: Connection, clusters: Collection[str], topic: str | None, start: int, end: int
) -> Iterator[tuple[int, str, sketches.Sketch]]:
    t = latency_sums.c
    query = select(t.start, t.cluster, t.sketch).where(
        t.cluster.in_(sorted(clusters)),
        t.topic == (ALL_TOPICS if topic is None else topic),
        t.start >= start,
        t.start < end,
    )
    for at, cluster, sketch in connection.execute(query):
        yield at, cluster, sketches.from_store(sketch)


def lateness_series(
    connection: Connection, counter: str, topic: str, start: int, end: int
) -> list[Percentiles]:
    """By day (ms UTC of its midnight), from which the settle time is learned. ``counter``: the
    cluster that counted, or the name of a consumer's edge."""
    t = lateness.c
    query = select(t.day, t.sketch).where(
        t.edge == counter, t.topic == topic, t.day >= start - start % DAY_MS, t.day < end
    )
    return [
        _percentiles(counter, row.day, sketch)
        for row in connection.execute(query.order_by(t.day))
        if (sketch := sketches.from_store(row.sketch))
    ]


def _percentiles(cluster: str, start: int, sketch: sketches.Sketch) -> Percentiles:
    def share(of_all: float) -> float:
        return sketches.quantile(sketch, of_all) or 0.0

    count = sum(sketch.values())
    return Percentiles(cluster, start, count, share(0.5), share(0.95), share(0.99), share(1.0))
