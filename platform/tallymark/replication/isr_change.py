"""Which brokers the ISR should gain and lose now, decided by the leader.

The leader's rules find those that may join; here are those that leave. The ISR keeps at least
``least`` members: of those that should leave, the ones stay that would make it too small, and the
high watermark waits for them. When others join, as many leave as have come, in one change; then
brokers that are not registered leave, too, before their time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import (
    NO_LEADER,
    UNKNOWN_EPOCH,
    ChangeState,
    PartitionState,
    PartitionView,
    Tail,
)
from tallymark.replication.progress import NEVER, UNKNOWN_END, Lag, Progress


class IsrChange(NamedTuple):
    """The new ISR in the order of the assignment, the brokers that join, and why it changes."""

    isr: tuple[int, ...]
    joining: tuple[Progress, ...]
    why: str

    def of(self, partition: TopicPartition, state: PartitionState, least: int) -> ChangeState:
        """As a change of ``state``. Incomplete replicas are only needed while too few replicas have
        a whole log."""
        incomplete = {} if len(self.isr) >= least else state.incomplete
        after = replace(
            state,
            isr=self.isr,
            incomplete={one: tail for one, tail in incomplete.items() if one not in self.isr},
        )
        epochs = {one.broker: one.broker_epoch for one in self.joining}
        return ChangeState(partition, state.version, after, self.why, epochs)


def next_isr(
    isr: Sequence[int],
    order: Sequence[int],
    least: int,
    joining: Sequence[Progress],
    overdue: Sequence[Progress],
    end: int,
) -> IsrChange | None:
    """The change that is due, None if there is none.

    ``isr`` is the present one, ``order`` the replicas of the assignment, ``overdue`` the members
    that should leave, ``end`` the end of the leader's log.
    """
    spare = max(0, len(isr) + len(joining) - least)
    leaving = sorted(overdue, key=lambda one: (one.live, one.caught_up_ms, one.end))[:spare]
    if not joining and not leaving:
        return None
    members = {*isr, *(one.broker for one in joining)} - {one.broker for one in leaving}
    ordered = [one for one in order if one in members]
    ordered += [one for one in isr if one in members and one not in order]
    return IsrChange(tuple(ordered), tuple(joining), _why(joining, leaving, end))


def resignation(
    partition: TopicPartition, state: PartitionState, me: int, tail: Tail
) -> ChangeState:
    """The leader ``me`` found its own log bad, or its disk full, behind ``tail``: no broker leads,
    and it leaves the ISR, as a broker does that starts with an incomplete log."""
    after = replace(
        state,
        leader=NO_LEADER,
        leader_epoch=state.leader_epoch + 1,
        isr=tuple(one for one in state.isr if one != me),
        incomplete={**state.incomplete, me: tail},
    )
    why = f"broker {me} resigns: its log cannot be used from offset {tail.end} on"
    return ChangeState(partition, state.version, after, why)


def epochs_lost(
    partition: TopicPartition, view: PartitionView, me: int, own: Tail, epoch: int
) -> ChangeState:
    """The log of ``me``, which ends with ``own``, was in leader epoch ``epoch`` already, so
    ZooKeeper has lost states (its data are an older copy), and which members were in sync is not
    known. No broker leads, and each replica is incomplete: when all of them are up the longest log
    leads, in an epoch that no log has."""
    state = view.state
    unknown = Tail(UNKNOWN_EPOCH, 0)
    tails = {one: state.incomplete.get(one, unknown) for one in view.assignment.replicas}
    after = replace(
        state,
        leader=NO_LEADER,
        leader_epoch=max(state.leader_epoch, epoch),
        isr=(),
        incomplete={**tails, me: own},
    )
    why = f"the log of broker {me} was in leader epoch {epoch}: ZooKeeper has lost states"
    return ChangeState(partition, state.version, after, why)


def lag_of(one: Progress, end: int) -> Lag:
    """How far a follower is behind a leader whose log ends at ``end``."""
    records = None if one.end == UNKNOWN_END else end - one.end
    return Lag(
        one.broker, records, None if one.caught_up_ms == NEVER else one.caught_up_ms, one.live
    )


def _why(joining: Iterable[Progress], leaving: Iterable[Progress], end: int) -> str:
    parts = [f"broker {one.broker} is in sync at offset {one.end}" for one in joining]
    parts += [str(lag_of(one, end)) for one in leaving]
    return "; ".join(parts)
