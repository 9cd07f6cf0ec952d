"""k22 InitProducerId: an id for an idempotent or transactional producer.

Served 0-5.

* v0 a unique id, with epoch 0
* v2 flexible
* v3 a producer may send its present id to raise its epoch (KIP-360); without a transactional id
  the answer is a new id, which has the same effect
* v4 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588); v5 (KIP-890)

Kept: without a transactional id it needs WRITE on any topic at all, or IDEMPOTENT_WRITE on the
cluster (KIP-679). With one it needs WRITE on that, fences the producer before it, and aborts what
that has left open: the client gets CONCURRENT_TRANSACTIONS until this is complete. The answer
leaves when the new epoch is committed. Simplified: no two-phase commit (KIP-939), so no v6.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.requests.transaction_coordinator import (
    authorized_shard,
    decided,
    fenced_as_of,
)
from tallymark.broker.security.authorizer import Who
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from tallymark.transactions.inputs import Initialise
from tallymark.transactions.transaction import NONE

_FIRST_WITH_FENCED: Final = 4


def handle(
    state: BrokerState, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Return the next id, or the next epoch of a transactional id."""
    if request.transactional_id is None:
        if not _may_write(state, call.connection):
            return _refused(CODES["CLUSTER_AUTHORIZATION_FAILED"])
        return _next(state)
    return _initialise(state, request.transactional_id, request, call)


async def _initialise(
    state: BrokerState, transactional_id: str, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse:
    try:
        shard = authorized_shard(state, call.connection, Operation.WRITE, transactional_id)
        wanted = Initialise(
            transactional_id,
            request.transaction_timeout_ms,
            request.producer_id,
            request.producer_epoch,
        )
        _check(wanted, state.settings.transaction_max_timeout_ms)
    except KafkaError as error:
        return _refused(error.code)
    found = await decided(state, lambda new_id: shard.initialise(wanted, new_id))
    if found.error:
        return _refused(fenced_as_of(found.error, call.version, _FIRST_WITH_FENCED))
    return InitProducerIdResponse(
        producer_id=found.producer_id, producer_epoch=found.producer_epoch
    )


def _check(wanted: Initialise, max_timeout_ms: int) -> None:
    if not 1 <= wanted.timeout_ms <= max_timeout_ms:
        raise KafkaError(
            CODES["INVALID_TRANSACTION_TIMEOUT"],
            f"{wanted.timeout_ms} ms; 1 to {max_timeout_ms} are allowed",
        )
    if (wanted.producer_id == NONE) != (wanted.producer_epoch == NONE):
        raise KafkaError(CODES["INVALID_REQUEST"], "a producer id comes with its epoch")


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
