"""A simple controller: the first live member of the ISR leads, the dead leave the ISR where its
least size allows; when all intact logs are gone, the longest of those that confessed leads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simulated_registry import Snapshot

from tallymark.replication.model import (
    NO_LEADER,
    Assignment,
    ChangeState,
    PartitionState,
    Tail,
    least_isr,
)

PARTITION = ("t", 0)


def decide(
    seen: Snapshot, assignment: Assignment, min_insync: int, tails: Mapping[int, Tail]
) -> ChangeState | None:
    """The change that is due. ``tails`` are the ends of the logs as brokers told them."""
    state = seen.state
    live = [one for one in assignment.replicas if one in seen.brokers]
    stays = [one for one in live if not seen.brokers[one].leaving]
    members = [one for one in assignment.replicas if one in state.isr]
    leader = state.leader
    if leader not in stays or leader not in members:
        found = [one for one in stays if one in members] or [one for one in live if one in members]
        if not found and leader not in live and not members:
            return _longest(seen, assignment, tails)
        chosen = leader if not found and leader in live else (found or [NO_LEADER])[0]
        if chosen != leader:
            isr = _kept(members, live, least_isr(min_insync, len(assignment.replicas)))
            return _change(seen, replace(state, leader=chosen, isr=isr), "the leader is gone")
    if leader == NO_LEADER:
        return None
    isr = _kept(members, live, least_isr(min_insync, len(assignment.replicas)))
    if isr == state.isr or leader not in isr:
        return None
    kept = replace(state, isr=isr, controller_epoch=seen.controller_epoch)
    return ChangeState(PARTITION, state.version, kept, "members are dead")


def _kept(members: list[int], live: list[int], least: int) -> tuple[int, ...]:
    dead = [one for one in members if one not in live]
    gone = dead[: max(0, len(members) - least)]
    return tuple(one for one in members if one not in gone)


def _longest(
    seen: Snapshot, assignment: Assignment, tails: Mapping[int, Tail]
) -> ChangeState | None:
    confessed = [one for one in assignment.replicas if one in seen.state.confessed]
    if not confessed or any(one not in seen.brokers or one not in tails for one in confessed):
        return None
    leader = max(confessed, key=lambda one: (tails[one].last_epoch, tails[one].end))
    rest = {one: tail for one, tail in seen.state.confessed.items() if one != leader}
    state = replace(seen.state, leader=leader, isr=(leader,), confessed=rest, unclean=True)
    return _change(seen, state, "all have lost a tail")


def _change(seen: Snapshot, state: PartitionState, why: str) -> ChangeState:
    raised = replace(
        state, leader_epoch=seen.state.leader_epoch + 1, controller_epoch=seen.controller_epoch
    )
    return ChangeState(PARTITION, seen.state.version, raised, why)
