"""How late records come: a sketch an edge, topic and day, of which the settle time is learned, and
one a cluster and topic by shorter times, which pages show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, select

from tallymark_audit.model import sketches
from tallymark_audit.store.counted.facts import chunks
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import latency_sums, lateness
from tallymark_audit.store.schema.upsert import upsert

TopicTime = tuple[str, int]
"""Topic, and the start of a span, as midnight in ms UTC."""
ALL_TOPICS: Final = ""
TOPIC_MS: Final = 3_600_000
"""The spans of ``latency_sums``: of a topic ..."""
WHOLE_MS: Final = 600_000
"""... and of all topics together."""


def add_lateness(
    connection: Connection, edge: str, found: Mapping[TopicTime, sketches.Sketch]
) -> None:
    """Add what was seen since the last time. ``edge`` is the cluster that counted, or the name of
    a consumer edge."""
    rows = []
    for (topic, day), sketch in sorted(found.items()):
        query = select(lateness.c.sketch).where(
            lateness.c.edge == edge, lateness.c.topic == topic, lateness.c.day == day
        )
        known = connection.scalar(query.with_for_update()) or []
        whole = sketches.merged((sketches.from_store(known), sketch))
        row = {"edge": edge, "topic": topic, "day": day, "sketch": sketches.to_list(whole)}
        rows.append(row)
    upsert(connection, lateness, rows)


def add_latencies(
    connection: Connection, cluster: str, found: Mapping[TopicTime, sketches.Sketch]
) -> None:
    """Add what a cluster's collector saw since the last time, by topic (:data:`ALL_TOPICS` is all
    of them) and the start of the span, ms."""
    t = latency_sums.c
    by_start: dict[int, list[str]] = {}
    for topic, start in sorted(found):
        by_start.setdefault(start, []).append(topic)
    rows: list[Row] = []
    for start, topics in sorted(by_start.items()):
        known: dict[str, sketches.Sketch] = {}
        for some in chunks(topics):
            query = select(t.topic, t.sketch).where(
                t.cluster == cluster, t.start == start, t.topic.in_(some)
            )
            for topic, sketch in connection.execute(query.order_by(t.topic).with_for_update()):
                known[topic] = sketches.from_store(sketch)
        for topic in topics:
            whole = sketches.merged((known.get(topic, {}), found[topic, start]))
            row = {"cluster": cluster, "topic": topic, "start": start}
            rows.append(row | {"sketch": sketches.to_list(whole)})
    upsert(connection, latency_sums, rows)
