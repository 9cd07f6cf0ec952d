"""k22 InitProducerId: an id for an idempotent producer.

Served 0-5.

* v0 a unique id, with epoch 0
* v2 flexible
* v3 a producer may send its present id to raise its epoch (KIP-360); without a transactional id
  the answer is a new id, which has the same effect
* v4, v5 other error codes of transactions (KIP-588, KIP-890)

Kept: it needs WRITE on any topic at all, or IDEMPOTENT_WRITE on the cluster (KIP-679). Simplified:
transactions are not served. A transactional id is refused with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients report at once and do not retry; an empty one
with INVALID_REQUEST, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import Who
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import InitProducerIdRequest, InitProducerIdResponse


def handle(
    state: BrokerState, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Return the next id."""
    if request.transactional_id is None:
        if not _may_write(state, call.connection):
            return _refused(CODES["CLUSTER_AUTHORIZATION_FAILED"])
        return _next(state)
    code = (
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" if request.transactional_id else "INVALID_REQUEST"
    )
    return _refused(CODES[code])


def _may_write(state: BrokerState, who: Who) -> bool:
    may, somewhere = state.authorizer.may, state.authorizer.may_somewhere
    return somewhere(who, Operation.WRITE, ResourceType.TOPIC) or may(
        who, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
    )


async def _next(state: BrokerState) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(
            producer_id=await state.cluster.next_producer_id(), producer_epoch=0
        )
    except KafkaError as error:
        return _refused(error.code)


def _refused(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


register(InitProducerIdRequest, handle)
