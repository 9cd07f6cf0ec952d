"""AddOffsetsToTxn (key 25): the offsets of a group join a transaction.

What joins is the partition of ``__consumer_offsets`` that has the group: it gets a marker when the
transaction ends. With ``transaction.version`` 2 no producer sends it: TxnOffsetCommit v5 adds the
group by itself (KIP-890).

* v2 may answer PRODUCER_FENCED (KIP-588); v3 is flexible
* v4 may answer TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import Int16, Int32, Int64, Message, Request, String, f, wire


@wire
class AddOffsetsToTxnResponse(Message):
    """Whether the group's offsets are in the transaction."""

    api_key = ApiKey.ADD_OFFSETS_TO_TXN
    valid_versions = (0, 4)
    flexible_from = 3

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why they are not; then no offsets may be sent for it.")


@wire
class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    """Add the offsets of a group to a transaction, before they are sent with TxnOffsetCommit."""

    api_key = ApiKey.ADD_OFFSETS_TO_TXN
    valid_versions = (0, 4)
    flexible_from = 3

    transactional_id: str = f(String, about="The transactional id.")
    producer_id: int = f(Int64, about="Its producer id.")
    producer_epoch: int = f(Int16, about="The epoch of that.")
    group_id: str = f(String, about="The group.")
