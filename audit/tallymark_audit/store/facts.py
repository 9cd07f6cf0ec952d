"""Read from the store what the verdict function asks for, for many windows at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import Connection, exists, func, select

from tallymark_audit.cells import CellKey
from tallymark_audit.sides import Claim, Observation, merge_claims, merge_observations
from tallymark_audit.store.rows import claim_from_row, observation_from_row, reporter_from_row
from tallymark_audit.store.tables import (
    claims,
    collectors,
    observations,
    progress,
    reporter_topics,
    reporters,
    window_changes,
)
from tallymark_audit.verdicts import ReporterFacts

ByWindow = Mapping[int, dict[CellKey, Observation]]
T = TypeVar("T")
CHUNK = 500
"""Values in one IN (...)."""


def observed(connection: Connection, cluster: str, topic: str, windows: Sequence[int]) -> ByWindow:
    """The observations of a cluster's counter, by window, each cell whole."""
    found: dict[int, list[Observation]] = defaultdict(list)
    for some in chunks(windows):
        query = select(observations).where(
            observations.c.cluster == cluster,
            observations.c.topic == topic,
            observations.c.window.in_(some),
            observations.c.tier == "cluster",
        )
        for row in connection.execute(query).mappings():
            found[row["window"]].append(observation_from_row(row))
    return {window: merge_observations(rows) for window, rows in found.items()}


def claimed(
    connection: Connection, cluster: str, topic: str, windows: Sequence[int]
) -> Mapping[int, dict[CellKey, Claim]]:
    """The claims on a cluster's audit topic, by window, each cell the union of its reporters."""
    found: dict[int, list[Claim]] = defaultdict(list)
    for some in chunks(windows):
        query = select(claims).where(
            claims.c.cluster == cluster,
            claims.c.topic == topic,
            claims.c.window.in_(some),
            claims.c.tier == "producer",
        )
        for row in connection.execute(query).mappings():
            found[row["window"]].append(claim_from_row(row))
    return {window: merge_claims(rows) for window, rows in found.items()}


def reporters_of(
    connection: Connection, cluster: str, topic: str, instances: Iterable[str]
) -> list[ReporterFacts]:
    """The reporters on a cluster that publish to the topic, and those of the instances."""
    publishing = select(reporter_topics.c.reporter).where(
        reporter_topics.c.cluster == cluster, reporter_topics.c.topic == topic
    )
    conditions = [reporters.c.reporter.in_(publishing)]
    conditions += [reporters.c.instance.in_(some) for some in chunks(sorted(set(instances)))]
    found: dict[str, ReporterFacts] = {}
    for condition in conditions:
        query = select(reporters).where(
            reporters.c.cluster == cluster, reporters.c.tier == "producer", condition
        )
        for row in connection.execute(query).mappings():
            facts = reporter_from_row(row).facts(retired=row["retired_at"] > 0)
            found[facts.reporter] = facts
    return list(found.values())


def homes(
    connection: Connection, clusters: Sequence[str], instances: Iterable[str]
) -> dict[str, str]:
    """On which of the clusters an instance reports."""
    found: dict[str, str] = {}
    for some in chunks(sorted(set(instances))):
        query = select(reporters.c.instance, reporters.c.cluster).where(
            reporters.c.instance.in_(some), reporters.c.cluster.in_(clusters)
        )
        found.update((instance, cluster) for instance, cluster in connection.execute(query))
    return found


def counted_through(connection: Connection, cluster: str, topic: str) -> int:
    """Up to when (ms) the cluster's collector had counted all there was of the topic; 0: never.
    Of a topic that does not exist it has counted all when it last looked for topics."""
    through = connection.scalar(
        select(func.min(progress.c.counted_through)).where(
            progress.c.cluster == cluster, progress.c.topic == topic
        )
    )
    if through is None:
        through = connection.scalar(
            select(collectors.c.discovered_through).where(collectors.c.cluster == cluster)
        )
    return through or 0


def mirrored_through(
    connection: Connection, upstream: str, downstream: str, topic: str
) -> dict[int, int]:
    """By partition, an offset upstream that the mirror has surely copied: where the newest cell
    begins of which anything arrived. Mirrors copy a partition in order."""
    up, down = observations.alias("up"), observations.alias("down")
    cell = ("tier", "topic", "window", "partition", "server", "instance")
    arrived = exists().where(
        down.c.cluster == downstream, *(down.c[name] == up.c[name] for name in cell)
    )
    partitions = select(progress.c.partition).where(
        progress.c.cluster == upstream, progress.c.topic == topic
    )
    found: dict[int, int] = {}
    for (partition,) in connection.execute(partitions).all():
        query = (
            select(up.c.first_offset)
            .where(
                up.c.cluster == upstream,
                up.c.seen_topic == topic,
                up.c.seen_partition == partition,
                arrived,
            )
            .order_by(up.c.last_offset.desc())
            .limit(1)
        )
        offset = connection.scalar(query)
        if offset is not None:
            found[partition] = offset
    return found


def changes(
    connection: Connection, clusters: Sequence[str], topic: str, windows: Sequence[int]
) -> dict[int, int]:
    """When (ms) a count or claim of a window last changed on any of the clusters."""
    found: dict[int, int] = {}
    for some in chunks(windows):
        query = (
            select(window_changes.c.window, func.max(window_changes.c.changed_at))
            .where(
                window_changes.c.cluster.in_(clusters),
                window_changes.c.topic == topic,
                window_changes.c.window.in_(some),
            )
            .group_by(window_changes.c.window)
        )
        found.update((window, at) for window, at in connection.execute(query))
    return found


def chunks(values: Sequence[T]) -> Iterable[Sequence[T]]:
    """The values in portions that fit one statement."""
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))
