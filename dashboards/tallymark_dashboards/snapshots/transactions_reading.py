"""Transactions of one cluster: those that coordinators have open, and the partitions in which
readers of committed messages stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.transactions.describing import TransactionFilter, TransactionListing
from tallymark.client.admin.transactions.hanging import KnownTransaction
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_dashboards.snapshots.group_book import Ends
from tallymark_dashboards.snapshots.shapes import OpenTransaction, Standing, Transactions

MAX_DESCRIBED: Final = 500
"""Transactions that are described in one look."""
SHOWN: Final = 100
_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


def read_transactions(admin: Admin, ends: Mapping[TopicPartition, Ends]) -> Transactions:
    """Ask all coordinators. Raises the error of the first one that does not tell."""
    listed = admin.list_transactions(TransactionFilter(states=_OPEN))
    for error in listed.errors.values():
        raise error
    names = list(listed.transactions)[:MAX_DESCRIBED]
    described = admin.describe_transactions(names).done if names else {}
    return transactions_of(listed.transactions, described, ends)


def transactions_of(
    listed: Mapping[str, TransactionListing],
    described: Mapping[str, KnownTransaction],
    ends: Mapping[TopicPartition, Ends],
) -> Transactions:
    """What pages show of it. Pure."""
    opened = sorted(
        (_opened(one, described.get(name), ends) for name, one in listed.items()),
        key=lambda one: (one.started < 0, one.started, one.transactional_id),
    )
    known = {at for one in opened for at in one.partitions}
    standing = sorted(
        (
            Standing(*at, one.stable or 0, one.behind_open, at in known)
            for at, one in ends.items()
            if one.behind_open
        ),
        key=lambda one: (-one.behind, one.topic, one.partition),
    )
    return Transactions(tuple(opened[:SHOWN]), tuple(standing[:SHOWN]), len(opened), len(standing))


def _opened(
    listed: TransactionListing,
    known: KnownTransaction | None,
    ends: Mapping[TopicPartition, Ends],
) -> OpenTransaction:
    head = listed.transactional_id, listed.state, listed.producer_id, listed.coordinator
    if known is None:
        return OpenTransaction(*head)
    partitions = tuple(sorted(known.partitions))
    behind = max((ends[at].behind_open for at in partitions if at in ends), default=0)
    return OpenTransaction(*head, known.started_ms, known.timeout_ms, partitions, behind)
