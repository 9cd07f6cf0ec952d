"""The open transactions that counting waits for, as the positions of partitions have them."""

from __future__ import annotations

from sqlalchemy import Connection, select

from tallymark_audit.model.open_transaction import OpenTransaction
from tallymark_audit.store.counted.deleted import is_there
from tallymark_audit.store.schema.tables import progress


def open_transactions(
    connection: Connection, cluster: str, topic: str | None = None
) -> tuple[OpenTransaction, ...]:
    """Those of a cluster, or of one of its topics, the oldest first."""
    query = select(progress).where(
        progress.c.cluster == cluster, progress.c.open_offset >= 0, is_there(progress)
    )
    if topic is not None:
        query = query.where(progress.c.topic == topic)
    query = query.order_by(progress.c.open_since, progress.c.topic, progress.c.partition)
    return tuple(
        OpenTransaction(
            cluster,
            row["topic"],
            row["partition"],
            row["open_offset"],
            row["open_producer"],
            row["open_since"],
            row["counted_through"],
            row["open_timeout"],
        )
        for row in connection.execute(query).mappings()
    )
