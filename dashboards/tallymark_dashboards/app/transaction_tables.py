"""The tables of transactions, as CSV and JSON: what is open, and where readers of committed
messages stand. From the snapshots in memory, as :mod:`.cluster_tables`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastapi import Request
from fastapi.responses import Response

from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import flag, listed, number, text, time
from tallymark_audit.api.lists import Listing
from tallymark_dashboards.app.table_fields import READ, Row, states_of, table_router
from tallymark_dashboards.snapshots.shapes import ClusterState

router = table_router("transactions")
OPEN: Final = Listing(
    "open_transactions",
    {
        "cluster": text("The cluster."),
        "number": number("The oldest transaction of the cluster is 0."),
        "transactional_id": text("The transactional id."),
        "state": text("Ongoing, PrepareCommit or PrepareAbort."),
        "producer_id": number("Its producer id."),
        "coordinator": number("The broker that coordinates it."),
        "started": time("When it began; -1: not known,"),
        "timeout_ms": number("After so long its coordinator aborts it (ms)."),
        "partitions": listed("The partitions that it has written to, or may have."),
        "behind": number("Messages that wait behind it, in the partition with the most."),
        "as_of": READ["as_of"],
    },
    {"cluster": str, "number": int},
)
STANDING: Final = Listing(
    "standing_partitions",
    {
        "cluster": text("The cluster."),
        "number": number("The partition of the cluster with the most messages behind is 0."),
        "topic": text("The topic."),
        "partition": number("The partition."),
        "stable": number("Where readers of committed messages stand."),
        "behind": number("Messages from there to the end."),
        "known": flag("Whether a coordinator has a transaction open there; else it may hang."),
        "as_of": READ["as_of"],
    },
    {"cluster": str, "number": int},
)


@lists.route(router, "/open-transactions", OPEN)
def open_transactions(
    request: Request, asked: params.Paged, cluster: params.ClusterName = None
) -> Response:
    """The oldest of the transactions that coordinators have open."""
    rows = [row for one in states_of(request, cluster) for row in _open(one)]
    return lists.answer_rows(request, OPEN, rows, asked)


@lists.route(router, "/standing-partitions", STANDING)
def standing_partitions(
    request: Request, asked: params.Paged, cluster: params.ClusterName = None
) -> Response:
    """The partitions in which readers of committed messages stand at an open transaction."""
    rows = [row for one in states_of(request, cluster) for row in _standing(one)]
    return lists.answer_rows(request, STANDING, rows, asked)


def _open(state: ClusterState) -> Iterator[Row]:
    for place, one in enumerate(state.transactions.value.opened):
        yield {
            "cluster": state.name,
            "number": place,
            "transactional_id": one.transactional_id,
            "state": one.state,
            "producer_id": one.producer_id,
            "coordinator": one.coordinator,
            "started": one.started,
            "timeout_ms": one.timeout_ms,
            "partitions": [f"{topic}-{partition}" for topic, partition in one.partitions],
            "behind": one.behind,
            "as_of": state.transactions.at,
        }


def _standing(state: ClusterState) -> Iterator[Row]:
    for place, one in enumerate(state.transactions.value.standing):
        yield {
            "cluster": state.name,
            "number": place,
            "topic": one.topic,
            "partition": one.partition,
            "stable": one.stable,
            "behind": one.behind,
            "known": one.known,
            "as_of": state.transactions.at,
        }
