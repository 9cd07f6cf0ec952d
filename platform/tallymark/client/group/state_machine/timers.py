"""What a member does by the clock: look for the coordinator, give signs of life, look at topics,
and pause when no answer has confirmed that its session lives. Pure; part of :mod:`.machine`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine.state import Phase, State

_OUT: Final = (Phase.IDLE, Phase.LEAVING_GROUP, Phase.CLOSED)
_BETWEEN: Final = (Phase.FINDING, Phase.READING)
"""It has the id of a generation that may be over, and nothing to ask the coordinator yet."""


def routine(state: State, now_ms: int) -> tuple[State, tuple[act.Action, ...]]:
    """What is due now, whatever happened."""
    actions: list[act.Action] = []
    if _must_seek(state) and now_ms >= state.seek_at_ms:
        state = replace(state, seeking=True)
        actions.append(act.FindCoordinator())
    if _may_beat(state) and now_ms >= state.beat_at_ms:
        actions.append(act.Heartbeat(state.member_id, state.generation))
        state = replace(
            state,
            beat_out=True,
            beat_sent_ms=now_ms,
            beat_at_ms=now_ms + state.setup.heartbeat_ms,
        )
    if _may_look(state) and now_ms >= state.look_at_ms:
        state = replace(state, looking=True)
        actions.append(act.Look(None if state.setup.subscription.is_filter else state.group_topics))
    silent = _may_fall_silent(state) and now_ms >= _sure_until_ms(state)
    if silent != state.paused and state.phase is not Phase.LEAVING_RELEASE:
        state = replace(state, paused=silent)
        actions.append(act.Pause() if silent else act.Resume())
    return state, tuple(actions)


def next_due_ms(state: State) -> int | None:
    """When the machine needs a tick (monotonic ms); None: only events wake it."""
    due = [
        state.wake_ms,
        state.seek_at_ms if _must_seek(state) else None,
        state.beat_at_ms if _may_beat(state) else None,
        state.look_at_ms if _may_look(state) else None,
        _sure_until_ms(state) if _may_fall_silent(state) and not state.paused else None,
    ]
    return min((at for at in due if at is not None), default=None)


def _sure_until_ms(state: State) -> int:
    """Until when no other member can have our partitions: the session lives for its timeout, and a
    rebalance that began after the group was settled last goes on without members that have not
    joined (our request may be lost, while heartbeats are answered) not before its own."""
    setup = state.setup
    return min(state.proof_ms + setup.session_ms, state.steady_ms + setup.rebalance_ms)


def _must_seek(state: State) -> bool:
    return not state.found and not state.seeking and state.phase not in _OUT


def _may_beat(state: State) -> bool:
    return (
        state.found
        and not state.beat_out
        and state.generation >= 0
        and state.phase not in _OUT
        and (state.phase not in _BETWEEN or bool(state.owned))
    )


def _may_look(state: State) -> bool:
    watches = state.leads or state.setup.subscription.is_filter
    return watches and state.phase is Phase.STABLE and not state.looking


def _may_fall_silent(state: State) -> bool:
    return bool(state.owned) and state.phase is not Phase.LEAVING_RELEASE
