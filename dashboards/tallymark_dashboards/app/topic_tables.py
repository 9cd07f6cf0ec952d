"""The tables of what is known of topics, as CSV and JSON: the topics of a cluster, their
partitions, the groups that read them. From the snapshots in memory, as :mod:`.cluster_tables`."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import Response

from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import flag, listed, number, text
from tallymark_audit.api.lists import Listing
from tallymark_dashboards.app.table_fields import (
    LAG,
    READ,
    Find,
    known,
    lag_row,
    states_of,
    table_router,
)
from tallymark_dashboards.frame.requests import context_of

MOST_TOPICS: Final = 50
"""Topics of one request: a topic and what mirrors call its copies."""
router = table_router("topics")
TOPICS: Final = Listing(
    "cluster_topics",
    {
        "cluster": text("The cluster."),
        "topic": text("The topic."),
        "internal": flag("Whether it is one of Kafka's or of ours."),
        "partitions": number("Its partitions."),
        "leaderless": number("Partitions without a leader."),
        "under_replicated": number("Partitions with a replica that is not in sync."),
        **READ,
    },
    {"cluster": str, "topic": str},
)
PARTITIONS: Final = Listing(
    "partitions",
    {
        "cluster": text("The cluster."),
        "topic": text("The topic."),
        "partition": number("The partition."),
        "leader": number("The broker that leads it; -1: none."),
        "replicas": listed("The brokers that have a replica."),
        "in_sync": listed("Those of them that are in sync."),
        "log_start": known("The first offset of the log."),
        "log_end": known("The offset after the last one."),
        **READ,
    },
    {"cluster": str, "topic": str, "partition": int},
)
TOPIC_GROUPS: Final = Listing(
    "topic_groups",
    {
        "topic": text("The topic."),
        "cluster": text("The cluster."),
        "group": text("A consumer group that has committed offsets of it, or consumes it."),
        **LAG,
    },
    {"topic": str, "cluster": str, "group": str},
)
TopicNames = Annotated[
    params.Names,
    Query(alias="topic", min_length=1, max_length=MOST_TOPICS, description="Of these topics."),
]


@lists.route(router, "/cluster-topics", TOPICS)
def cluster_topics(
    request: Request, asked: params.Paged, cluster: params.ClusterName = None, find: Find = ""
) -> Response:
    """The topics of the clusters."""
    rows = [
        {
            "cluster": state.name,
            "topic": one.name,
            "internal": one.internal,
            "partitions": len(one.partitions),
            "leaderless": len(one.leaderless),
            "under_replicated": len(one.under_replicated),
            "as_of": state.topics.at,
            "error": state.topics.error,
        }
        for state in states_of(request, cluster)
        for one in state.topics.value.values()
        if find.lower() in one.name.lower()
    ]
    return lists.answer_rows(request, TOPICS, rows, asked)


@lists.route(router, "/partitions", PARTITIONS)
def partitions(
    request: Request,
    asked: params.Paged,
    topics: TopicNames,
    cluster: params.ClusterName = None,
) -> Response:
    """The partitions of some topics on every cluster that has them."""
    rows = [
        {
            "cluster": state.name,
            "topic": name,
            "partition": one.partition,
            "leader": one.leader,
            "replicas": list(one.replicas),
            "in_sync": list(one.isr),
            "log_start": one.start,
            "log_end": one.end,
            "as_of": state.topics.at,
            "error": state.topics.error,
        }
        for state in states_of(request, cluster)
        for name in dict.fromkeys(topics)
        if name in state.topics.value
        for one in state.topics.value[name].partitions
    ]
    return lists.answer_rows(request, PARTITIONS, rows, asked)


@lists.route(router, "/topic-groups", TOPIC_GROUPS)
def topic_groups(
    request: Request,
    asked: params.Paged,
    topics: TopicNames,
    cluster: params.ClusterName = None,
) -> Response:
    """What each consumer group lacks of some topics."""
    snapshots = context_of(request).snapshots
    rows = [
        {"topic": name, "cluster": one.cluster, "group": one.group, **lag_row(one)}
        for name in dict.fromkeys(topics)
        for one in snapshots.lag_of(name, cluster or "")
    ]
    return lists.answer_rows(request, TOPIC_GROUPS, rows, asked)
