"""The guards of transactions, each taken out: what a run must find. For tests of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from tallymark.broker.transactions import shard
from tallymark.client.producing.transactions.machine import TransactionMachine
from tallymark.errors import TallymarkError
from tallymark.groups.offsets import OffsetsState
from tallymark.groups.pending import PendingOffsets
from tallymark.groups.records import OffsetKey
from tallymark.log.producers import state
from tallymark.log.producers.state import ProducerStates
from tallymark.log.producers.transactions import OpenTransactions
from tallymark.protocol.records.batch import BatchHeader
from tallymark.protocol.records.markers import Marker
from tallymark.transactions import ending, initialising
from tallymark.transactions.inputs import UNKNOWN_ID, Decision, End, refused
from tallymark.transactions.transaction import Transaction, fenced
from tallymark.transactions.verifying import Turn, Verifications

# --- the coordinator


def epoch_raise_at_abort(patch: pytest.MonkeyPatch) -> None:
    """An abort by the coordinator leaves the epoch: its producer goes on."""

    def without(transaction: Transaction, now_ms: int, *, by_itself: bool = False) -> Transaction:
        after = fenced(transaction, now_ms, by_itself=by_itself)
        return replace(after, producer_epoch=transaction.producer_epoch)

    patch.setattr(ending, "fenced", without)
    patch.setattr(initialising, "fenced", without)


def pending_before_ids(patch: pytest.MonkeyPatch) -> None:
    """Ids and epochs are looked at before what is not complete (KAFKA-18660)."""
    decide = ending.decide_end

    def ids_first(transaction: Transaction | None, request: End, **more: Any) -> Decision:
        if transaction is not None and request.producer_id != transaction.producer_id:
            return refused(UNKNOWN_ID)
        return decide(transaction, request, **more)

    patch.setattr(shard, "decide_end", ids_first)


def rotation(patch: pytest.MonkeyPatch) -> None:
    """An id is used beyond its last epoch."""
    patch.setattr(Transaction, "is_exhausted", property(lambda transaction: False))


def decision_is_committed_first(patch: pytest.MonkeyPatch) -> None:
    """Markers leave before the decision is committed."""

    def at_once(one: shard.TransactionShard, decided: Transaction) -> None:
        outcome = shard._outcome(decided, one._replayed.epoch)
        one._sent[outcome.transactional_id] = outcome
        one._sender.begin(outcome, one._completed)

    patch.setattr(shard.TransactionShard, "_send_when_committed", at_once)


def decision_is_final(patch: pytest.MonkeyPatch) -> None:
    """What is not committed yet is no hindrance to another decision."""
    patch.setattr(shard.TransactionShard, "_is_pending", lambda one, name: False)
    patch.setattr(ending, "PREPARED", frozenset[Any]())


# --- a partition's leader


def verification(patch: pytest.MonkeyPatch) -> None:
    """A batch begins a transaction in the log though no coordinator knows of it."""
    patch.setattr(Verifications, "arrives", lambda one, *asked: (Turn.APPEND, None))
    patch.setattr(Verifications, "check", lambda one, *asked, is_known: 0)


def marker_takes_the_guard(patch: pytest.MonkeyPatch) -> None:
    """A yes from before a marker is good for a batch behind it."""
    patch.setattr(Verifications, "marker", lambda one, producer_id: None)


def epoch_of_a_marker(patch: pytest.MonkeyPatch) -> None:
    """A marker of the transaction before ends the next one (KAFKA-19446)."""
    check = ProducerStates.check_marker

    def as_before(one: ProducerStates, header: BatchHeader, marker: Marker, version: int) -> bool:
        return check(one, header, marker, 0)

    patch.setattr(ProducerStates, "check_marker", as_before)


def coordinator_epoch_of_a_marker(patch: pytest.MonkeyPatch) -> None:
    """A marker of a coordinator from before ends the next transaction."""
    check = ProducerStates.check_marker

    def of_any(one: ProducerStates, header: BatchHeader, marker: Marker, version: int) -> bool:
        return check(one, header, marker._replace(coordinator_epoch=1 << 30), version)

    patch.setattr(ProducerStates, "check_marker", of_any)


def marker_of_a_newer_epoch_only(patch: pytest.MonkeyPatch) -> None:
    """A repetition of a marker is refused, and its coordinator gives up (KAFKA-19999)."""
    check = ProducerStates.check_marker

    def newer(one: ProducerStates, header: BatchHeader, marker: Marker, version: int) -> bool:
        entry = one.get(header.producer_id)
        if version and entry is not None and header.producer_epoch == entry.epoch:
            raise state._refused("INVALID_PRODUCER_EPOCH", header, "mutated")
        return check(one, header, marker, version)

    patch.setattr(ProducerStates, "check_marker", newer)


def committed_marker_for_the_lso(patch: pytest.MonkeyPatch) -> None:
    """Readers pass a marker that is not committed."""

    def open_only(one: OpenTransactions, high_watermark: int) -> int | None:
        return next((first for _, first in one), None)

    patch.setattr(OpenTransactions, "first_unstable", open_only)


# --- groups


def order_of_pending_offsets(patch: pytest.MonkeyPatch) -> None:
    """A marker decides when an offset counts, not its record (KAFKA-14505)."""

    def keep(one: PendingOffsets, key: OffsetKey, at: int) -> None:
        pass

    patch.setattr(PendingOffsets, "drop_older", keep)


def pending_until_the_marker(patch: pytest.MonkeyPatch) -> None:
    """An abort brings offsets into force."""
    end = OffsetsState.end

    def commits(one: OffsetsState, producer_id: int, *, commit: bool) -> None:
        end(one, producer_id, commit=True)

    patch.setattr(OffsetsState, "end", commits)


# --- the client


def new_epoch_after_an_unclear_answer(patch: pytest.MonkeyPatch) -> None:
    """The old protocol goes on with its epoch: a delayed EndTxn or AddPartitionsToTxn hits the next
    transaction (KAFKA-17754)."""
    unclear = TransactionMachine._unclear

    def goes_on(machine: TransactionMachine, error: TallymarkError) -> bool:
        was = machine.must_renew
        found = unclear(machine, error)
        machine.must_renew = was
        return found

    patch.setattr(TransactionMachine, "_unclear", goes_on)


def doubt_of_a_commit(patch: pytest.MonkeyPatch) -> None:
    """An EndTxn without an answer counts as done."""

    def done(machine: TransactionMachine, error: TallymarkError) -> bool:
        machine._over()
        return False

    patch.setattr(TransactionMachine, "end_failed", done)


MUTATIONS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    one.__name__: one
    for one in (
        epoch_raise_at_abort,
        pending_before_ids,
        rotation,
        decision_is_committed_first,
        decision_is_final,
        verification,
        marker_takes_the_guard,
        epoch_of_a_marker,
        coordinator_epoch_of_a_marker,
        marker_of_a_newer_epoch_only,
        committed_marker_for_the_lso,
        order_of_pending_offsets,
        pending_until_the_marker,
        new_epoch_after_an_unclear_answer,
        doubt_of_a_commit,
    )
}
