"""The reporters of what a cluster's consumer groups have processed, and of what its tables of the
lake have loaded."""

from __future__ import annotations

from sqlalchemy import Connection, func, select, union

from tallymark_audit.judge.verdicts import ReporterFacts
from tallymark_audit.model.cells import GROUP, Edge
from tallymark_audit.model.edges import consumer_edge
from tallymark_audit.store.counted.facts import reporter_facts
from tallymark_audit.store.schema.tables import copied, reporter_topics, reporters, watermarks

MOST_GROUPS = 500
"""Groups of a cluster that are judged without being declared."""


def members_named(connection: Connection, cluster: str, tier: str, group: str) -> frozenset[str]:
    """The names of all runs that ever reported for a group."""
    query = select(reporters.c.reporter).where(
        reporters.c.cluster == cluster,
        reporters.c.tier == tier,
        reporters.c.consumer_group == group,
    )
    return frozenset(connection.scalars(query))


def members_of(connection: Connection, edge: Edge, topic: str) -> list[ReporterFacts]:
    """The runs of an edge's consumer group, or the tables of the lake, that report on the topic, or
    are at work on it."""
    cluster = edge.upstream
    reading = union(
        *(
            select(table.c.reporter).where(table.c.cluster == cluster, table.c.topic == topic)
            for table in (reporter_topics, copied)
        )
    )
    query = select(reporters).where(
        reporters.c.cluster == cluster,
        reporters.c.tier == edge.kind,
        reporters.c.consumer_group == edge.group,
        reporters.c.reporter.in_(reading),
    )
    return [reporter_facts(dict(row)) for row in connection.execute(query).mappings()]


def first_groups(connection: Connection, cluster: str) -> list[str]:
    """Of the consumer groups whose runs report on a cluster those that are judged, sorted. Groups
    that were judged before have precedence, so that invented names displace no group."""
    known = select(reporters.c.consumer_group).where(
        reporters.c.cluster == cluster,
        reporters.c.tier == "consumer",
        reporters.c.consumer_group != "",
    )
    names = connection.scalars(known.distinct()).all()
    edges = {consumer_edge(cluster, name, "").name: name for name in names}
    judged = select(watermarks.c.edge).where(watermarks.c.edge.startswith(f"{cluster}-to-{GROUP}"))
    before = {edges.get(edge) for edge in connection.scalars(judged.distinct())}
    return sorted(sorted(names, key=lambda name: (name not in before, name))[:MOST_GROUPS])


def groups_on(connection: Connection, cluster: str) -> dict[str, dict[str, int]]:
    """The consumer groups whose runs report on a cluster (:func:`first_groups`): of each topic that
    a group has reported on, when (ms) the first of these runs began."""
    groups = first_groups(connection, cluster)
    reading = (reporter_topics.c.cluster == reporters.c.cluster) & (
        reporter_topics.c.reporter == reporters.c.reporter
    )
    query = (
        select(
            reporters.c.consumer_group,
            reporter_topics.c.topic,
            func.min(reporters.c.first_seen),
        )
        .join(reporter_topics, reading)
        .where(
            reporters.c.cluster == cluster,
            reporters.c.tier == "consumer",
            reporters.c.consumer_group.in_(groups),
        )
        .group_by(reporters.c.consumer_group, reporter_topics.c.topic)
    )
    found: dict[str, dict[str, int]] = {}
    for group, topic, first in connection.execute(query):
        if group:
            found.setdefault(group, {})[topic] = first
    return found
