"""Counts of a cluster's snapshot: its topics and partitions, what each broker has and leads, and
the partitions that are in danger. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tallymark_dashboards.snapshots.shapes import ClusterState, PartitionState


@dataclass(frozen=True, slots=True)
class BadPartition:
    """A partition without a leader, with fewer replicas in sync than acks=all asks for
    (``below_min``), or with a replica that is not in sync. ``min_insync``: None where it is not
    known. ``since``: when it was seen first (ms; 0: not known)."""

    topic: str
    partition: int
    leaderless: bool
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    below_min: bool = False
    min_insync: int | None = None
    since: int = 0

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        """The replicas that are not in sync."""
        return tuple(one for one in self.replicas if one not in self.isr)


@dataclass(slots=True)
class BrokerCounts:
    """Partitions of a broker: ``replicas`` that it has, ``behind`` of them not in sync; those that
    it ``leads``, of which it is the ``preferred`` leader (the first replica); and those that prefer
    it and that another leads, or none (``elsewhere``)."""

    replicas: int = 0
    behind: int = 0
    leads: int = 0
    preferred: int = 0
    elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """Numbers of a cluster; None where they are not known. ``brokers``: by id, those that live and
    those that only have replicas. ``bad``: the partitions in danger, those without a leader first,
    then those that refuse acks=all."""

    topics: int | None
    partitions: int | None
    leaderless: int | None
    below_min: int | None
    under_replicated: int | None
    groups: int | None
    brokers: dict[int, BrokerCounts]
    bad: tuple[BadPartition, ...]


def counts_of(state: ClusterState) -> ClusterCounts:
    """Count what was read of a cluster."""
    known = state.brokers.value
    brokers = {one.id: BrokerCounts() for one in known.brokers} if known else {}
    bad: list[BadPartition] = []
    partitions = leaderless = below = under = 0
    for topic in state.topics.value.values():
        for one in topic.partitions:
            partitions += 1
            _count(brokers, one)
            if not one.leaderless and not one.under_replicated:
                continue
            short = topic.below_min(one)
            leaderless += one.leaderless
            below += short
            under += one.under_replicated
            since = state.short_since.get((topic.name, one.partition), 0)
            bad.append(
                BadPartition(
                    topic.name, one.partition, one.leaderless, one.replicas, one.isr, short,
                    topic.min_insync, since,
                )
            )  # fmt: skip
    bad.sort(key=lambda one: (not one.leaderless, not one.below_min, one.topic, one.partition))
    read = bool(state.topics.at)
    return ClusterCounts(
        len(state.topics.value) if read else None,
        partitions if read else None,
        leaderless if read else None,
        below if read else None,
        under if read else None,
        len(state.all_groups) if state.groups.at or state.zookeeper.at else None,
        brokers,
        tuple(bad),
    )


def _count(brokers: dict[int, BrokerCounts], one: PartitionState) -> None:
    for number, node in enumerate(one.replicas):
        of = brokers.setdefault(node, BrokerCounts())
        of.replicas += 1
        of.behind += node not in one.isr
        if number == 0 and one.leader == node:
            of.preferred += 1
        elif number == 0:
            of.elsewhere += 1
    if one.leader >= 0:
        brokers.setdefault(one.leader, BrokerCounts()).leads += 1
