"""InitProducerId (key 22): an id for an idempotent or transactional producer.

* v2 is flexible, v3 raises the epoch of an id the producer has already (KIP-360)
* v5 may answer TRANSACTION_ABORTABLE (KIP-890), v6 is for two-phase commit (KIP-939)
"""

from __future__ import annotations

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import Bool, Int16, Int32, Int64, Message, Request, String, f, wire


@wire
class InitProducerIdResponse(Message):
    """The id and its epoch."""

    api_key = ApiKey.INIT_PRODUCER_ID
    valid_versions = (0, 6)
    flexible_from = 2

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why there is no id.")
    producer_id: int = f(Int64, default=-1, about="The producer id.")
    producer_epoch: int = f(Int16, about="Its epoch.")
    ongoing_txn_producer_id: int = f(
        Int64, since=6, default=-1, about="Producer id of the transaction kept open, or -1."
    )
    ongoing_txn_producer_epoch: int = f(
        Int16, since=6, default=-1, about="Epoch of the transaction kept open, or -1."
    )


@wire
class InitProducerIdRequest(Request[InitProducerIdResponse]):
    """Ask for an id, or for the next epoch of one."""

    api_key = ApiKey.INIT_PRODUCER_ID
    valid_versions = (0, 6)
    flexible_from = 2

    transactional_id: str | None = f(
        String, nullable_since=0, default=None, about="The transactional id, or null."
    )
    transaction_timeout_ms: int = f(Int32, about="When a transaction of this producer is given up.")
    producer_id: int = f(Int64, since=3, default=-1, about="Id held so far, or -1.")
    producer_epoch: int = f(Int16, since=3, default=-1, about="Epoch held so far, or -1.")
    enable_2pc: bool = f(Bool, since=6, about="Whether two-phase commit is wanted.")
    keep_prepared_txn: bool = f(
        Bool, since=6, about="Whether an open transaction is kept instead of aborted."
    )
