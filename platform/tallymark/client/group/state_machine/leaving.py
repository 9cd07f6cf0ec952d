"""Out of the group: for good, or until a slow application asks again. Pure; part of
:mod:`.machine`."""

from __future__ import annotations

from dataclasses import replace

from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine.generation import enter, rebalance
from tallymark.client.group.state_machine.state import LEAVING, NOBODY, Phase, State
from tallymark.client.group.state_machine.steps import Decision, after, forget, in_order


def slow(state: State) -> Decision:
    """The application is too slow: others shall have the partitions."""
    state = replace(state, phase=Phase.GIVING_UP, ticket=state.ticket + 1, rejoin="")
    everything = in_order(state.owned)
    return state, (act.StopFetchers(everything), act.Release(state.ticket, everything))


def given_up(state: State, now_ms: int) -> Decision:
    """All is given up: out of the group, unless the application has asked meanwhile."""
    state, actions = forget(state, state.owned)
    if state.rejoin:
        return after(state, actions, enter, now_ms)
    member_id = state.member_id
    state = replace(state, phase=Phase.IDLE, member_id="", generation=-1, target=NOBODY)
    # A static member does not leave: its session runs out, unless it comes back before.
    if not member_id or state.setup.static or not state.found:
        return state, actions
    state = replace(state, ticket=state.ticket + 1)
    return state, (*actions, act.Leave(state.ticket, member_id))


def asked(state: State, now_ms: int) -> Decision:
    """The application asks again."""
    reason = "the application asks again"
    if state.phase is Phase.GIVING_UP:
        return replace(state, rejoin=reason, reason=reason), ()
    return rebalance(state, reason, now_ms) if state.phase is Phase.IDLE else (state, ())


def stop(state: State) -> Decision:
    """Leave in order: give up the partitions, then notify the coordinator."""
    if state.phase in LEAVING:
        return state, ()
    if state.phase in (Phase.RELEASING, Phase.GIVING_UP):  # all is being given up already
        return replace(state, phase=Phase.LEAVING_RELEASE, wake_ms=None), ()
    if not state.owned:
        return leave(state)
    everything = in_order(state.owned)
    state = replace(state, phase=Phase.LEAVING_RELEASE, ticket=state.ticket + 1, wake_ms=None)
    return state, (act.StopFetchers(everything), act.Release(state.ticket, everything))


def leave(state: State) -> Decision:
    """No partition is owned: send the coordinator a LeaveGroup, if both know each other."""
    if not state.member_id or state.setup.static or not state.found:
        return replace(state, phase=Phase.CLOSED), (act.Close(),)
    state = replace(state, phase=Phase.LEAVING_GROUP, ticket=state.ticket + 1, wake_ms=None)
    return state, (act.Leave(state.ticket, state.member_id),)
