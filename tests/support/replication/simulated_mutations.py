"""The guards of replication, each taken out: what a run must find. For tests of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from simulated_broker import Process

from tallymark.replication import following, leading
from tallymark.replication.acks import WaitingForAll
from tallymark.replication.leading import Leader
from tallymark.replication.model import ChangeState, PartitionState
from tallymark.replication.progress import Progress
from tallymark.replication.truncation import Cut, EpochEnd, Epochs, cut_for


def maximal_isr(patch: pytest.MonkeyPatch) -> None:
    """Only the ISR of the node counts while a change is under way."""
    whole = Leader._members_changed

    def members_changed(leader: Leader) -> None:
        leader._asked = leader._unsettled = frozenset()
        whole(leader)

    patch.setattr(Leader, "_members_changed", members_changed)


def broker_epoch(patch: pytest.MonkeyPatch) -> None:
    """A fetch counts whichever registration of the broker sent it."""
    wish = Leader.wish

    def unguarded(leader: Leader) -> ChangeState | None:
        change = wish(leader)
        return change and ChangeState(change.partition, change.expected, change.state, change.why)

    def look_up(leader: Leader, one: Progress) -> None:
        broker = leader._brokers.get(one.broker)
        one.live = broker is not None
        one.leaving = broker is not None and broker.leaving

    patch.setattr(Leader, "_registered_again", lambda leader, one, epoch: None)
    patch.setattr(Leader, "_look_up", look_up)
    patch.setattr(Leader, "wish", unguarded)


def epoch_on_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Who waits takes a high watermark of any leader epoch for its own (KAFKA-20634)."""
    committed = WaitingForAll[int].committed

    def of_any_epoch(waiting: WaitingForAll[int], epoch: int, high_watermark: int) -> list[int]:
        return committed(waiting, waiting.epoch, high_watermark)

    patch.setattr(WaitingForAll, "committed", of_any_epoch)


def second_round(patch: pytest.MonkeyPatch) -> None:
    """A follower that does not know the epoch it is told cuts to that epoch's end (KIP-101)."""

    def one_round(told: EpochEnd, epochs: Epochs, log_end: int, high_watermark: int) -> Cut:
        known = any(epoch == told.epoch for epoch, _ in epochs)
        if known or told.epoch < 0:
            return cut_for(told, epochs, log_end, high_watermark)
        return Cut(min(told.end, log_end), done=True)

    patch.setattr(following, "cut_for", one_round)


def least_isr(patch: pytest.MonkeyPatch) -> None:
    """The leader may shrink the ISR to itself."""
    patch.setattr(leading, "least_isr", lambda min_insync, replicas: 1)


def reading_again(patch: pytest.MonkeyPatch) -> None:
    """A write whose outcome is unknown is taken for one that was not done (KAFKA-2729)."""
    answered = Leader.answered

    def not_done(leader: Leader, state: PartitionState | None, now_ms: int) -> None:
        if state is None:
            leader.refused(leader.state, now_ms)
        else:
            answered(leader, state, now_ms)

    patch.setattr(Leader, "answered", not_done)
    patch.setattr(Process, "read_again", lambda process, leader: None)


def epoch_of_an_answer(patch: pytest.MonkeyPatch) -> None:
    """An answer is used whatever it was an answer to (KAFKA-13266)."""
    patch.setattr(following.Following, "is_current", lambda one, ask, log: True)


def start_of_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """Who has the high watermark may join, though the leader's epoch began later."""
    whole = Leader._could_join

    def could_join(leader: Leader, one: Progress) -> bool:
        start, leader.epoch_start = leader.epoch_start, 0
        try:
            return whole(leader, one)
        finally:
            leader.epoch_start = start

    patch.setattr(Leader, "_could_join", could_join)


def confession(patch: pytest.MonkeyPatch) -> None:
    """A broker whose log lost its tail stays in the ISR."""

    def only_resigns(process: Process, state: PartitionState) -> PartitionState:
        intact, process.disk.intact = process.disk.intact, True
        try:
            return whole(process, state)
        finally:
            process.disk.intact = intact

    whole = Process._without_me
    patch.setattr(Process, "_without_me", only_resigns)


MUTATIONS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    one.__name__: one
    for one in (
        maximal_isr,
        broker_epoch,
        epoch_on_the_high_watermark,
        second_round,
        least_isr,
        reading_again,
        epoch_of_an_answer,
        start_of_the_epoch,
        confession,
    )
}
