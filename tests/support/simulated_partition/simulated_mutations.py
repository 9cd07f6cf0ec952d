"""The guards of replication, each taken out: what a run must find. For tests of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest
import simulated_disk
import simulated_starting
from simulated_broker import Process
from simulated_controller import Term
from simulated_nodes import Author, Nodes

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication import (
    election,
    following,
    in_sync,
    leading,
    reassignment,
    registration,
)
from tallymark.replication.acks import WaitingForAll
from tallymark.replication.following import CutTo, Following, LogView
from tallymark.replication.leading import Leader
from tallymark.replication.model import (
    Assignment,
    Change,
    ChangeState,
    PartitionState,
    PartitionView,
    Picture,
)
from tallymark.replication.progress import Progress
from tallymark.replication.registration import LocalLog, RememberBoot, Start
from tallymark.replication.truncation import Cut, EpochEnd, Epochs, cut_for

# --- the leader


def maximal_isr(patch: pytest.MonkeyPatch) -> None:
    """Only the ISR of the node counts while a change is under way."""
    whole = Leader._members_changed

    def members_changed(leader: Leader) -> None:
        leader._asked = leader._unsettled = frozenset()
        whole(leader)

    patch.setattr(Leader, "_members_changed", members_changed)


def broker_epoch_at_the_fetch(patch: pytest.MonkeyPatch) -> None:
    """A fetch counts whichever registration of the broker sent it, for a later one, too: also one
    from before the broker left the ISR."""

    def look_up(leader: Leader, one: Progress) -> None:
        broker = leader._brokers.get(one.broker)
        if broker is not None:
            one.broker_epoch = broker.epoch
        one.live = broker is not None
        one.leaving = broker is not None and broker.leaving

    patch.setattr(Progress, "has_to_fetch", False)
    patch.setattr(Leader, "_registered_again", lambda leader, one, epoch: None)
    patch.setattr(Leader, "_look_up", look_up)


def broker_epoch_at_the_join(patch: pytest.MonkeyPatch) -> None:
    """A broker enters the ISR though it has started again since it was seen to be in sync, and
    need not have fetched since."""

    def stale(nodes: Nodes, change: Change) -> dict[int, int]:
        joining = change.joining if isinstance(change, ChangeState) else {}
        replicas = nodes.topic.assignment.replicas
        return {one: epoch for one, epoch in joining.items() if one not in replicas}

    patch.setattr(Progress, "has_to_fetch", False)
    patch.setattr(Nodes, "stale", stale)


def assigned_at_the_join(patch: pytest.MonkeyPatch) -> None:
    """A broker enters the ISR though it is no replica any more: in a new leader epoch, too, the
    leader may not have read the new assignment yet."""

    def stale(nodes: Nodes, change: Change) -> dict[int, int]:
        joining = change.joining if isinstance(change, ChangeState) else {}
        return {one: epoch for one, epoch in joining.items() if nodes.epochs.get(one) != epoch}

    patch.setattr(Nodes, "stale", stale)


def epoch_on_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Who waits takes a high watermark of any leader epoch for its own (KAFKA-20634)."""
    committed = WaitingForAll[int].committed

    def of_any_epoch(waiting: WaitingForAll[int], epoch: int, high_watermark: int) -> list[int]:
        return committed(waiting, waiting.epoch, high_watermark)

    patch.setattr(WaitingForAll, "committed", of_any_epoch)


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


# --- the follower


def second_round(patch: pytest.MonkeyPatch) -> None:
    """A follower that does not know the epoch it is told cuts to that epoch's end (KIP-101)."""

    def one_round(told: EpochEnd, epochs: Epochs, log_end: int, high_watermark: int) -> Cut:
        known = any(epoch == told.epoch for epoch, _ in epochs)
        if known or told.epoch < 0:
            return cut_for(told, epochs, log_end, high_watermark)
        return Cut(min(told.end, log_end), done=True)

    patch.setattr(following, "cut_for", one_round)


def epoch_of_an_answer(patch: pytest.MonkeyPatch) -> None:
    """An answer is used whatever it was an answer to (KAFKA-13266)."""
    patch.setattr(following.Following, "is_current", lambda one, ask, log: True)


# --- the controller


def least_isr_of_the_controller(patch: pytest.MonkeyPatch) -> None:
    """The controller may shrink the ISR to the leader."""
    patch.setattr(PartitionView, "least_isr", property(lambda view: 1))


def suspects_below_the_minimum(patch: pytest.MonkeyPatch) -> None:
    """A suspect leaves the ISR, however small that gets."""
    kept = in_sync.kept

    def without(view: PartitionView, picture: Picture, leader: int) -> tuple[int, ...]:
        return tuple(
            one
            for one in kept(view, picture, leader)
            if one == leader or one not in picture.suspects
        )

    patch.setattr(in_sync, "kept", without)


def isr_of_a_suspects_successor(patch: pytest.MonkeyPatch) -> None:
    """In the place of a suspect any replica leads that is up."""

    def replicas(view: PartitionView) -> tuple[int, ...]:
        return view.assignment.replicas

    replaced = election.replaced

    def by_any(view: PartitionView, picture: Picture) -> election.Outcome:
        if view.state.leader not in picture.suspects:
            return replaced(view, picture)
        with patch.context() as inner:
            inner.setattr(in_sync, "voters", replicas)
            return replaced(view, picture)

    patch.setattr(election, "replaced", by_any)


def fetch_after_the_isr(patch: pytest.MonkeyPatch) -> None:
    """Whoever was taken out of the ISR joins it again by what it had before."""

    def forget(leader: Leader, one: Progress) -> bool:
        one.left_ms = None
        return could_join(leader, one)

    could_join = Leader._could_join
    patch.setattr(Leader, "_could_join", forget)


def reading_again_of_the_controller(patch: pytest.MonkeyPatch) -> None:
    """It goes on with what it knew when a change was refused, or its outcome is unknown."""
    patch.setattr(Term, "doubt", lambda term: None)


def fence(patch: pytest.MonkeyPatch) -> None:
    """A controller writes though another one was elected."""
    is_valid = Nodes.is_valid

    def without(nodes: Nodes, author: Author) -> bool:
        return author.controller_epoch >= 0 or is_valid(nodes, author)

    patch.setattr(Nodes, "is_valid", without)


def epoch_of_a_cancel(patch: pytest.MonkeyPatch) -> None:
    """A cancelled replica that is in no state goes without a new leader epoch."""
    without = reassignment._without

    def unless_named(
        picture: Picture, partition: TopicPartition, view: PartitionView, after: Assignment
    ) -> PartitionState | None:
        state = view.state
        going = set(view.assignment.replicas) - set(after.replicas)
        named = going & {state.leader, *state.isr, *state.incomplete}
        return without(picture, partition, view, after) if named else None

    patch.setattr(reassignment, "_without", unless_named)


# --- the start of a broker


def report_of_incomplete_logs(patch: pytest.MonkeyPatch) -> None:
    """A broker whose log lost its tail stays in the ISR."""
    without_vote = registration._without_vote

    def reports_nothing(broker: int, state: PartitionState, log: LocalLog) -> PartitionState:
        return without_vote(broker, state, replace(log, intact=True))

    patch.setattr(registration, "_without_vote", reports_nothing)


def boot_after_the_report(patch: pytest.MonkeyPatch) -> None:
    """The boot is remembered first: a start that is killed in between finds an intact log."""
    next_step = registration.next_step

    def boot_first(
        start: Start,
        partitions: dict[TopicPartition, PartitionView],
        logs: dict[TopicPartition, LocalLog],
    ) -> registration.Step:
        if start.epoch >= 0 and not start.boot_remembered:
            return RememberBoot()
        return next_step(start, partitions, logs)

    patch.setattr(simulated_starting, "next_step", boot_first)


def boot_of_a_clean_stop(patch: pytest.MonkeyPatch) -> None:
    """The marker of a clean stop is enough, also of a start that had not reported its logs yet."""
    is_intact = registration.is_intact

    def clean_is_enough(*, clean: bool, boot_then: str, boot_now: str, flushed_first: bool) -> bool:
        return clean or is_intact(
            clean=clean, boot_then=boot_then, boot_now=boot_now, flushed_first=flushed_first
        )

    patch.setattr(simulated_disk, "is_intact", clean_is_enough)


# --- a bad disk


def look_at_the_own_disk(patch: pytest.MonkeyPatch) -> None:
    """A leader takes a follower's word for it that its batch is corrupt."""
    patch.setattr(Process, "is_bad", lambda process, offset: True)


def corrupt_members_are_not_cut(patch: pytest.MonkeyPatch) -> None:
    """A corrupt log is cut though its broker is in the ISR, and may be elected."""
    whole = Following.begin

    def begin(one: Following, log: LogView, *, is_member: bool = False) -> CutTo | None:
        return whole(one, log)

    patch.setattr(Following, "begin", begin)


def corrupt_logs_are_copied_again(patch: pytest.MonkeyPatch) -> None:
    """A broker that has resigned keeps its corrupt log."""
    whole = Following.begin

    def begin(one: Following, log: LogView, *, is_member: bool = False) -> CutTo | None:
        return whole(one, log._replace(corrupt_from=-1))

    patch.setattr(Following, "begin", begin)


MUTATIONS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    one.__name__: one
    for one in (
        maximal_isr,
        broker_epoch_at_the_fetch,
        broker_epoch_at_the_join,
        assigned_at_the_join,
        epoch_on_the_high_watermark,
        least_isr,
        reading_again,
        start_of_the_epoch,
        second_round,
        epoch_of_an_answer,
        least_isr_of_the_controller,
        suspects_below_the_minimum,
        isr_of_a_suspects_successor,
        fetch_after_the_isr,
        reading_again_of_the_controller,
        fence,
        epoch_of_a_cancel,
        report_of_incomplete_logs,
        boot_after_the_report,
        boot_of_a_clean_stop,
        look_at_the_own_disk,
        corrupt_members_are_not_cut,
        corrupt_logs_are_copied_again,
    )
}
