"""k28 TxnOffsetCommit: remember how far a group has read, if the transaction commits.

Served 0-5.

* v2 leader epochs
* v3 member, generation and static id are checked (KIP-447), so that a member which has lost its
  partitions cannot commit with another transactional id; flexible
* v4 TRANSACTION_ABORTABLE; v5 adds the group to the transaction (KIP-890)

Kept: WRITE on the transactional id, READ on the group and on each topic. The first commit of a
transaction waits until the coordinator has said that the group's partition of
``__consumer_offsets`` is in it. The offsets are in force when the marker is written: until then
OffsetFetch tells of them only as unstable (:mod:`tallymark.groups.pending`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final

from tallymark.broker.coordinators.refusals import refusal_of
from tallymark.broker.coordinators.settled import when
from tallymark.broker.coordinators.state_log import TransactionOf
from tallymark.broker.groups.shard import GroupShard
from tallymark.broker.partitions.verifier import InTransaction, check_of
from tallymark.broker.requests.group_coordinator import authorized_shard, commits_of
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.groups.offsets import Commit, Committer
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tallymark.transactions.verifying import code_for_client

_FIRST_WITH_ABORTABLE: Final = 4
_FIRST_THAT_ADDS: Final = 5


def handle(
    state: BrokerState, request: TxnOffsetCommitRequest, call: Call
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Verify, then decide, append, replay, answer."""
    commits = list(commits_of(state, call.connection, request.topics))
    try:
        who, kind = call.connection, ResourceType.TRANSACTIONAL_ID
        require(state.authorizer, who, Operation.WRITE, kind, request.transactional_id)
        shard = authorized_shard(state, who, Operation.READ, request.group_id)
    except KafkaError as error:
        return _response(request, [error.code] * len(commits))
    return _commit(state, request, call, commits, shard)


async def _commit(
    state: BrokerState,
    request: TxnOffsetCommitRequest,
    call: Call,
    commits: Sequence[Commit],
    shard: GroupShard,
) -> TxnOffsetCommitResponse:
    adds = call.version >= _FIRST_THAT_ADDS
    knows = call.version >= _FIRST_WITH_ABORTABLE
    code_of = partial(code_for_client, knows_abortable=knows, adds=adds)
    producer_id, epoch = request.producer_id, request.producer_epoch
    transaction = InTransaction(request.transactional_id, producer_id, epoch, adds)
    turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    assert state.verifier is not None
    # A client that is gone has cancelled it.
    state.verifier.begin(
        shard.partition, transaction, 0, lambda code: None if turn.done() else turn.set_result(code)
    )
    code = await turn
    if code:
        refused = _code(KafkaError(code_of(code), request.transactional_id))
        return _response(request, [each.error or refused for each in commits])
    try:
        codes = shard.commit_in_transaction(
            request.group_id,
            Committer(request.member_id, request.group_instance_id, request.generation_id),
            commits,
            state.settings.offset_metadata_max_bytes,
            TransactionOf(producer_id, epoch, check_of(shard.partition, code_of)),
        )
    except KafkaError as error:
        return _response(request, [_code(error)] * len(commits))
    answered = await when(codes)
    return _response(request, answered)


_OF_PRODUCERS: Final = frozenset(
    CODES[name]
    for name in (
        "CONCURRENT_TRANSACTIONS",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE",
        "TRANSACTION_ABORTABLE",
    )
)


def _code(error: KafkaError) -> int:
    """Errors of the transaction as they are; those of the log as coordinators name them."""
    if error.code in _OF_PRODUCERS:
        return error.code
    return refusal_of(error, "INVALID_COMMIT_OFFSET_SIZE")


def _response(request: TxnOffsetCommitRequest, codes: Sequence[int]) -> TxnOffsetCommitResponse:
    following = iter(codes)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=next(following)
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


register(TxnOffsetCommitRequest, handle)
