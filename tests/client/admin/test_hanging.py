"""Which transactions hang: by what a partition and the coordinators say of them."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import pytest

from tallymark.cli.admin.transactions.rows import described, opened
from tallymark.client.admin.records import ActiveProducer
from tallymark.client.admin.results import Results
from tallymark.client.admin.topics import PartitionDescription, TopicDescription
from tallymark.client.admin.transactions.describing import TransactionList
from tallymark.client.admin.transactions.finding import TransactionAdmin
from tallymark.client.admin.transactions.hanging import (
    KnownTransaction,
    OpenTransaction,
    Standing,
    judge,
    still_open,
)
from tallymark.errors import CODES, ConnectError, KafkaError, TallymarkError
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC

AT: Final = ("t", 0)
OPEN: Final = OpenTransaction(AT, 7, 5, 100)
INSIDE: Final = frozenset((AT, ("t", 1)))


def known(
    state: str, epoch: int = 5, partitions: frozenset[tuple[str, int]] = INSIDE, producer: int = 7
) -> KnownTransaction:
    return KnownTransaction("id", state, producer, epoch, 60_000, 1000, partitions)


@pytest.mark.parametrize(
    ("ids", "verdict", "why"),
    [
        ([], Standing.HANGING, "no transactional id has this producer id"),
        ([known("Ongoing", producer=8)], Standing.HANGING, "no transactional id"),
        ([known("Empty")], Standing.HANGING, "has finished it: Empty"),
        ([known("CompleteCommit", 6)], Standing.HANGING, "has finished it: CompleteCommit"),
        ([known("CompleteAbort", 5)], Standing.HANGING, "has finished it: CompleteAbort"),
        ([known("Dead")], Standing.HANGING, "has finished it: Dead"),
        ([known("SomethingNew")], Standing.HANGING, "has finished it: SomethingNew"),
        ([known("Ongoing")], Standing.RUNNING, "has it open"),
        ([known("Ongoing", 4)], Standing.HANGING, "epoch 4, older than 5"),
        ([known("Ongoing", 6)], Standing.HANGING, "left behind by epoch 5; epoch 6 is open"),
        ([known("Ongoing", 5, frozenset((("t", 1),)))], Standing.HANGING, "does not have this"),
        # The end raises the epoch (transaction.version 2, a timeout, a fence): its marker has that.
        ([known("PrepareCommit", 6)], Standing.ENDING, "PrepareCommit: its marker is on its way"),
        ([known("PrepareAbort", 5)], Standing.ENDING, "PrepareAbort: its marker is on its way"),
        ([known("PrepareEpochFence", 6)], Standing.ENDING, "its marker is on its way"),
        ([known("PrepareAbort", 4)], Standing.HANGING, "epoch 4, older than 5"),
        ([known("PrepareAbort", 6, frozenset())], Standing.HANGING, "does not have this partition"),
        ([known("Empty"), known("Ongoing")], Standing.RUNNING, "has it open"),
    ],
)
def test_what_follows_from_what_the_coordinators_say(
    ids: list[KnownTransaction], verdict: Standing, why: str
) -> None:
    found = judge(OPEN, ids, all_answered=True)
    assert found.verdict is verdict
    assert why in found.why


def test_an_id_that_could_not_be_seen_is_not_taken_for_none() -> None:
    """A partition of the state topic without a leader is listed by no broker. Its transactions
    looked as if no coordinator knew them: an abort would have torn one apart that was running."""
    assert judge(OPEN, [], all_answered=False).verdict is Standing.UNDECIDED
    assert judge(OPEN, [known("Empty")], all_answered=False).verdict is Standing.HANGING
    assert judge(OPEN, [known("Ongoing")], all_answered=False).verdict is Standing.RUNNING


def test_what_has_ended_while_the_coordinators_were_asked_does_not_hang() -> None:
    found = [judge(OPEN, [known("CompleteCommit", 6)], all_answered=True)]
    assert still_open(found, [OPEN]) == found
    assert still_open(found, []) == []
    following = OpenTransaction(AT, 7, 6, 120)
    assert still_open(found, [following]) == []


class Cluster(TransactionAdmin):
    """Partition 0 of t has :data:`OPEN`, and no broker lists an id. ``leads``: leader and epoch of
    the one partition of ``__transaction_state``, at each look; without one there is no topic."""

    def __init__(self, *leads: tuple[int, int], error: TallymarkError | None = None) -> None:
        self.leads = list(leads)
        self.error = error

    def describe_producers(self, partitions: Any) -> Any:
        return Results({at: (producer(5, 100),) for at in partitions})

    def list_transactions(self, only: Any = None) -> TransactionList:
        return TransactionList(errors={} if self.error is None else {1: self.error})

    def describe_transactions(self, ids: Any) -> Results[str, KnownTransaction]:
        assert not list(ids)
        return Results()

    def describe_topics(self, names: Any = None, *, operations: bool = False) -> Any:
        if not self.leads:
            unknown = KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], "no topic")
            return Results.of({TRANSACTIONS_TOPIC: unknown})
        leader, epoch = self.leads.pop(0)
        part = PartitionDescription(0, leader, epoch, (1,), (1,), ())
        topic = TopicDescription(TRANSACTIONS_TOPIC, UUID(int=1), True, (part,), frozenset())
        return Results({TRANSACTIONS_TOPIC: topic})


@pytest.mark.parametrize(
    ("cluster", "verdict"),
    [
        (Cluster(), Standing.HANGING),
        (Cluster((1, 3), (1, 3)), Standing.HANGING),
        (Cluster((-1, 3), (-1, 3)), Standing.UNDECIDED),
        (Cluster((1, 3), (2, 4)), Standing.UNDECIDED),
        (Cluster((1, 3), (1, 4)), Standing.UNDECIDED),
        (Cluster((1, 3), (1, 3), error=ConnectError("b:1", "connect", "-")), Standing.UNDECIDED),
    ],
)
def test_an_id_is_missing_only_where_all_coordinators_were_there_all_the_time(
    cluster: Cluster, verdict: Standing
) -> None:
    (found,) = cluster.open_transactions([AT]).judged
    assert found.verdict is verdict


def producer(epoch: int, start: int, producer_id: int = 7) -> ActiveProducer:
    return ActiveProducer(producer_id, epoch, 0, 5000, start)


@pytest.mark.parametrize(
    ("state", "there", "told"),
    [
        ("Ongoing", (producer(5, 100),), "open"),
        ("Ongoing", (producer(5, -1),), "no record yet"),
        ("Ongoing", (producer(5, 100, 8),), "no record yet"),
        ("Ongoing", None, "unknown: its leader does not answer"),
        ("PrepareCommit", (producer(5, 100),), "waits for its marker"),
        ("PrepareCommit", (producer(5, -1),), "has its marker, or has no record of it"),
        # The coordinator stops sending a marker that is refused so, and stays in Prepare.
        ("PrepareCommit", (producer(9, 100),), "refuses its marker: epoch 9 has written there"),
    ],
)
def test_a_transaction_is_described_as_it_stands_in_each_partition(
    state: str, there: tuple[ActiveProducer, ...] | None, told: str
) -> None:
    (row,) = described(known(state), [(AT, there)], 11_000)
    assert (row["partition"], row["there"], row["open seconds"]) == ("t-0", told, 10)


def test_an_id_without_a_transaction_is_one_row() -> None:
    (row,) = described(known("CompleteCommit", partitions=frozenset()), [], 11_000)
    assert (row["state"], row["open seconds"]) == ("CompleteCommit", None)


def test_a_clock_that_is_ahead_gives_no_negative_age() -> None:
    late = OpenTransaction(AT, 7, 5, 100, last_timestamp=20_000)
    assert opened(judge(late, [], all_answered=True), 11_000)["idle seconds"] == 0
    assert opened(judge(OPEN, [], all_answered=True), 11_000)["idle seconds"] is None
