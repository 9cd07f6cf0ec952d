"""The hops that are judged, derived from the settings: there is no second description of the graph.

Every cluster has an edge from its producers, judged by the claims on its own audit topic; every
mirror is an edge, every consumer group that the settings name or whose members report, and where
there is a lake, the load of each cluster that is loaded. The
producer edge of a mirror's target is *implied*: most targets have no producers, but a record
without an origin upstream must not pass unnoticed.

Several mirrors into one cluster (fan-in) are edges of their own, each judged for what its upstream
has; so are several out of one cluster (fan-out). A mirror may call a topic another name: verdicts
of the hop have the upstream's name, and counts downstream are looked up under the other name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from tallymark.deployment import Deployment
from tallymark_audit.model.cells import GROUP, LAKE, Edge

AUDIT_TOPIC = "_tallymark_audit"
"""Where reporters publish, on the cluster they report about."""

PRODUCER = "producer"


def derive_edges(deployment: Deployment) -> tuple[Edge, ...]:
    """All edges that the settings make, producers' first, in the order of the settings. Groups that
    are only known from their reports are added by :func:`discovered_group`."""
    targets = {mirror.target for mirror in deployment.mirrors}
    topics = deployment.audit.topics
    producers = tuple(
        Edge(
            name=f"{PRODUCER}-to-{cluster.name}",
            upstream=PRODUCER,
            downstream=cluster.name,
            kind="producer",
            topics=topics,
            implied=cluster.name in targets,
        )
        for cluster in deployment.clusters
    )
    mirrors = tuple(
        Edge(mirror.name, mirror.source, mirror.target, "mirror", topics, mirror=mirror)
        for mirror in deployment.mirrors
    )
    groups = tuple(
        consumer_edge(one.cluster, one.group, one.topics) for one in deployment.audit.consumers
    )
    return producers + mirrors + groups + _loads(deployment)


def _loads(deployment: Deployment) -> tuple[Edge, ...]:
    lake = deployment.lake
    if lake is None:
        return ()
    return tuple(
        Edge(
            f"{cluster.name}-to-{LAKE}",
            cluster.name,
            LAKE,
            "lake",
            lake.topics,
            overdue_ms=lake.overdue_ms,
        )
        for cluster in deployment.lake_clusters
    )


def consumer_edge(cluster: str, group: str, topics: str) -> Edge:
    """The hop from a cluster to a group that has to process ``topics`` (a regular expression)."""
    return Edge(f"{cluster}-to-{GROUP}{group}", cluster, f"{GROUP}{group}", "consumer", topics)


def discovered_group(cluster: str, group: str, topics: Iterable[str]) -> Edge:
    """The hop to a group that the settings do not name: it has to process the topics that it has
    reported on."""
    return consumer_edge(cluster, group, "|".join(map(re.escape, sorted(topics))) or "(?!)")


def edges_into(edges: Iterable[Edge], cluster: str) -> tuple[Edge, ...]:
    """The edges that the cluster's collector judges: those that end there, and those of its
    consumers."""
    return tuple(edge for edge in edges if edge.home == cluster)


def passes(edge: Edge, topic: str) -> bool:
    """Whether the upstream's topic crosses the edge and is counted on both sides; internal topics
    (leading ``_``) never are. Where a mirror renames, ``audit.topics`` has to match both names."""
    if not is_audited(topic, edge.topics):
        return False
    if edge.mirror is None:
        return True
    return edge.mirror.copies(topic) and is_audited(edge.downstream_topic(topic), edge.topics)


def collision(edge: Edge, topic: str, known: Iterable[str]) -> str:
    """Why the topic cannot be judged on the hop, ``""`` if it can: another of the upstream's
    ``known`` topics has the same name downstream. A producer run numbers its records for each
    topic, so the records of the two topics have equal numbers downstream."""
    downstream = edge.downstream_topic(topic)
    same = {one for one in edge.upstream_topics(downstream, known) if passes(edge, one)} | {topic}
    if len(same) == 1:
        return ""
    names = ", ".join(sorted(same))
    return (
        f"{edge.name} copies {names} into one topic {downstream}: records of the one cannot be "
        "told from those of the other; give each a name of its own (renames)"
    )


def origins(edges: Iterable[Edge], cluster: str) -> frozenset[str]:
    """The cluster and all that is mirrored into it, however many hops away."""
    above: dict[str, set[str]] = {}
    for edge in edges:
        if edge.kind == "mirror":
            above.setdefault(edge.downstream, set()).add(edge.upstream)
    found, left = {cluster}, [cluster]
    while left:
        fresh = above.get(left.pop(), set()) - found
        found |= fresh
        left += fresh
    return frozenset(found)


def is_audited(topic: str, pattern: str) -> bool:
    """Whether a topic is audited under the settings' ``audit.topics``."""
    return not topic.startswith("_") and bool(_compiled(pattern).fullmatch(topic))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def family(edges: Iterable[Edge], topic: str, most: int = 50) -> list[str]:
    """The topic, and what mirrors call its copies, theirs too; so many at most."""
    mirrors = [edge for edge in edges if edge.mirror is not None]
    names = [topic]
    for name in names:
        for edge in mirrors:
            assert edge.mirror is not None
            there = edge.downstream_topic(name)
            if edge.mirror.copies(name) and there not in names and len(names) < most:
                names.append(there)
    return names
