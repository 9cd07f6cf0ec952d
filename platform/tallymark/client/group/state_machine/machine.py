"""When a member of a group joins, divides, gives up, loads, consumes: a pure state machine.

The client's side of Kafka's classic group protocol. ``decide(state, event, now_ms) -> (state,
actions)``; the shell performs the actions in order and answers those that have a ticket. An answer
with an old ticket is ignored.

::

             Found          (filter: READING)     Joined          leader
    FINDING ───────► eager: RELEASING ──► JOINING ───────┬──────────────► ASSIGNING
       ▲                      ▲              ▲           ▼                   │ Topics
       │ no answer            │              │        SYNCING ◄──────────────┘
       │ (any phase)          │ eager        │           │ Synced
       │                      │              │           ▼
       │                   STABLE ───────────┘   [REVOKING: what others get] ──► LOADING ──► STABLE
       │                 rebalance, cooperative: it reads on meanwhile

    STABLE ── Slow ──► GIVING_UP ──► IDLE ── Asked ──► JOINING
    any ── Stop ──► LEAVING ──► CLOSED

What it promises:

* Nothing is handed out of a partition but between its assignment and its revocation, and not while
  the session may be over: without a sign of life from the coordinator for the session timeout it
  pauses, until there is one (:mod:`.timers`).
* Fetchers are stopped and offsets stored before a partition is given up to the group; offsets are
  read after the group has given it to us, hence after the previous owner stored them.
* A member that the coordinator does not know any more drops its partitions without a commit.
* Every refusal that may pass is followed by a pause that grows, unless it is the first.
"""

from __future__ import annotations

from dataclasses import replace

from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.generation import (
    divide,
    enter,
    joined,
    load,
    rebalance,
    refused,
    stable,
    synced,
    topics_read,
)
from tallymark.client.group.state_machine.heartbeats import beaten
from tallymark.client.group.state_machine.leaving import asked, given_up, leave, slow, stop
from tallymark.client.group.state_machine.state import Phase, State
from tallymark.client.group.state_machine.steps import (
    Decision,
    after,
    forget,
    in_order,
    later,
    matching,
    no_answer,
    without_coordinator,
)
from tallymark.client.group.state_machine.timers import routine


def decide(state: State, event: ev.Event, now_ms: int) -> Decision:
    """The next state and what to do. ``now_ms`` is any clock that does not go back."""
    if state.phase is Phase.CLOSED:
        return state, ()
    state, actions = _decide(state, event, now_ms)
    state, more = routine(state, now_ms)
    return state, (*actions, *more)


def _decide(state: State, event: ev.Event, now_ms: int) -> Decision:
    match event:
        case ev.Tick():
            due = state.wake_ms is not None and now_ms >= state.wake_ms
            return _try_again(state, now_ms) if due else (state, ())
        case ev.Stop():
            return stop(state)
        case ev.Slow():
            return slow(state) if state.phase is Phase.STABLE else (state, ())
        case ev.Asked():
            return asked(state, now_ms)
        case ev.Found():
            return _found(state, now_ms)
        case ev.NotFound():
            return no_answer(replace(state, seeking=False), now_ms), ()
        case ev.Beaten():
            return beaten(state, event, now_ms)
        case ev.BeatFailed():
            return without_coordinator(replace(state, beat_out=False), now_ms), ()
        case ev.Looked():
            return _looked(state, event, now_ms)
        case _ if event.ticket == state.ticket:
            return _answered(state, event, now_ms)
        case _:
            return state, ()


def _answered(
    state: State,
    event: ev.Topics | ev.Joined | ev.Synced | ev.Refused | ev.Failed | ev.Done,
    now_ms: int,
) -> Decision:
    match event:
        case ev.Topics():
            return topics_read(state, event.partitions, now_ms)
        case ev.Joined() if state.phase is Phase.JOINING:
            return joined(state, event, now_ms)
        case ev.Synced() if state.phase is Phase.SYNCING:
            return synced(state, event, now_ms)
        case ev.Refused() if state.phase in (Phase.JOINING, Phase.SYNCING):
            return refused(state, event, now_ms)
        case ev.Failed():
            return _failed(state, now_ms)
        case ev.Done():
            return _done(state, now_ms)
        case _:
            return state, ()


def _done(state: State, now_ms: int) -> Decision:
    match state.phase:
        case Phase.RELEASING:
            return after(*forget(state, state.owned), enter, now_ms)
        case Phase.REVOKING:
            return after(*forget(state, state.owned - state.target), load, now_ms)
        case Phase.LOADING:
            added = in_order(state.target - state.owned)
            state = replace(state, owned=state.target)
            return after(state, (act.StartFetchers(added),), stable, now_ms)
        case Phase.GIVING_UP:
            return given_up(state, now_ms)
        case Phase.LEAVING_RELEASE:
            return after(*forget(state, state.owned), lambda state, _: leave(state), now_ms)
        case Phase.LEAVING_GROUP:
            return replace(state, phase=Phase.CLOSED), (act.Close(),)
        case _:
            return state, ()


def _failed(state: State, now_ms: int) -> Decision:
    match state.phase:
        case Phase.JOINING | Phase.SYNCING:
            return no_answer(state, now_ms), ()
        case Phase.READING:
            return later(state, Phase.FINDING, now_ms), ()
        case Phase.ASSIGNING | Phase.LOADING:
            return later(state, state.phase, now_ms), ()
        case _:
            return _done(state, now_ms)


def _try_again(state: State, now_ms: int) -> Decision:
    state = replace(state, wake_ms=None)
    match state.phase:
        case Phase.FINDING:
            return enter(state, now_ms)
        case Phase.ASSIGNING:
            return divide(state, now_ms)
        case Phase.LOADING:
            return load(state, now_ms)
        case _:
            return state, ()


def _found(state: State, now_ms: int) -> Decision:
    state = replace(state, found=True, seeking=False, beat_at_ms=now_ms)
    waits = state.phase is Phase.FINDING and state.wake_ms is None
    return enter(state, now_ms) if waits else (state, ())


def _looked(state: State, event: ev.Looked, now_ms: int) -> Decision:
    """Topics that come, go or grow."""
    state = replace(state, looking=False, look_at_ms=now_ms + state.setup.look_ms)
    if event.partitions is None or state.phase is not Phase.STABLE:
        return state, ()
    if state.setup.subscription.is_filter and matching(state, event.partitions) != state.topics:
        return rebalance(state, "other topics match its filter", now_ms)
    if not state.leads:
        return state, ()
    if state.withheld:  # its owner died, or was started again as a static member, before it joined
        return rebalance(state, "partitions that were given up have no member", now_ms)
    seen = {topic: tuple(event.partitions.get(topic, ())) for topic in state.group_topics}
    if state.seen in (None, seen):
        return replace(state, seen=seen), ()
    return rebalance(state, "topics have other partitions now", now_ms)
