"""What a heartbeat's answer means: the group rebalances, the coordinator moved, we are out. Pure;
part of :mod:`.machine`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.generation import enter, rebalance
from tallymark.client.group.state_machine.state import LEAVING, NOBODY, Phase, State
from tallymark.client.group.state_machine.steps import (
    ILLEGAL_GENERATION,
    MOVED,
    PUT_OUT,
    REBALANCE,
    Decision,
    after,
    in_order,
    lose,
    without_coordinator,
    without_id,
)
from tallymark.errors import TABLE

_WAITING_FOR_IT: Final = (Phase.RELEASING, Phase.REVOKING, Phase.GIVING_UP)
"""The application is being waited for."""


def beaten(state: State, event: ev.Beaten, now_ms: int) -> Decision:
    """The answer to a heartbeat."""
    state = replace(state, beat_out=False)
    code, row = event.code, TABLE.get(event.code)
    if event.generation != state.generation or state.phase in LEAVING:
        return state, ()
    if code in (0, REBALANCE):
        state = replace(state, misses=0, proof_ms=max(state.proof_ms, state.beat_sent_ms))
        if not code:
            state = replace(state, steady_ms=state.proof_ms)
        return _rebalance_begins(state, now_ms) if code else (state, ())
    if code in MOVED:
        return without_coordinator(state, now_ms), ()
    if code == ILLEGAL_GENERATION and state.phase is Phase.JOINING and not state.doubted:
        # The next generation has begun, and our join's answer is on its way. Or it is lost: then
        # the next heartbeat gets the same answer.
        return replace(state, doubted=True), ()
    if code in PUT_OUT:
        return _lost(state, code, now_ms)
    if row is not None and row.retriable:
        return state, ()
    state, actions = lose(state, code)
    return replace(state, phase=Phase.CLOSED), (*actions, act.Fail(code))


def _rebalance_begins(state: State, now_ms: int) -> Decision:
    reason = "the group rebalances"
    if state.phase in (Phase.STABLE, Phase.LOADING):
        return rebalance(state, reason, now_ms)
    if state.phase is Phase.REVOKING:
        return replace(state, rejoin=state.rejoin or reason), ()
    return state, ()  # it joins anyway


def _lost(state: State, code: int, now_ms: int) -> Decision:
    """The group went on without us: what we owned may be others' by now. Whatever else we wait for
    comes late or, on a connection that died in silence, never."""
    if state.phase in _WAITING_FOR_IT:
        everything = in_order(state.owned)
        phase = Phase.GIVING_UP if state.phase is Phase.GIVING_UP else Phase.RELEASING
        state = replace(state, phase=phase, generation=-1, target=NOBODY)
        return without_id(state, code), (act.StopFetchers(everything),)
    return after(*lose(state, code), enter, now_ms)
