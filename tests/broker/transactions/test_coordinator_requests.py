"""Every request of a transactional producer through the broker's handlers, in every state, compared
with a table; and what is refused before a state matters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from replicated_shard import run, turns
from replicated_transactions import (
    NAMES,
    ReplicatedTransactions,
    add,
    add_offsets,
    added,
    by_broker,
    end,
    init,
    verified,
)

from tallymark.broker.metadata.image import BrokerImage
from tallymark.broker.requests.transaction_coordinator import coordinator_of
from tallymark.errors import KafkaError
from tallymark.protocol.messages import (
    AddPartitionsToTxnRequestTopic,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from tallymark.protocol.topic_partition import OFFSETS_TOPIC
from tallymark.replication.features import OURS
from tallymark.transactions.transaction import NAMES as STATES

Producer = tuple[int, int]


# Columns: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort.
ABORTING: Final = "PrepareAbort"
TABLE: Final = {
    "init": "0 Empty | 51 PrepareAbort | 51 - | 51 - | 0 Empty | 0 Empty",
    "add": "0 Ongoing | 0 Ongoing | 51 - | 51 - | 0 Ongoing | 0 Ongoing",
    "add offsets": "0 Ongoing | 0 Ongoing | 51 - | 51 - | 0 Ongoing | 0 Ongoing",
    "add by broker": "0 Ongoing | 0 Ongoing | 51 - | 51 - | 0 Ongoing | 0 Ongoing",
    "verify": "120 - | 0 - | 51 - | 51 - | 120 - | 120 -",
    "commit v4": "48 - | 0 PrepareCommit | 51 - | 48 - | 0 - | 48 -",
    "abort v4": "48 - | 0 PrepareAbort | 48 - | 51 - | 48 - | 0 -",
    "commit v5": "48 - | 0 PrepareCommit | 51 - | 51 - | 48 - | 48 -",
    "abort v5": "0 PrepareAbort | 0 PrepareAbort | 51 - | 51 - | 0 PrepareAbort | 0 PrepareAbort",
    "zombie adds": "90 - | 90 - | 51 - | 51 - | 90 - | 90 -",
    "zombie commits": "90 - | 90 - | 90 - | 90 - | 90 - | 90 -",
    "other id adds": "49 - | 49 - | 51 - | 51 - | 49 - | 49 -",
}
COLUMNS: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)


async def sent(transactions: ReplicatedTransactions, request: str, producer: Producer) -> str:
    producer_id, epoch = producer
    ask = transactions.ask
    asks: dict[str, Callable[[], Awaitable[Any]]] = {
        "init": lambda: ask(init(), 4),
        "add": lambda: ask(add(producer), 3),
        "add offsets": lambda: ask(add_offsets(producer), 3),
        "add by broker": lambda: ask(by_broker(producer, verify_only=False), 5),
        "verify": lambda: ask(by_broker(producer, verify_only=True), 4),
        "commit v4": lambda: ask(end(producer, commit=True), 4),
        "abort v4": lambda: ask(end(producer, commit=False), 4),
        "commit v5": lambda: ask(end(producer, commit=True), 5),
        "abort v5": lambda: ask(end(producer, commit=False), 5),
        "zombie adds": lambda: ask(add((producer_id, epoch - 1)), 3),
        "zombie commits": lambda: ask(end((producer_id, epoch - 1), commit=True), 4),
        "other id adds": lambda: ask(add((producer_id + 1, epoch)), 3),
    }
    answer = await asks[request]()
    if request in ("add by broker", "verify"):
        return verified(answer)
    if request in ("add", "zombie adds", "other id adds"):
        (code,) = added(answer)
        return code
    return NAMES[answer.error_code]


def cells() -> list[tuple[str, str, str]]:
    return [
        (request, state, cell.strip())
        for request, row in TABLE.items()
        for state, cell in zip(COLUMNS, row.split("|"), strict=True)
    ]


@pytest.mark.parametrize(("request_", "state", "expected"), cells())
def test_a_request_in_a_state(request_: str, state: str, expected: str) -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer = await transactions.bring(state)
        before = transactions.shard.state.get("id")
        code = await sent(transactions, request_, producer)
        wanted, becomes = expected.split()
        assert code == NAMES[int(wanted)]
        after = transactions.shard.state.get("id")
        assert after is not None
        if becomes == "-":
            assert after == before
        else:
            assert STATES[after.state] == becomes

    run(story())


def test_with_version_2_each_end_answers_the_next_epoch() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer_id, epoch = await transactions.opened()
        ended = await transactions.ask(end((producer_id, epoch), commit=True), 5)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, 7, epoch + 1)
        (outcome,) = transactions.markers.begun
        assert (outcome.commit, outcome.producer_epoch, outcome.version) == (True, epoch + 1, 2)
        transactions.complete()
        again = await transactions.ask(end((producer_id, epoch), commit=True), 5)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (0, 7, epoch + 1)

    run(story())


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (lambda: init((7, 9)), 3, "INVALID_PRODUCER_EPOCH"),
        (lambda: init((7, 9)), 4, "PRODUCER_FENCED"),
        (lambda: add_offsets((7, 9)), 1, "INVALID_PRODUCER_EPOCH"),
        (lambda: add_offsets((7, 9)), 2, "PRODUCER_FENCED"),
        (lambda: end((7, 9), commit=True), 1, "INVALID_PRODUCER_EPOCH"),
        (lambda: end((7, 9), commit=True), 2, "PRODUCER_FENCED"),
    ],
)
def test_a_fenced_producer_gets_the_code_of_its_version(
    request_: Callable[[], Any], version: int, code: str
) -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        await transactions.opened()
        assert NAMES[(await transactions.ask(request_(), version)).error_code] == code

    run(story())


def test_a_fenced_producer_that_adds_gets_the_code_of_its_version() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        await transactions.opened()
        assert added(await transactions.ask(add((7, 9)), 1)) == ["INVALID_PRODUCER_EPOCH"]
        assert added(await transactions.ask(add((7, 9)), 2)) == ["PRODUCER_FENCED"]

    run(story())


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (init(timeout_ms=0), "INVALID_TRANSACTION_TIMEOUT"),
        (init(timeout_ms=-5), "INVALID_TRANSACTION_TIMEOUT"),
        (init(timeout_ms=900_001), "INVALID_TRANSACTION_TIMEOUT"),
        (init(timeout_ms=900_000), "NONE"),
        (init((7, -1)), "INVALID_REQUEST"),
        (init((-1, 0)), "INVALID_REQUEST"),
        (InitProducerIdRequest("", 1000), "INVALID_REQUEST"),
        (InitProducerIdRequest("é" * 20_000, 1000), "INVALID_REQUEST"),
    ],
)
def test_a_producer_that_begins_is_checked_first(request_: Any, code: str) -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        assert NAMES[(await transactions.ask(request_, 5)).error_code] == code
        assert len(transactions.shard.state) == (code == "NONE")

    run(story())


def test_partitions_that_do_not_exist_or_are_the_brokers_own_do_not_join() -> None:
    """All or none: the others are not attempted."""

    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer = await transactions.begun()
        assert added(await transactions.ask(add(producer, "missing"), 3)) == [
            "UNKNOWN_TOPIC_OR_PARTITION"
        ]
        assert added(await transactions.ask(add(producer, OFFSETS_TOPIC), 3)) == [
            "TOPIC_AUTHORIZATION_FAILED"
        ]
        both = AddPartitionsToTxnRequestTopic("t", [0, 1])
        wanted = replace(add(producer), v3_and_below_topics=[both])
        assert added(await transactions.ask(wanted, 3)) == [
            "OPERATION_NOT_ATTEMPTED",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ]
        found = transactions.shard.state.get("id")
        assert found is not None
        assert not found.partitions

    run(story())


def test_a_partition_that_the_coordinator_does_not_know_yet_does_not_join_for_its_leader() -> None:
    """It joined, and counted as deleted at the end of the transaction: it got no marker, so readers
    of committed records stood there for ever."""

    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer = await transactions.begun()
        before = transactions.shard.state.get("id")
        asked = by_broker(producer, verify_only=False, topic="new")
        assert verified(await transactions.ask(asked, 5)) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert transactions.shard.state.get("id") == before
        image = transactions.state.image
        topics = {**image.topics, "new": replace(image.topics["t"], name="new")}
        transactions.state.partitions.image = replace(image, topics=topics)
        assert verified(await transactions.ask(asked, 5)) == "NONE"

    run(story())


def test_the_partition_of_the_groups_offsets_joins() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer = await transactions.begun()
        assert (await transactions.ask(add_offsets(producer), 3)).error_code == 0
        empty = await transactions.ask(add_offsets(producer, ""), 3)
        assert NAMES[empty.error_code] == "INVALID_GROUP_ID"
        found = transactions.shard.state.get("id")
        assert found is not None
        assert found.partitions == {(OFFSETS_TOPIC, 0)}

    run(story())


def test_ids_are_listed_and_described() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer = await transactions.opened()
        described = await transactions.ask(DescribeTransactionsRequest(["id", "other"]), 0)
        first, second = described.transaction_states
        assert (first.transaction_state, first.producer_id) == ("Ongoing", producer[0])
        assert [(t.topic, list(t.partitions)) for t in first.topics] == [("t", [0])]
        assert NAMES[second.error_code] == "TRANSACTIONAL_ID_NOT_FOUND"
        transactions.now_ms += 500
        for filters, expected in (
            (ListTransactionsRequest(), ["id"]),
            (ListTransactionsRequest(["Ongoing", "Nonsense"]), ["id"]),
            (ListTransactionsRequest(["Empty"]), []),
            (ListTransactionsRequest([], [producer[0] + 1]), []),
            (ListTransactionsRequest([], [], 500), ["id"]),
            (ListTransactionsRequest([], [], 501), []),
            (ListTransactionsRequest(transactional_id_pattern="i[a-d]"), ["id"]),
            (ListTransactionsRequest(transactional_id_pattern="i"), []),
            (ListTransactionsRequest(transactional_id_pattern=""), ["id"]),
        ):
            task = await transactions.start(filters, 2)
            transactions.commit_all()
            listed = await task
            assert [each.transactional_id for each in listed.transaction_states] == expected
            unknown = [each for each in filters.state_filters if each == "Nonsense"]
            assert list(listed.unknown_state_filters) == unknown
        refused = await transactions.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
        assert NAMES[refused.error_code] == "INVALID_REGULAR_EXPRESSION"

    run(story())


def test_an_id_of_another_coordinator_is_told_so() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        answer = await transactions.ask_without_lead(init())
        assert NAMES[answer.error_code] == "NOT_COORDINATOR"
        await turns()

    run(story())


def test_a_cluster_with_a_broker_that_knows_no_transactions_has_no_coordinator() -> None:
    """Markers could not be written in partitions that it leads."""

    async def story() -> None:
        transactions = ReplicatedTransactions()
        partitions = transactions.state.partitions
        new, old = BrokerImage(1, {}, features=OURS), BrokerImage(2, {})
        partitions.image = replace(partitions.image, brokers={1: new, 2: old})
        with pytest.raises(KafkaError, match=r"brokers \[2\] know no transactions"):
            await coordinator_of(transactions.state, "id")
        partitions.image = replace(partitions.image, brokers={1: new})
        assert (await coordinator_of(transactions.state, "id")).node_id == 1

    run(story())


def test_without_a_live_leader_no_coordinator_is_available() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()  # no broker is in its image
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
            await coordinator_of(transactions.state, "id")

    run(story())
