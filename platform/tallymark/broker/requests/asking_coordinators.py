"""Asks the coordinators of transactions, here or on other brokers, whether a partition is in a
transaction (AddPartitionsToTxn 4+, KIP-890).

Per broker one request is under way, with all that was asked since the one before: many producers
begin a transaction at a time. A coordinator that is still ending the transaction before is asked
again (:mod:`tallymark.broker.requests.concurrent_transactions`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from tallymark.broker.connections.port import BrokerConnection, BrokerConnections
from tallymark.broker.partitions.verifier import InTransaction
from tallymark.broker.requests.concurrent_transactions import asked_again
from tallymark.broker.requests.coordinator_lookup import coordinator_id
from tallymark.broker.requests.transaction_coordinator import in_transaction
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, ClosedError, ConnectError, KafkaError
from tallymark.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
)
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC, TopicPartition

log: Final = logging.getLogger(__name__)

ANSWER_MS: Final = 5_000
"""For a connection, and for an answer on it. Clients wait meanwhile."""
_MOST: Final = 1_000
"""Transactions in one request."""
_NOT_AVAILABLE: Final = CODES["COORDINATOR_NOT_AVAILABLE"]
_NETWORK: Final = CODES["NETWORK_EXCEPTION"]


class _Question(NamedTuple):
    transaction: InTransaction
    partition: TopicPartition
    answer: asyncio.Future[int]


class AskingCoordinators:
    """The :data:`~tallymark.broker.partitions.verifier.AsksCoordinator` of a broker. Belongs to the
    event loop."""

    def __init__(self, state: BrokerState, connections: BrokerConnections) -> None:
        self._state = state
        self._connections = connections
        self._asked: dict[int, list[_Question]] = {}
        self._open: dict[int, BrokerConnection] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def ask(self, transaction: InTransaction, partition: TopicPartition) -> int:
        """0, or the error code of the coordinator; NETWORK_EXCEPTION where it cannot be asked."""
        return await asked_again(lambda: self._once(transaction, partition), int)

    async def stop(self) -> None:
        """Ask nothing any more. Idempotent."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        connections, self._open = self._open, {}
        for connection in connections.values():
            await connection.close()

    async def _once(self, transaction: InTransaction, partition: TopicPartition) -> int:
        state, (name, producer_id, epoch, adds) = self._state, transaction
        broker = coordinator_id(state, TRANSACTIONS_TOPIC, name)
        if broker < 0:
            return _NOT_AVAILABLE
        if broker == state.settings.node_id:
            producer = producer_id, epoch
            codes = await in_transaction(state, name, producer, [partition], verify_only=not adds)
            return codes[partition]
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._asked.setdefault(broker, []).append(_Question(transaction, partition, answer))
        if broker not in self._tasks:
            self._tasks[broker] = asyncio.create_task(self._send_all(broker))
        return await answer

    async def _send_all(self, broker: int) -> None:
        """As long as there are questions for the broker."""
        asked: list[_Question] = []
        try:
            while waiting := self._asked.get(broker):
                asked, self._asked[broker] = waiting[:_MOST], waiting[_MOST:]
                codes = await self._send(broker, asked)
                for question, code in zip(asked, codes, strict=True):
                    _give(question, code)
        finally:
            del self._tasks[broker]
            for question in (*asked, *self._asked.pop(broker, ())):
                _give(question, _NETWORK)

    async def _send(self, broker: int, asked: list[_Question]) -> list[int]:
        try:
            connection = self._open.get(broker)
            if connection is None or connection.closed:
                async with asyncio.timeout(ANSWER_MS / 1000):
                    connection = self._open[broker] = await self._connections.open(broker)
            answer = await connection.send(request_of(asked), ANSWER_MS)
        except (ConnectError, ClosedError, KafkaError, TimeoutError) as error:
            why = str(error) or "it does not take a connection"
            log.warning("coordinator on broker %d is not asked: %s", broker, why)
            return [_NETWORK] * len(asked)
        if answer.error_code:
            return [answer.error_code] * len(asked)
        return codes_of(asked, answer)


def _give(question: _Question, code: int) -> None:
    if not question.answer.done():
        question.answer.set_result(code)


def request_of(asked: list[_Question]) -> AddPartitionsToTxnRequest:
    """One transaction for each question: two of one id may be of different epochs."""
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnRequestTransaction(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                verify_only=not transaction.adds,
                topics=[AddPartitionsToTxnRequestTopic(name=topic, partitions=[index])],
            )
            for transaction, (topic, index), _ in asked
        ]
    )


def codes_of(asked: list[_Question], answer: AddPartitionsToTxnResponse) -> list[int]:
    """The code for each question. The answer has the order of the request; one that does not name
    what was asked says nothing."""
    codes: list[int] = []
    for number, (transaction, (topic, index), _) in enumerate(asked):
        told = answer.results_by_transaction[number : number + 1]
        found = [
            part.partition_error_code
            for each in told
            if each.transactional_id == transaction.transactional_id
            for results in each.topic_results
            if results.name == topic
            for part in results.results_by_partition
            if part.partition_index == index
        ]
        codes.append(found[0] if found else _NETWORK)
    return codes
