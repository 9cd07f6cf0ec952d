"""The coordinator of a transactional id: the leader of its partition of ``__transaction_state``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tallymark.broker.coordinators.settled import Settled, when
from tallymark.broker.metadata.image import BrokerImage
from tallymark.broker.requests.coordinator_lookup import coordinator_in
from tallymark.broker.security.authorizer import Who, require
from tallymark.broker.state import BrokerState
from tallymark.broker.transactions.shard import TransactionShard
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC, TopicPartition
from tallymark.replication.features import without_transactions
from tallymark.transactions.inputs import FENCED, Add, Decision, refused
from tallymark.transactions.transaction import NONE, TV2

_LONGEST_ID: Final = 32_767
"""Bytes: the length has two bytes in the record."""


async def coordinator_of(state: BrokerState, transactional_id: str) -> BrokerImage:
    """The coordinator; the first call of a cluster creates ``__transaction_state``.

    Raises COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST.
    """
    _check_id(transactional_id)
    old = without_transactions(state.image.supports)
    if old:
        raise KafkaError(
            CODES["COORDINATOR_NOT_AVAILABLE"],
            f"brokers {old} know no transactions: upgrade them first",
        )
    return await coordinator_in(state, TRANSACTIONS_TOPIC, transactional_id)


def authorized_shard(
    state: BrokerState, who: Who, operation: Operation, transactional_id: str
) -> TransactionShard:
    """The shard of an id, for a client that may do ``operation`` to it.

    Raises TRANSACTIONAL_ID_AUTHORIZATION_FAILED, and as :func:`shard_of`.
    """
    require(state.authorizer, who, operation, ResourceType.TRANSACTIONAL_ID, transactional_id)
    return shard_of(state, transactional_id)


def shard_of(state: BrokerState, transactional_id: str) -> TransactionShard:
    """The shard of an id, if this broker is its coordinator.

    Raises NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST.
    """
    _check_id(transactional_id)
    topic = state.image.topics.get(TRANSACTIONS_TOPIC)
    if topic is None:
        raise KafkaError(CODES["NOT_COORDINATOR"], f"{transactional_id}: never asked for")
    return state.transaction_shards.of(transactional_id, len(topic.partitions))


async def decided(state: BrokerState, ask: Callable[[int], Settled[Decision]]) -> Decision:
    """The answer to ``ask``, which gets a new producer id only where it needs one. Errors of the
    producer ids are the decision's."""
    found = await when(ask(NONE))
    if found.needs_producer_id:
        try:
            found = await when(ask(await state.cluster.next_producer_id()))
        except KafkaError as error:
            return refused(error.code)
    return found


def error_of(decision: Decision) -> int:
    """The code that a client gets; 0 for none."""
    return decision.error


async def in_transaction(
    state: BrokerState,
    transactional_id: str,
    producer: tuple[int, int],
    partitions: Iterable[TopicPartition],
    *,
    verify_only: bool,
) -> Mapping[TopicPartition, int]:
    """For the leader of partitions, by the coordinator on this broker: an error code for each, 0
    where it is in the open transaction of the producer (id, epoch). Unless ``verify_only`` those
    that are not are added (``transaction.version`` 2), all or none: see :func:`is_known`."""
    asked = frozenset(partitions)
    try:
        shard = shard_of(state, transactional_id)
    except KafkaError as error:
        return dict.fromkeys(asked, error.code)
    if verify_only:
        return await when(shard.verify(transactional_id, *producer, asked))
    unknown = CODES["UNKNOWN_TOPIC_OR_PARTITION"]
    early = {each: unknown for each in asked if not is_known(state, each)}
    if early:
        return dict.fromkeys(asked, CODES["OPERATION_NOT_ATTEMPTED"]) | early
    added = await when(shard.add(transactional_id, Add(*producer, asked, TV2)))
    return dict.fromkeys(asked, added.error)


def is_known(state: BrokerState, partition: TopicPartition) -> bool:
    """Whether this coordinator knows the partition. It may not yet, while its leader writes
    already; if it joined all the same, it would count as deleted when the transaction ends, get no
    marker, and stay open for ever."""
    topic, index = partition
    found = state.image.topics.get(topic)
    return found is not None and 0 <= index < len(found.partitions)


def fenced_as_of(code: int, version: int, first_with_fenced: int) -> int:
    """PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before KIP-588."""
    if code == FENCED and version < first_with_fenced:
        return CODES["INVALID_PRODUCER_EPOCH"]
    return code


def _check_id(transactional_id: str) -> None:
    if not transactional_id or len(transactional_id.encode()) > _LONGEST_ID:
        raise KafkaError(
            CODES["INVALID_REQUEST"],
            f"transactional id {transactional_id[:40]!r}: it must have 1 to {_LONGEST_ID} bytes",
        )
