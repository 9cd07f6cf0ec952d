"""How late records come, a sketch an edge, topic and day, of which the settle time is learned."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, select

from tallymark_audit.model import sketches
from tallymark_audit.store.schema.tables import lateness
from tallymark_audit.store.schema.upsert import upsert

TopicDay = tuple[str, int]
"""Topic, and midnight in ms UTC."""


def add_lateness(
    connection: Connection, edge: str, found: Mapping[TopicDay, sketches.Sketch]
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
