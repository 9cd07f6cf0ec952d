"""Counts of a cluster's snapshot: its topics and partitions, the partitions that each broker leads,
and those that are in danger. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tallymark_dashboards.snapshots.shapes import ClusterState


@dataclass(frozen=True, slots=True)
class BadPartition:
    """A partition without a leader, or with a replica that is not in sync."""

    topic: str
    partition: int
    leaderless: bool
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """Numbers of a cluster; None where they are not known. ``leads``: partitions by broker.
    ``bad``: the partitions in danger, those without a leader first."""

    topics: int | None
    partitions: int | None
    leaderless: int | None
    under_replicated: int | None
    groups: int | None
    leads: dict[int, int]
    bad: tuple[BadPartition, ...]


def counts_of(state: ClusterState) -> ClusterCounts:
    """Count what was read of a cluster."""
    brokers = state.brokers.value
    leads = {one.id: 0 for one in brokers.brokers} if brokers else {}
    bad: list[BadPartition] = []
    partitions = leaderless = under = 0
    for topic in state.topics.value.values():
        for one in topic.partitions:
            partitions += 1
            leaderless += one.leaderless
            under += one.under_replicated
            if one.leader >= 0:
                leads[one.leader] = leads.get(one.leader, 0) + 1
            if one.leaderless or one.under_replicated:
                bad.append(
                    BadPartition(topic.name, one.partition, one.leaderless, one.replicas, one.isr)
                )
    bad.sort(key=lambda one: (not one.leaderless, one.topic, one.partition))
    known = bool(state.topics.at)
    return ClusterCounts(
        len(state.topics.value) if known else None,
        partitions if known else None,
        leaderless if known else None,
        under if known else None,
        len(state.all_groups) if state.groups.at or state.zookeeper.at else None,
        leads,
        tuple(bad),
    )
