"""A partition's leader asks the coordinators of transactions on other brokers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from replicated_shard import run

from tallymark.broker.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tallymark.broker.partitions.verifier import InTransaction
from tallymark.broker.requests import asking_coordinators
from tallymark.broker.requests.asking_coordinators import AskingCoordinators
from tallymark.broker.requests.concurrent_transactions import TRIES
from tallymark.errors import CODES
from tallymark.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    AddPartitionsToTxnResponseTransaction,
)
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC
from tallymark.testing.memory_connections import MemoryConnections

ME, OTHER = 1, 2
NAMES: Final = {code: name for name, code in CODES.items()}


class Coordinator:
    """Answers each transaction by ``code_of``; ``held`` answers wait."""

    def __init__(self, code_of: Callable[[str], int] = lambda name: 0) -> None:
        self.code_of = code_of
        self.asked: list[AddPartitionsToTxnRequest] = []
        self.held = asyncio.Event()
        self.held.set()
        self.error = 0
        self.silent_about: str = ""

    async def __call__(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        self.asked.append(request)
        await self.held.wait()
        return AddPartitionsToTxnResponse(
            error_code=self.error,
            results_by_transaction=[
                AddPartitionsToTxnResponseTransaction(
                    one.transactional_id,
                    [
                        AddPartitionsToTxnResponseTopic(
                            topic.name,
                            [
                                AddPartitionsToTxnResponsePartition(
                                    index, self.code_of(one.transactional_id)
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in one.topics
                        if one.transactional_id != self.silent_about
                    ],
                )
                for one in request.transactions
            ],
        )


class Asking:
    """Broker 1, with the coordinators of all ids on broker 2."""

    def __init__(self, coordinator: Coordinator, leader: int = OTHER) -> None:
        self.coordinator = coordinator
        self.connections = MemoryConnections({OTHER: coordinator})
        partitions = (PartitionImage.of(leader, 0, (1, 2), (1, 2)),)
        topic = TopicImage(TRANSACTIONS_TOPIC, uuid.UUID(int=1), partitions)
        brokers = {ME: BrokerImage(ME, {}), OTHER: BrokerImage(OTHER, {})}
        image = MetadataImage("c", 1, brokers, {TRANSACTIONS_TOPIC: topic})
        settings = SimpleNamespace(node_id=ME)
        state = cast(Any, SimpleNamespace(image=image, settings=settings))
        self.asking = AskingCoordinators(state, self.connections)

    async def ask(self, name: str = "a", *, adds: bool = False, epoch: int = 3) -> str:
        code = await self.asking.ask(InTransaction(name, 7, epoch, adds), ("t", 0))
        return NAMES[code]


def test_the_coordinators_answer_is_told() -> None:
    async def story() -> None:
        codes = {"a": 0, "b": CODES["TRANSACTION_ABORTABLE"]}
        asking = Asking(Coordinator(lambda name: codes[name]))
        assert await asking.ask("a") == "NONE"
        assert await asking.ask("b", adds=True) == "TRANSACTION_ABORTABLE"
        first, second = asking.coordinator.asked
        assert [one.verify_only for one in (*first.transactions, *second.transactions)] == [
            True,
            False,
        ]
        assert len(asking.connections.opened) == 1
        await asking.asking.stop()

    run(story())


def test_what_is_asked_while_a_request_is_under_way_goes_together() -> None:
    async def story() -> None:
        asking = Asking(Coordinator(lambda name: CODES["PRODUCER_FENCED"] if name == "c" else 0))
        asking.coordinator.held.clear()
        asked = [asyncio.create_task(asking.ask(name)) for name in ("a", "b", "c", "d")]
        while not asking.coordinator.asked:
            await asyncio.sleep(0)
        more = asyncio.create_task(asking.ask("e"))
        await asyncio.sleep(0)
        asking.coordinator.held.set()
        assert await asyncio.gather(*asked) == ["NONE", "NONE", "PRODUCER_FENCED", "NONE"]
        assert await more == "NONE"
        names = [
            [one.transactional_id for one in request.transactions]
            for request in asking.coordinator.asked
        ]
        assert names == [["a", "b", "c", "d"], ["e"]]
        await asking.asking.stop()

    run(story())


def test_two_epochs_of_one_id_get_an_answer_each() -> None:
    async def story() -> None:
        asking = Asking(Coordinator())
        both = [asyncio.create_task(asking.ask("a", epoch=epoch)) for epoch in (3, 4)]
        assert await asyncio.gather(*both) == ["NONE", "NONE"]
        (request,) = asking.coordinator.asked
        assert [one.producer_epoch for one in request.transactions] == [3, 4]
        await asking.asking.stop()

    run(story())


def test_a_busy_coordinator_is_asked_again_for_a_moment() -> None:
    """The transaction before is just being ended (KAFKA-18654)."""

    async def story() -> None:
        busy = [CODES["CONCURRENT_TRANSACTIONS"]] * 2
        asking = Asking(Coordinator(lambda name: busy.pop() if busy else 0))
        assert await asking.ask() == "NONE"
        assert len(asking.coordinator.asked) == 3
        asking.coordinator.code_of = lambda name: CODES["CONCURRENT_TRANSACTIONS"]
        assert await asking.ask() == "CONCURRENT_TRANSACTIONS"
        assert len(asking.coordinator.asked) == 3 + TRIES
        await asking.asking.stop()

    run(story())


def test_an_error_of_the_request_is_that_of_each_question() -> None:
    async def story() -> None:
        asking = Asking(Coordinator())
        asking.coordinator.error = CODES["CLUSTER_AUTHORIZATION_FAILED"]
        asked = [asyncio.create_task(asking.ask(name)) for name in ("a", "b")]
        assert await asyncio.gather(*asked) == ["CLUSTER_AUTHORIZATION_FAILED"] * 2
        await asking.asking.stop()

    run(story())


def test_an_answer_that_does_not_name_what_was_asked_says_nothing() -> None:
    async def story() -> None:
        asking = Asking(Coordinator())
        asking.coordinator.silent_about = "a"
        asked = [asyncio.create_task(asking.ask(name)) for name in ("a", "b")]
        assert await asyncio.gather(*asked) == ["NETWORK_EXCEPTION", "NONE"]
        await asking.asking.stop()

    run(story())


def test_without_a_coordinator_nobody_is_asked() -> None:
    async def story() -> None:
        asking = Asking(Coordinator(), leader=-1)
        assert await asking.ask() == "COORDINATOR_NOT_AVAILABLE"
        assert asking.connections.opened == []

    run(story())


def test_a_coordinator_that_takes_no_connection_is_not_waited_for_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection has 10 s, so the offsets of a transaction waited for 10 s behind a cut between
    brokers, where an answer has 5: four repetitions of a client were in the queue (simulated,
    seed 159)."""
    monkeypatch.setattr(asking_coordinators, "ANSWER_MS", 20)

    async def story() -> None:
        asking = Asking(Coordinator())
        opens = asking.connections.open
        monkeypatch.setattr(asking.connections, "open", lambda _: asyncio.Event().wait())
        assert await asking.ask() == "NETWORK_EXCEPTION"
        monkeypatch.setattr(asking.connections, "open", opens)
        assert await asking.ask() == "NONE"
        await asking.asking.stop()

    run(story())


def test_after_a_failure_the_next_question_has_a_new_connection() -> None:
    async def story() -> None:
        asking = Asking(Coordinator())
        assert await asking.ask() == "NONE"
        await asking.connections.break_all(OTHER)
        assert await asking.ask() == "NONE"
        assert len(asking.connections.opened) == 2
        await asking.connections.break_all(OTHER)
        asking.connections.refusing.add(OTHER)
        assert await asking.ask() == "NETWORK_EXCEPTION"
        await asking.asking.stop()

    run(story())


def test_a_stop_answers_what_waits() -> None:
    async def story() -> None:
        asking = Asking(Coordinator())
        asking.coordinator.held.clear()
        asked = [asyncio.create_task(asking.ask(name)) for name in ("a", "b")]
        while not asking.coordinator.asked:
            await asyncio.sleep(0)
        await asking.asking.stop()
        assert await asyncio.gather(*asked) == ["NETWORK_EXCEPTION"] * 2
        await asking.asking.stop()

    run(story())
