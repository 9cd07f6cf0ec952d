"""The hops that are judged, derived from the settings; nobody draws the graph twice.

Every cluster has an edge from its producers, judged by the claims on its own audit topic, and
every mirror is an edge. The producer edge of a mirror's target is *implied*: most targets have no
producers, but a record that turns up there and comes from nowhere must not pass unseen.
"""

from __future__ import annotations

import re
from functools import cache

from tallymark.deployment import Deployment
from tallymark_audit.cells import Edge

AUDIT_TOPIC = "_tallymark_audit"
"""Where reporters publish, on the cluster they report about."""

PRODUCER = "producer"


def derive_edges(deployment: Deployment) -> tuple[Edge, ...]:
    """All edges of the deployment, producers' first, in the order of the settings."""
    targets = {mirror.target for mirror in deployment.mirrors}
    producers = tuple(
        Edge(
            name=f"{PRODUCER}-to-{cluster.name}",
            upstream=PRODUCER,
            downstream=cluster.name,
            kind="producer",
            topics=deployment.audit.topics,
            implied=cluster.name in targets,
        )
        for cluster in deployment.clusters
    )
    mirrors = tuple(
        Edge(
            name=mirror.name,
            upstream=mirror.source,
            downstream=mirror.target,
            kind="mirror",
            # Both sides are compared by the topic's name: a renamed topic is not judged on the hop.
            topics=mirror.same_names,
        )
        for mirror in deployment.mirrors
    )
    return producers + mirrors


def edges_into(edges: tuple[Edge, ...], cluster: str) -> tuple[Edge, ...]:
    """The edges that end at the cluster: those its collector judges."""
    return tuple(edge for edge in edges if edge.downstream == cluster)


def passes(edge: Edge, topic: str) -> bool:
    """Whether the topic crosses the edge; internal topics (leading ``_``) never do."""
    return is_audited(topic, edge.topics)


def is_audited(topic: str, pattern: str) -> bool:
    """Whether a topic is audited under the settings' ``audit.topics``."""
    return not topic.startswith("_") and bool(_compiled(pattern).fullmatch(topic))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
