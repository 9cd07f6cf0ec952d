"""Any order of requests, timeouts, completions and reloads keeps what a coordinator promises.

Two clients use one transactional id, each with the identity that it was last given, or an older
one. Epochs begin near the last, so that the id rotates all the time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.adding import decide_add
from tallymark.transactions.ending import decide_abort, decide_completed, decide_end
from tallymark.transactions.initialising import decide_initialise
from tallymark.transactions.inputs import Add, Decision, End, Initialise
from tallymark.transactions.state import TransactionsState, record_of, tombstone
from tallymark.transactions.transaction import IDLE, LAST_EPOCH, PREPARED, State, Transaction

CLIENTS: Final = st.integers(0, 1)
VERSIONS: Final = st.sampled_from((0, 2))
Identity = tuple[int, int]


class Coordinator(RuleBasedStateMachine):
    """One transactional id, as its coordinator has it."""

    def __init__(self) -> None:
        super().__init__()
        self.state = TransactionsState()
        self.records: list[Transaction] = []
        self.held: list[list[Identity]] = [[], []]
        """By client: what it was given, the present one last."""
        self.given: set[Identity] = set()
        self.producer_ids = 0
        self.now = 1_000

    @property
    def live(self) -> Transaction | None:
        return self.state.get("id")

    def new_id(self) -> int:
        self.producer_ids += 1
        return self.producer_ids

    def apply(self, decision: Decision) -> None:
        self.now += 1
        if decision.after is None:
            return
        before, after = self.live, decision.after
        if before is not None:
            self.check_step(before, after)
        self.records.append(after)
        self.state.replay(record_of(after, 1))

    def check_step(self, before: Transaction, after: Transaction) -> None:
        if before.state in PREPARED:
            # decision_is_final
            wanted = before.state + 2
            assert after.state == wanted, (before, after)
        if after.state in PREPARED:
            assert after.partitions == before.partitions, "all that it has gets markers"
        if after.producer_id == before.producer_id:
            assert 0 <= after.producer_epoch - before.producer_epoch <= 1, "raised once a record"
        else:
            assert before.producer_epoch >= LAST_EPOCH
            assert after.producer_epoch == 0

    @rule(client=CLIENTS, own=st.booleans(), near=st.booleans())
    def initialise(self, client: int, own: bool, near: bool) -> None:
        identity = self.held[client][-1] if own and self.held[client] else (-1, -1)
        decision = decide_initialise(
            self.live,
            Initialise("id", 50, *identity),
            pending=False,
            new_producer_id=self.new_id(),
            now_ms=self.now,
        )
        if near and self.live is None and decision.after is not None:
            epoch = LAST_EPOCH - 2
            decision = replace(
                decision, after=replace(decision.after, producer_epoch=epoch), producer_epoch=epoch
            )
        self.apply(decision)
        if not decision.error:
            identity_now = (decision.producer_id, decision.producer_epoch)
            if identity == (-1, -1):
                assert identity_now not in self.given, "two producers with one identity"
            self.hand_out(client, identity_now)

    def hand_out(self, client: int, identity: Identity) -> None:
        assert identity[1] <= LAST_EPOCH
        self.given.add(identity)
        self.held[client].append(identity)

    @precondition(lambda self: any(self.held))
    @rule(client=CLIENTS, back=st.integers(1, 3), partition=st.integers(0, 3), version=VERSIONS)
    def add(self, client: int, back: int, partition: int, version: int) -> None:
        if len(self.held[client]) < back:
            return
        identity = self.held[client][-back]
        wanted: frozenset[TopicPartition] = frozenset((("t", partition),))
        before = self.live
        decision = decide_add(
            before, Add(*identity, wanted, version), pending=False, now_ms=self.now
        )
        if not decision.error:
            assert before is not None
            # zombies_write_nothing
            assert identity == (before.producer_id, before.producer_epoch)
        self.apply(decision)
        if not decision.error:
            assert self.live is not None
            assert wanted <= self.live.partitions

    @precondition(lambda self: any(self.held))
    @rule(client=CLIENTS, back=st.integers(1, 3), commit=st.booleans(), version=VERSIONS)
    def end(self, client: int, back: int, commit: bool, version: int) -> None:
        if len(self.held[client]) < back:
            return
        identity = self.held[client][-back]
        before = self.live
        assert before is not None
        decision = decide_end(
            before,
            End(*identity, commit, version),
            pending=False,
            new_producer_id=self.new_id(),
            now_ms=self.now,
        )
        if decision.after is not None:
            assert identity == (before.producer_id, before.producer_epoch)
            assert decision.after.commits is commit
        elif not decision.error:
            assert before.commits is commit, "a retry is told what was decided"
        self.apply(decision)
        if not decision.error and version == 2:
            self.hand_out(client, (decision.producer_id, decision.producer_epoch))

    @precondition(lambda self: self.live is not None and self.live.state in PREPARED)
    @rule()
    def complete(self) -> None:
        assert self.live is not None
        self.apply(decide_completed(self.live, self.live.producer_epoch, self.now))
        assert self.live.state not in PREPARED
        assert not self.live.partitions

    @precondition(lambda self: self.live is not None and self.live.state is State.ONGOING)
    @rule()
    def time_out(self) -> None:
        live = self.live
        assert live is not None
        self.apply(decide_abort(live, live.producer_epoch, pending=False, now_ms=self.now + 60))

    @precondition(lambda self: self.live is not None)
    @rule()
    def reload(self) -> None:
        """live_equals_replayed, also from the compacted log."""
        for records in (self.records, self.records[-1:]):
            replayed = TransactionsState()
            for each in records:
                replayed.replay(record_of(each, 1))
            assert replayed.get("id") == self.live
            states = [] if self.live is None else [self.live.state]
            assert list(replayed.counts.elements()) == states
            assert [each.state for each in replayed.busy] == [s for s in states if s not in IDLE]
        self.state = replayed

    @invariant()
    def an_open_transaction_has_a_start_and_a_closed_one_has_none(self) -> None:
        live = self.live
        if live is not None:
            is_open = live.state is State.ONGOING or live.state in PREPARED
            assert (live.started_ms >= 0) is is_open
            assert bool(live.partitions) <= is_open


Coordinator.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_any_order_of_requests = pytest.mark.slow(Coordinator.TestCase)


def test_a_forgotten_id_begins_with_another_producer_id() -> None:
    """So a client that comes back with the old one is not known."""
    state = TransactionsState()
    state.replay(record_of(Transaction("id", 7, 3, 50, State.EMPTY, frozenset(), 0), 1))
    state.replay(tombstone("id"))
    decision = decide_initialise(
        state.get("id"), Initialise("id", 50), pending=False, new_producer_id=8, now_ms=0
    )
    assert (decision.producer_id, decision.producer_epoch) == (8, 0)
