"""What a coordinator says and sends when followers are late, and when the lead is lost.

The log is the truth, and Prepare is the decision once it is committed."""

from __future__ import annotations

import asyncio

import pytest
from replicated_shard import run, turns
from replicated_transactions import (
    NAMES,
    ReplicatedTransactions,
    add,
    added,
    by_broker,
    end,
    init,
    verified,
)

from tallymark.broker.coordinators import replayed
from tallymark.broker.transactions import shard as module
from tallymark.broker.transactions.looking_over import abort_overdue, forget_expired
from tallymark.transactions.state import TransactionsState
from tallymark.transactions.transaction import State


def test_no_answer_leaves_and_no_marker_is_sent_before_the_decision_is_committed() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer = await transactions.opened()
        waiting = await transactions.start(end(producer, commit=True), 3)
        assert not waiting.done()
        assert transactions.markers.begun == []
        other = await transactions.start(end(producer, commit=False), 3)
        assert NAMES[other.result().error_code] == "CONCURRENT_TRANSACTIONS"
        transactions.commit_all()
        await turns()
        assert waiting.result().error_code == 0
        (outcome,) = transactions.markers.begun
        assert outcome.commit
        assert outcome.partitions == {("t", 0)}

    run(story())


def test_a_new_epoch_is_answered_when_it_is_committed() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        waiting = await transactions.start(init(), 4)
        assert not waiting.done()
        second = await transactions.start(init(), 4)
        assert NAMES[second.result().error_code] == "CONCURRENT_TRANSACTIONS"
        transactions.commit_all()
        await turns()
        assert (waiting.result().producer_id, waiting.result().producer_epoch) == (7, 0)

    run(story())


def test_a_verification_tells_only_what_is_committed() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer = await transactions.begun()
        adding = await transactions.start(add(producer), 3)
        asking = await transactions.start(by_broker(producer, verify_only=True), 4)
        assert not adding.done()
        assert not asking.done()
        transactions.lose()
        await turns()
        assert added(adding.result()) == ["NOT_COORDINATOR"]
        assert verified(asking.result()) == "NOT_COORDINATOR"

    run(story())


def test_a_decision_that_is_late_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local append is never taken back (KAFKA-9666): the client repeats until the record is
    committed, and then finds it done. Its markers follow."""
    monkeypatch.setattr(replayed, "ANSWER_MS", 20)
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)

    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer = await transactions.opened()
        late = await (await transactions.start(end(producer, commit=True), 3))
        assert NAMES[late.error_code] == "COORDINATOR_NOT_AVAILABLE"
        again = await (await transactions.start(end(producer, commit=True), 3))
        assert NAMES[again.error_code] == "CONCURRENT_TRANSACTIONS"
        assert transactions.markers.begun == []
        transactions.commit_all()
        while not transactions.markers.begun:
            await asyncio.sleep(0.005)
        transactions.complete()
        found = await transactions.ask(end(producer, commit=True), 3)
        assert found.error_code == 0

    run(story())


@pytest.mark.parametrize("committed", [True, False])
def test_a_new_leader_sends_the_markers_of_what_it_finds_decided(committed: bool) -> None:
    """But not before that is committed in its own epoch."""

    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer = await transactions.opened()
        known = transactions.log.end_offset
        waiting = await transactions.start(end(producer, commit=False), 3)
        if committed:
            transactions.commit_all()
            await turns()
            assert len(transactions.markers.begun) == 1
            known = transactions.log.end_offset
        transactions.lose()
        await turns()
        assert waiting.result().error_code == (0 if committed else 16)
        transactions.markers.begun.clear()
        await transactions.lead(1, known)
        await turns()
        assert len(transactions.markers.begun) == committed
        transactions.commit_all()
        await turns()
        (outcome,) = transactions.markers.begun
        assert (outcome.commit, outcome.coordinator_epoch) == (False, 1)
        transactions.complete()
        found = transactions.shard.state.get("id")
        assert found is not None
        assert found.state is State.COMPLETE_ABORT

    run(story())


def test_what_is_led_anew_is_what_memory_held() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        await transactions.lead()
        producer = await transactions.opened()
        for commit in (True, False, True):
            ended = await transactions.ask(end(producer, commit=commit), 5)
            producer = ended.producer_id, ended.producer_epoch
            transactions.complete()
            assert verified(await transactions.ask(by_broker(producer, verify_only=False), 5)) == (
                "NONE"
            )
        held: TransactionsState = transactions.shard.state
        transactions.lose()
        await transactions.lead(1, transactions.log.end_offset)
        assert transactions.shard.state is not held
        assert transactions.shard.state == held

    run(story())


def test_markers_that_are_written_after_the_lead_is_lost_change_nothing() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        shard = await transactions.lead()
        producer = await transactions.opened()
        await transactions.ask(end(producer, commit=True), 3)
        (outcome,) = transactions.markers.begun
        transactions.lose()
        before = transactions.log.end_offset
        shard._completed(outcome)
        assert transactions.log.end_offset == before

    run(story())


def test_a_transaction_is_aborted_after_its_timeout_and_its_producer_is_fenced() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        shard = await transactions.lead()
        producer = await transactions.opened()
        transactions.now_ms += 59_999
        for _ in abort_overdue(shard, transactions.now_ms):
            pass
        assert transactions.markers.begun == []
        transactions.now_ms += 1
        for _ in abort_overdue(shard, transactions.now_ms):
            pass
        transactions.commit_all()
        await turns()
        (outcome,) = transactions.markers.begun
        assert not outcome.commit
        assert outcome.producer_epoch == producer[1] + 1
        transactions.complete()
        fenced = await transactions.ask(end(producer, commit=True), 4)
        assert NAMES[fenced.error_code] == "PRODUCER_FENCED"
        assert await transactions.begun() == (producer[0], producer[1] + 2)

    run(story())


def test_an_id_that_was_not_used_for_long_is_forgotten_but_not_an_open_one() -> None:
    async def story() -> None:
        transactions = ReplicatedTransactions()
        shard = await transactions.lead()
        producer = await transactions.opened()
        transactions.now_ms += 10_000
        for _ in forget_expired(shard, transactions.now_ms, 10_000):
            pass
        assert shard.state.get("id") is not None
        await transactions.ask(end(producer, commit=True), 4)
        transactions.markers.write()
        transactions.now_ms += 10_000
        for _ in forget_expired(shard, transactions.now_ms, 10_000):
            pass
        assert shard.state.get("id") is not None, "its end is not committed"
        transactions.commit_all()
        for _ in forget_expired(shard, transactions.now_ms, 10_000):
            pass
        assert shard.state.get("id") is None
        unknown = await transactions.ask(add(producer), 3)
        assert added(unknown) == ["INVALID_PRODUCER_ID_MAPPING"]
        assert await transactions.begun() == (8, 0)

    run(story())
