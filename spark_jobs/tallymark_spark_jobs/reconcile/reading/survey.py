"""Look at the clusters before Spark starts: whether they run, their topics, and what has expired.

It takes milliseconds, and reports a cluster that cannot be reached ten seconds before Spark could.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tallymark.client import SimpleConsumer, TopicInfo
from tallymark.client.core.security.deployment import ConnectionSettings, connection_settings
from tallymark.clock import now_ms
from tallymark.deployment import Cluster, Deployment
from tallymark.errors import CorruptRecordError, TallymarkError, UserError
from tallymark.patterns import pattern_given
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import AUDIT_TOPIC, derive_edges, is_audited, passes

NOT_KNOWN = -(1 << 63)
"""Of a log whose first batch cannot be read. Nothing of it is judged anyway."""
TIMEOUT_MS = 10_000
"""How long a cluster has to answer before it counts as unreachable."""


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """One cluster. ``topics``: those to count. ``retained_from``: by topic (the audit topic too),
    the time (ms) before which records may have expired; absent where all are still there."""

    name: str
    connection: ConnectionSettings = field(repr=False)
    topics: tuple[str, ...]
    has_claims: bool
    retained_from: Mapping[str, int]


def survey(deployment: Deployment, topics: str | None = None) -> list[ClusterSurvey]:
    """Every cluster that is at an end of an edge. ``topics`` narrows, as a regular expression.

    Raises UserError naming the cluster that cannot be reached."""
    wanted = pattern_given("--topic", topics or ".*")
    return [_cluster(deployment, cluster, wanted) for cluster in deployment.clusters]


def _cluster(deployment: Deployment, cluster: Cluster, wanted: re.Pattern[str]) -> ClusterSurvey:
    edges = [
        edge
        for edge in derive_edges(deployment)
        if cluster.name in (edge.upstream, edge.downstream)
    ]
    try:
        with SimpleConsumer(
            **connection_settings(cluster),
            client_id="tallymark-reconcile",
            request_timeout_ms=TIMEOUT_MS,
        ) as consumer:
            there = consumer.topics()
            audited = sorted(
                name
                for name in there
                if wanted.fullmatch(name)
                and is_audited(name, deployment.audit.topics)
                and any(_is_counted(edge, cluster.name, name) for edge in edges)
            )
            look = [*audited, AUDIT_TOPIC] if AUDIT_TOPIC in there else audited
            return ClusterSurvey(
                name=cluster.name,
                connection=connection_settings(cluster),
                topics=tuple(audited),
                has_claims=AUDIT_TOPIC in there,
                retained_from=_retained(consumer, look, there),
            )
    except UserError:
        raise
    except (TallymarkError, OSError) as error:
        raise UserError(
            f"cluster {cluster.name} cannot be read: {error}", "see that its brokers run"
        ) from error


def _is_counted(edge: Edge, cluster: str, name: str) -> bool:
    """Whether the edge needs a count of the cluster's topic: upstream if the topic passes the edge,
    downstream always, since mirrors may rename topics."""
    return edge.downstream == cluster or passes(edge, name)


def _retained(
    consumer: SimpleConsumer, names: Iterable[str], there: Mapping[str, TopicInfo]
) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        first, last = consumer.start_offsets(name), consumer.end_offsets(name)
        times = [
            _first_time(consumer, name, partition, first[partition], last[partition])
            for partition in there[name].partitions
            if first.get(partition, 0) > 0 and partition in last
        ]
        if times:
            found[name] = max(times)
    return found


def _first_time(consumer: SimpleConsumer, topic: str, partition: int, first: int, end: int) -> int:
    """The time of the first record that is left; of a log with none left, now."""
    if first < end:
        try:
            for record in consumer.fetch(topic, partition, first, max_bytes=1).records():
                return record.timestamp
        except CorruptRecordError:
            return NOT_KNOWN
    return now_ms()
