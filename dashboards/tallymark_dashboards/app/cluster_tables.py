"""The tables of what is known of the clusters, as CSV and JSON: clusters, brokers, partitions in
danger, consumer groups. Rows come from the snapshots in memory; neither the store nor a broker is
asked. Forms, cursors and errors are those of the audit's API (:mod:`tallymark_audit.api.lists`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import Response

from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import flag, listed, number, text, time
from tallymark_audit.api.lists import Listing
from tallymark_dashboards.app.table_fields import (
    LAG,
    READ,
    Find,
    GroupName,
    Row,
    known,
    lag_row,
    states_of,
    table_router,
)
from tallymark_dashboards.snapshots.broker_rows import broker_rows
from tallymark_dashboards.snapshots.cluster_counts import counts_of
from tallymark_dashboards.snapshots.shapes import (
    ClusterState,
    GroupPartition,
    GroupState,
    Status,
)

router = table_router("clusters")
CLUSTERS: Final = Listing(
    "clusters",
    {
        "cluster": text("The name of the cluster."),
        "address": text("Where its brokers are asked."),
        "brokers": known("Its brokers."),
        "topics": known("Its topics."),
        "partitions": known("Their partitions."),
        "leaderless": known("Partitions without a leader."),
        "below_min": known("Partitions that refuse acks=all: too few replicas are in sync."),
        "under_replicated": known("Partitions with a replica that is not in sync."),
        "groups": known("Its consumer groups."),
        "left_out": text("What is not kept in memory, because there is too much."),
        **READ,
        "topics_as_of": time("When its topics were read; 0: never,"),
    },
    {"cluster": str},
)
BROKERS: Final = Listing(
    "brokers",
    {
        "cluster": text("The cluster."),
        "broker": number("The id of the broker."),
        "address": text("Its address for clients."),
        "rack": text("Its rack; empty: none."),
        "controller": flag("Whether it is the controller."),
        "fenced": flag("Whether it must not serve clients."),
        "lives": flag("Whether it is there; a broker that is gone may still have replicas."),
        "leads": number("Partitions that it leads."),
        "preferred": number("Of these, those whose preferred leader it is."),
        "led_elsewhere": number("Partitions that prefer it and have another leader, or none."),
        "replicas": number("Partitions that it has a replica of."),
        "not_in_sync": number("Of these, those in which it is not in sync."),
        "as_of": READ["as_of"],
    },
    {"cluster": str, "broker": int},
)
DANGER: Final = Listing(
    "partitions_in_danger",
    {
        "cluster": text("The cluster."),
        "topic": text("The topic."),
        "partition": number("The partition."),
        "leaderless": flag("It has no leader; else a replica is not in sync."),
        "replicas": listed("The brokers that have a replica."),
        "in_sync": listed("Those of them that are in sync."),
        "below_min": flag("It refuses acks=all: too few are in sync."),
        "min_in_sync": known("min.insync.replicas of its topic."),
        "since": time("When that was seen first; 0: not known,"),
        "as_of": READ["as_of"],
    },
    {"cluster": str, "topic": str, "partition": int},
)
ISR_CHANGES: Final = Listing(
    "isr_changes",
    {
        "cluster": text("The cluster."),
        "number": number("The newest change of the cluster is 0."),
        "at": time("When it was seen,"),
        "after": time("The look before, when it was not so yet,"),
        "broker": number("The broker that left an ISR or joined it."),
        "change": text("left or joined."),
        "why": text("What can be seen of the reason from outside; the leader's log has the rest."),
        "partitions": number("Of how many partitions."),
        "led": number("How many of them the broker led before."),
        "named": listed("The first of these partitions."),
    },
    {"cluster": str, "number": int},
)
GROUPS: Final = Listing(
    "groups",
    {
        "cluster": text("The cluster."),
        "kept": text("Where its state is kept: brokers or zookeeper."),
        "group": text("The consumer group."),
        "state": text("As its coordinator calls it."),
        "members": number("Its members."),
        **LAG,
        "why": text("Why it has this status."),
        **READ,
    },
    {"cluster": str, "kept": str, "group": str},
)
GROUP_PARTITIONS: Final = Listing(
    "group_partitions",
    {
        "cluster": text("The cluster."),
        "kept": text("Where the state of the group is kept: brokers or zookeeper."),
        "group": text("The consumer group."),
        "topic": text("The topic."),
        "partition": number("The partition."),
        "offset": known("The next offset that the group reads."),
        "log_start": known("The first offset of the log."),
        "log_end": known("The offset after the last one."),
        "owner": text("The member that has the partition; empty: none."),
        **LAG,
        "committed_lag": known("The lag of a reader of committed messages, to where it can get."),
        "behind_open": number("Messages of the log that are behind an open transaction."),
        "why": text("Why it has this status."),
    },
    {"cluster": str, "kept": str, "group": str, "topic": str, "partition": int},
)


@lists.route(router, "/clusters", CLUSTERS)
def clusters(request: Request, asked: params.Paged) -> Response:
    """The clusters, as their brokers last answered."""
    rows = [_cluster(one) for one in states_of(request, None)]
    return lists.answer_rows(request, CLUSTERS, rows, asked)


@lists.route(router, "/brokers", BROKERS)
def brokers(request: Request, asked: params.Paged, cluster: params.ClusterName = None) -> Response:
    """The brokers of the clusters, and how many partitions each leads."""
    rows = [row for one in states_of(request, cluster) for row in _brokers(one)]
    return lists.answer_rows(request, BROKERS, rows, asked)


@lists.route(router, "/partitions-in-danger", DANGER)
def partitions_in_danger(
    request: Request, asked: params.Paged, cluster: params.ClusterName = None
) -> Response:
    """The partitions that have no leader, or a replica that is not in sync."""
    rows = [row for one in states_of(request, cluster) for row in _in_danger(one)]
    return lists.answer_rows(request, DANGER, rows, asked)


@lists.route(router, "/isr-changes", ISR_CHANGES)
def isr_changes(
    request: Request, asked: params.Paged, cluster: params.ClusterName = None
) -> Response:
    """Which brokers left the replicas in sync of partitions, or came back, as far as these
    dashboards have seen it."""
    rows = [row for one in states_of(request, cluster) for row in _isr_changes(one)]
    return lists.answer_rows(request, ISR_CHANGES, rows, asked)


@lists.route(router, "/groups", GROUPS)
def groups(
    request: Request,
    asked: params.Paged,
    cluster: params.ClusterName = None,
    status: Annotated[list[Status], Query(description="Only these.")] = [],  # noqa: B006
    find: Find = "",
) -> Response:
    """The consumer groups, with what each lacks of all its partitions."""
    rows = [
        _group(state.name, one)
        for state in states_of(request, cluster)
        for one in state.all_groups
        if (not status or one.status in status) and find.lower() in one.group.lower()
    ]
    return lists.answer_rows(request, GROUPS, rows, asked)


@lists.route(router, "/group-partitions", GROUP_PARTITIONS)
def group_partitions(
    request: Request,
    asked: params.Paged,
    cluster: params.ClusterName = None,
    group: GroupName = None,
) -> Response:
    """How far each group is in each partition."""
    rows = [
        {"cluster": state.name, "kept": one.kept, "group": one.group, **_partition(each)}
        for state in states_of(request, cluster)
        for one in state.all_groups
        if group in (None, one.group)
        for each in one.partitions
    ]
    return lists.answer_rows(request, GROUP_PARTITIONS, rows, asked)


def _cluster(state: ClusterState) -> Row:
    counts, brokers = counts_of(state), state.brokers
    return {
        "cluster": state.name,
        "address": state.address,
        "brokers": len(brokers.value.brokers) if brokers.value else None,
        "topics": counts.topics,
        "partitions": counts.partitions,
        "leaderless": counts.leaderless,
        "below_min": counts.below_min,
        "under_replicated": counts.under_replicated,
        "groups": counts.groups,
        "left_out": state.left_out,
        "as_of": brokers.at,
        "error": brokers.error,
        "topics_as_of": state.topics.at,
    }


def _brokers(state: ClusterState) -> Iterator[Row]:
    if state.brokers.value is None:
        return
    for one in broker_rows(state, counts_of(state)):
        yield {
            "cluster": state.name,
            "broker": one.id,
            "address": one.address,
            "rack": one.rack,
            "controller": one.controller,
            "fenced": one.fenced,
            "lives": bool(one.lives),
            "leads": one.counts.leads,
            "preferred": one.counts.preferred,
            "led_elsewhere": one.counts.elsewhere,
            "replicas": one.counts.replicas,
            "not_in_sync": one.counts.behind,
            "as_of": state.brokers.at,
        }


def _isr_changes(state: ClusterState) -> Iterator[Row]:
    for place, one in enumerate(state.isr_changes):
        yield {
            "cluster": state.name,
            "number": place,
            "at": one.at,
            "after": one.after,
            "broker": one.broker,
            "change": one.change,
            "why": one.why,
            "partitions": one.count,
            "led": one.led,
            "named": list(one.named),
        }


def _in_danger(state: ClusterState) -> Iterator[Row]:
    for one in counts_of(state).bad:
        yield {
            "cluster": state.name,
            "topic": one.topic,
            "partition": one.partition,
            "leaderless": one.leaderless,
            "replicas": list(one.replicas),
            "in_sync": list(one.isr),
            "below_min": one.below_min,
            "min_in_sync": one.min_insync,
            "since": one.since,
            "as_of": state.topics.at,
        }


def _group(cluster: str, one: GroupState) -> Row:
    return {
        "cluster": cluster,
        "kept": one.kept,
        "group": one.group,
        "state": one.state,
        "members": len(one.members),
        **lag_row(one),
        "why": one.why,
        "as_of": one.at,
        "error": one.error,
    }


def _partition(one: GroupPartition) -> Row:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "log_start": one.start,
        "log_end": one.end,
        "owner": one.owner,
        **lag_row(one),
        "committed_lag": one.committed_lag,
        "behind_open": one.behind_open,
        "why": one.why,
    }
