"""Elections: which replica leads a partition next, and why.

Each function looks at one partition and returns the next state, or why there is no election. It
never decides *that* there should be one: :mod:`.planner` and the requests of operators do.

===============  ==============================================================================
offline          the leader is gone: the first candidate of the assignment
clean stop       the leader wants to stop: the first candidate that stays
preferred        the first of the assignment, if it is a candidate
reassignment     the first candidate of the target
incomplete       no broker surely has everything: the longest of the incomplete logs
unclean          the longest log of all replicas that are up; committed records may be lost
===============  ==============================================================================

Candidates are up, in the ISR, and not incomplete (:func:`.in_sync.candidates`). Every election
raises the leader epoch, also the one that ends without a leader: two leaders never share an epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias

from tallymark.replication import in_sync
from tallymark.replication.model import (
    NO_LEADER,
    UNKNOWN_EPOCH,
    PartitionState,
    PartitionView,
    Picture,
    Tail,
)

Tails: TypeAlias = Mapping[int, Tail]
"""Broker -> where its log ends, as it was asked for just now. Who did not answer is not in it."""


class Kind(IntEnum):
    """The election type of ElectLeaders (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Elected:
    """The next state of the partition; its leader is -1 where no one can lead."""

    state: PartitionState
    why: str


@dataclass(frozen=True, slots=True)
class NotElected:
    """The state stays as it is. ``error`` is the name of Kafka's code for ElectLeaders."""

    error: str
    why: str


Outcome: TypeAlias = Elected | NotElected


def offline(view: PartitionView, picture: Picture) -> Elected:
    """A leader in place of one that is gone. Without a candidate the partition has no leader and
    the ISR stays: each of its members may come back with everything."""
    why = f"{_name(view.state.leader)} {_fault(view.state.leader, picture)}"
    found = in_sync.candidates(view, picture)
    if not found:
        return Elected(_led(view, picture, NO_LEADER, view.state.isr), f"{why}, no member is up")
    return _clean(view, picture, found[0], why)


def replaced(view: PartitionView, picture: Picture) -> Outcome:
    """A leader in place of one that is suspected or leaving. It leads on while there is no other:
    a wrong suspicion costs an election, never the partition."""
    leader = view.state.leader
    stay = [
        one
        for one in in_sync.candidates(view, picture)
        if one != leader and not picture.brokers[one].leaving
    ]
    if leader in picture.suspects and not stay:  # better one that leaves than one that is away
        stay = [one for one in in_sync.candidates(view, picture) if one != leader]
    why = f"{_name(leader)} {_fault(leader, picture)}"
    if not stay:
        return NotElected("ELIGIBLE_LEADERS_NOT_AVAILABLE", f"{why}, but no other member is up")
    return _clean(view, picture, stay[0], why)


def preferred(view: PartitionView, picture: Picture) -> Outcome:
    """The first replica of the target, if it may lead and does not lead already."""
    first = view.assignment.target[0]
    if view.state.leader == first and in_sync.leads(view, picture):
        return NotElected("ELECTION_NOT_NEEDED", f"broker {first} leads already")
    found = in_sync.candidates(view, picture)
    if first not in found or picture.brokers[first].leaving:
        return NotElected(
            "PREFERRED_LEADER_NOT_AVAILABLE", f"broker {first} {_unfit(view, picture, first)}"
        )
    return _clean(view, picture, first, f"broker {first} is the preferred leader")


def within(view: PartitionView, picture: Picture, target: Sequence[int]) -> int:
    """The leader after a reassignment: the present one if it is in ``target``, may lead and stays,
    else the first candidate there; -1 where there is none."""
    found = [one for one in in_sync.candidates(view, picture) if one in target]
    found.sort(key=lambda one: (picture.brokers[one].leaving, target.index(one)))
    leader = view.state.leader
    if leader in found and picture.brokers[leader].leaving == picture.brokers[found[0]].leaving:
        return leader
    return found[0] if found else NO_LEADER


def among_incomplete(view: PartitionView, picture: Picture, tails: Tails) -> Outcome:
    """When no replica is left that surely has everything, and all incomplete ones are up: the one
    with the longest log leads, flagged unclean. The others stay incomplete until they are
    in sync again.

    ``tails`` are newer than those in the node: such a broker may have followed since. For the same
    reason the recorded tail of one that is missing says too little, and the others wait for it.
    """
    incomplete = view.state.incomplete
    if in_sync.voters(view):
        return NotElected(
            "ELIGIBLE_LEADERS_NOT_AVAILABLE", f"{_names(in_sync.voters(view))} has everything"
        )
    asked = [one for one in view.assignment.replicas if one in incomplete]
    missing = [one for one in asked if not picture.is_up(one)]
    if missing or not asked:
        why = f"{_names(missing)} may have more" if missing else "no replica is known to have it"
        return NotElected("ELIGIBLE_LEADERS_NOT_AVAILABLE", why)
    known = {**incomplete, **tails}
    leader = _longest(asked, known, picture)
    state = _led_after(view, picture, leader, known)
    others = {one: tail for one, tail in incomplete.items() if one in asked and one != leader}
    why = f"all in sync may have lost a tail, broker {leader} has the longest log"
    return Elected(_unclean(state, others), why)


def unclean(view: PartitionView, picture: Picture, tails: Tails, why: str) -> Outcome:
    """Of the replicas that are up the one with the longest log: by (last epoch, end), not by the
    order of the assignment. Its log is the truth from now on: it is the whole ISR, and no other
    is incomplete any more. A replica that did not report its tail is chosen only where none
    did."""
    up = [one for one in view.assignment.replicas if picture.is_up(one)]
    known = {**view.state.incomplete, **tails}
    told = [one for one in up if one in known] or up
    if not told:
        return NotElected("ELIGIBLE_LEADERS_NOT_AVAILABLE", "no replica is up")
    leader = _longest(told, known, picture)
    state = _led_after(view, picture, leader, known)
    return Elected(_unclean(state, {}), f"{why}: broker {leader} has the longest log")


def asked_for(view: PartitionView, picture: Picture, kind: Kind, tails: Tails) -> Outcome:
    """What ElectLeaders asks for. Type 1 is unclean only where it must be."""
    if kind is Kind.PREFERRED:
        return preferred(view, picture)
    if in_sync.leads(view, picture):
        return NotElected("ELECTION_NOT_NEEDED", f"broker {view.state.leader} leads")
    if in_sync.candidates(view, picture):
        return offline(view, picture)
    return unclean(view, picture, tails, "an operator asked for an unclean election")


def _unclean(state: PartitionState, incomplete: Mapping[int, Tail]) -> PartitionState:
    return replace(state, unclean=True, unclean_epoch=state.leader_epoch, incomplete=incomplete)


def _clean(view: PartitionView, picture: Picture, leader: int, why: str) -> Elected:
    return Elected(_led(view, picture, leader, in_sync.kept(view, picture, leader)), why)


def _led(
    view: PartitionView, picture: Picture, leader: int, isr: tuple[int, ...]
) -> PartitionState:
    return replace(
        view.state,
        leader=leader,
        leader_epoch=view.state.leader_epoch + 1,
        isr=isr,
        controller_epoch=picture.controller_epoch,
    )


def _led_after(view: PartitionView, picture: Picture, leader: int, tails: Tails) -> PartitionState:
    """``leader`` alone, in an epoch that none of these logs has: ZooKeeper may have lost states."""
    state = _led(view, picture, leader, (leader,))
    latest = max((tail.last_epoch for tail in tails.values()), default=UNKNOWN_EPOCH)
    return replace(state, leader_epoch=max(state.leader_epoch, latest + 1))


def _longest(brokers: Sequence[int], tails: Tails, picture: Picture) -> int:
    """Of equal logs one that stays, then the first."""
    nothing = Tail(-1, 0)

    def key(one: int) -> tuple[int, int, bool]:
        tail = tails.get(one, nothing)
        return tail.last_epoch, tail.end, not picture.brokers[one].leaving

    return max(brokers, key=key)


def _fault(broker: int, picture: Picture) -> str:
    if broker == NO_LEADER:
        return "leads"
    if broker not in picture.brokers:
        return "is not registered"
    if broker in picture.suspects:
        return "does not answer"
    return "is leaving" if picture.brokers[broker].leaving else "may not lead"


def _unfit(view: PartitionView, picture: Picture, broker: int) -> str:
    if broker in picture.brokers and broker not in in_sync.voters(view):
        return "is not in sync"
    return _fault(broker, picture)


def _name(broker: int) -> str:
    return "no broker" if broker == NO_LEADER else f"broker {broker}"


def _names(brokers: Sequence[int]) -> str:
    return ("broker " if len(brokers) == 1 else "brokers ") + ", ".join(map(str, brokers))
