"""k26 EndTxn: commit or abort a transaction.

Served 0-5.

* v2 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588); v3 flexible; v4 (KIP-890)
* v5 raises the epoch with each end, and answers what the next transaction uses (KIP-890)

Kept: it needs WRITE on the transactional id. The answer leaves when the decision is committed: from
then on it is final, and the markers follow. A repetition gets the same answer.
"""

from __future__ import annotations

from typing import Final

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.requests.transaction_coordinator import (
    authorized_shard,
    decided,
    fenced_as_of,
)
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.protocol.acls.words import Operation
from tallymark.protocol.messages import EndTxnRequest, EndTxnResponse
from tallymark.transactions.inputs import End
from tallymark.transactions.transaction import TV2

_FIRST_WITH_FENCED: Final = 2
_FIRST_OF_TV2: Final = 5


async def handle(state: BrokerState, request: EndTxnRequest, call: Call) -> EndTxnResponse:
    """Decide the outcome."""
    name = request.transactional_id
    try:
        shard = authorized_shard(state, call.connection, Operation.WRITE, name)
    except KafkaError as error:
        return EndTxnResponse(error_code=error.code)
    version = TV2 if call.version >= _FIRST_OF_TV2 else 0
    end = End(request.producer_id, request.producer_epoch, request.committed, version)
    found = await decided(state, lambda new_id: shard.end(name, end, new_id))
    if found.error:
        code = fenced_as_of(found.error, call.version, _FIRST_WITH_FENCED)
        return EndTxnResponse(error_code=code)
    return EndTxnResponse(producer_id=found.producer_id, producer_epoch=found.producer_epoch)


register(EndTxnRequest, handle)
