"""EndTxn (key 26): commit or abort a transaction.

* v2 may answer PRODUCER_FENCED (KIP-588); v3 is flexible
* v4 may answer TRANSACTION_ABORTABLE; v5 raises the epoch, and answers the next one (KIP-890)
"""

from __future__ import annotations

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import Bool, Int16, Int32, Int64, Message, Request, String, f, wire


@wire
class EndTxnResponse(Message):
    """Whether the outcome is decided."""

    api_key = ApiKey.END_TXN
    valid_versions = (0, 5)
    flexible_from = 3

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why it is not.")
    producer_id: int = f(
        Int64, since=5, default=-1, about="Producer id of the next transaction, or -1."
    )
    producer_epoch: int = f(
        Int16, since=5, default=-1, about="Epoch of the next transaction, or -1."
    )


@wire
class EndTxnRequest(Request[EndTxnResponse]):
    """Commit or abort."""

    api_key = ApiKey.END_TXN
    valid_versions = (0, 5)
    flexible_from = 3

    transactional_id: str = f(String, about="The transactional id.")
    producer_id: int = f(Int64, about="Its producer id.")
    producer_epoch: int = f(Int16, about="The epoch of that.")
    committed: bool = f(Bool, about="True to commit, false to abort.")
