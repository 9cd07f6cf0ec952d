"""The lag of a group in one partition, as a row of a table."""

from __future__ import annotations

from typing import Any, Final

from tallymark.client.admin.lag import PartitionLag

LAG_COLUMNS: Final = {
    "group": "GROUP",
    "topic": "TOPIC",
    "partition": "PARTITION",
    "offset": "CURRENT-OFFSET",
    "log size": "LOG-END-OFFSET",
    "lag": "LAG",
    "owner": "CONSUMER-ID",
    "host": "HOST",
    "client": "CLIENT-ID",
    "committed lag": "COMMITTED-LAG",
    "behind open": "BEHIND-OPEN-TRANSACTION",
}
"""The columns of kafka-consumer-groups.sh, by the keys of :func:`lag_row`, which are older. The log
end offset is the log's next one. Behind them: the lag of a reader of committed messages, which ends
at the first open transaction, and how many messages of the log are behind that."""


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
        "stable end": lag.stable_end,
        "committed lag": lag.committed_lag,
        "behind open": lag.behind_open,
        "owner": owner.member_id if owner else None,
        "host": owner.host if owner else None,
        "client": owner.client_id if owner else None,
    }
