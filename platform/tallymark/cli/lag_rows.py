"""A group and a partition as a row of a table."""

from __future__ import annotations

from typing import Any, Final

from tallymark.client.admin.lag import PartitionLag

LAG_COLUMNS: Final = ("group", "topic", "partition", "offset", "log size", "lag", "owner")
"""The columns of the seeds' consumer offset checker. The log size is the log's next offset."""


def lag_row(group: str, lag: PartitionLag) -> dict[str, Any]:
    """Everything that is known."""
    owner = lag.owner
    return {
        "group": group,
        "topic": lag.topic,
        "partition": lag.partition,
        "offset": lag.offset,
        "log start": lag.log_start,
        "log size": lag.log_end,
        "lag": lag.lag,
        "owner": owner.member_id if owner else None,
        "host": owner.host if owner else None,
        "client": owner.client_id if owner else None,
    }
