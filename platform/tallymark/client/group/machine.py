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
  pauses, until there is one (:mod:`.routine`).
* Fetchers are stopped and offsets stored before a partition is given up to the group; offsets are
  read after the group has given it to us, hence after the previous owner stored them.
* A member that the coordinator does not know any more drops its partitions without a commit.
* Every refusal that may pass is followed by a pause that grows, unless it is the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallymark.client.connector.rebalance import TopicPartition
from tallymark.client.group import events as ev
from tallymark.client.group.assignors import ASSIGNORS, COOPERATIVE, Partitions
from tallymark.client.group.events import NOBODY, Phase, State
from tallymark.client.group.routine import routine
from tallymark.client.group.steps import (
    Decision,
    after,
    again,
    forget,
    in_order,
    later,
    lose,
    no_answer,
    outstanding,
    pause_unless_first,
    without_id,
)
from tallymark.errors import CODES, TABLE

_ILLEGAL_GENERATION: Final = CODES["ILLEGAL_GENERATION"]
_PUT_OUT: Final = (CODES["UNKNOWN_MEMBER_ID"], _ILLEGAL_GENERATION)
_REBALANCE: Final = CODES["REBALANCE_IN_PROGRESS"]
_MOVED: Final = frozenset({CODES["NOT_COORDINATOR"], CODES["COORDINATOR_NOT_AVAILABLE"]})
_LEAVING: Final = (Phase.LEAVING_RELEASE, Phase.LEAVING_GROUP, Phase.CLOSED)


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
            return _stop(state)
        case ev.Slow():
            return _slow(state) if state.phase is Phase.STABLE else (state, ())
        case ev.Asked():
            return _asked(state, now_ms)
        case ev.Found():
            return _found(state, now_ms)
        case ev.NotFound():
            return no_answer(replace(state, seeking=False), now_ms), ()
        case ev.Beaten():
            return _beaten(state, event, now_ms)
        case ev.BeatFailed():
            return replace(state, beat_out=False, found=False), ()
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
            return _topics(state, event.partitions, now_ms)
        case ev.Joined() if state.phase is Phase.JOINING:
            return _joined(state, event, now_ms)
        case ev.Synced() if state.phase is Phase.SYNCING:
            return _synced(state, event, now_ms)
        case ev.Refused() if state.phase in (Phase.JOINING, Phase.SYNCING):
            return _refused(state, event, now_ms)
        case ev.Failed():
            return _failed(state, now_ms)
        case ev.Done():
            return _done(state, now_ms)
        case _:
            return state, ()


# -- into a generation ------------------------------------------------------------------------


def _rebalance(state: State, reason: str, now_ms: int) -> Decision:
    """Join again; eager assignors want everything given up before."""
    state = replace(state, reason=reason, rejoin="", target=NOBODY)
    if state.owned and not state.setup.cooperative:
        state = outstanding(state, Phase.RELEASING, now_ms)
        everything = in_order(state.owned)
        return state, (ev.StopFetchers(everything), ev.Release(state.ticket, everything))
    return _enter(state, now_ms)


def _enter(state: State, now_ms: int) -> Decision:
    """Join, as soon as the coordinator and the own topics are known."""
    if not state.found:
        return outstanding(state, Phase.FINDING, now_ms), ()
    if state.setup.subscription.is_filter:
        state = outstanding(state, Phase.READING, now_ms)
        return state, (ev.ReadTopics(state.ticket, None),)
    return _join(replace(state, topics=tuple(sorted(state.setup.subscription.streams))), now_ms)


def _join(state: State, now_ms: int) -> Decision:
    state = replace(outstanding(state, Phase.JOINING, now_ms), rejoin="")
    owned = in_order(state.owned)
    join = ev.Join(
        state.ticket, state.member_id, state.generation, state.topics, owned, state.reason
    )
    return state, (join,)


def _joined(state: State, event: ev.Joined, now_ms: int) -> Decision:
    topics = {topic for member in event.members.values() for topic in member.topics}
    state = replace(
        state,
        member_id=event.member_id,
        generation=event.generation,
        protocol=event.protocol,
        leads=event.leads,
        members=event.members,
        group_topics=tuple(sorted(topics)),
        seen=None,
        withheld=event.keep and event.protocol == COOPERATIVE,
        beat_at_ms=now_ms + state.setup.heartbeat_ms,
    )
    return _divide(state, now_ms) if event.leads and not event.keep else _sync(state, {}, now_ms)


def _divide(state: State, now_ms: int) -> Decision:
    state = outstanding(state, Phase.ASSIGNING, now_ms)
    return state, (ev.ReadTopics(state.ticket, state.group_topics),)


def _topics(state: State, partitions: Partitions, now_ms: int) -> Decision:
    if state.phase is Phase.READING:
        return _join(replace(state, topics=_matching(state, partitions)), now_ms)
    if state.phase is not Phase.ASSIGNING:
        return state, ()
    seen = {topic: tuple(partitions.get(topic, ())) for topic in state.group_topics}
    division = ASSIGNORS[state.protocol](state.members, seen)
    wanted = sum(map(len, seen.values()))
    withheld = sum(map(len, division.values())) < wanted
    return _sync(replace(state, seen=seen, withheld=withheld), division, now_ms)


def _sync(state: State, division: dict[str, list[TopicPartition]], now_ms: int) -> Decision:
    state = outstanding(state, Phase.SYNCING, now_ms)
    sync = ev.Sync(state.ticket, state.member_id, state.generation, state.protocol, division)
    return state, (sync,)


def _synced(state: State, event: ev.Synced, now_ms: int) -> Decision:
    wanted = state.setup.subscription
    target = frozenset(place for place in event.partitions if wanted.streams_of(place[0]))
    state = replace(
        state,
        target=target,
        attempts=0,
        proof_ms=max(state.proof_ms, state.sent_ms),
        steady_ms=max(state.steady_ms, state.sent_ms),
        beat_at_ms=now_ms,
        look_at_ms=now_ms + state.setup.look_ms,
    )
    revoked = state.owned - target
    if not revoked:
        return _load(state, now_ms)
    state = replace(
        outstanding(state, Phase.REVOKING, now_ms),
        rejoin=f"it has given up {len(revoked)} partitions for others",
    )
    gone = in_order(revoked)
    return state, (ev.StopFetchers(gone), ev.Release(state.ticket, gone))


def _load(state: State, now_ms: int) -> Decision:
    added = state.target - state.owned
    if not added:
        return _stable(state, now_ms)
    state = outstanding(state, Phase.LOADING, now_ms)
    return state, (ev.Load(state.ticket, in_order(added)),)


def _stable(state: State, now_ms: int) -> Decision:
    state = replace(state, phase=Phase.STABLE, attempts=0, wake_ms=None)
    return _rebalance(state, state.rejoin, now_ms) if state.rejoin else (state, ())


# -- answers ----------------------------------------------------------------------------------


def _done(state: State, now_ms: int) -> Decision:
    match state.phase:
        case Phase.RELEASING:
            return after(*forget(state, state.owned), _enter, now_ms)
        case Phase.REVOKING:
            return after(*forget(state, state.owned - state.target), _load, now_ms)
        case Phase.LOADING:
            added = in_order(state.target - state.owned)
            state = replace(state, owned=state.target)
            return after(state, (ev.StartFetchers(added),), _stable, now_ms)
        case Phase.GIVING_UP:
            return _given_up(state, now_ms)
        case Phase.LEAVING_RELEASE:
            state, actions = forget(state, state.owned)
            state, more = _leave(state)
            return state, (*actions, *more)
        case Phase.LEAVING_GROUP:
            return replace(state, phase=Phase.CLOSED), (ev.Close(),)
        case _:
            return state, ()


def _refused(state: State, event: ev.Refused, now_ms: int) -> Decision:
    """A join or a sync was refused."""
    code = event.code
    row = TABLE.get(code)
    if code == CODES["MEMBER_ID_REQUIRED"] and event.member_id and not state.member_id:
        return _join(replace(state, member_id=event.member_id), now_ms)
    if code in _PUT_OUT:
        state, actions = lose(state, code)
        return pause_unless_first(state, now_ms), actions
    if code == _REBALANCE:  # it is how groups grow: no reason for longer and longer pauses
        return again(state, now_ms + (state.setup.backoff_ms if state.attempts else 0)), ()
    if code in _MOVED:
        return no_answer(state, now_ms), ()
    if row is not None and row.retriable:
        return later(state, Phase.FINDING, now_ms), ()
    state, actions = lose(state, code)
    return replace(state, phase=Phase.CLOSED), (*actions, ev.Fail(code))


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
            return _enter(state, now_ms)
        case Phase.ASSIGNING:
            return _divide(state, now_ms)
        case Phase.LOADING:
            return _load(state, now_ms)
        case _:
            return state, ()


def _found(state: State, now_ms: int) -> Decision:
    state = replace(state, found=True, seeking=False, beat_at_ms=now_ms)
    waits = state.phase is Phase.FINDING and state.wake_ms is None
    return _enter(state, now_ms) if waits else (state, ())


# -- signs of life ----------------------------------------------------------------------------


def _beaten(state: State, event: ev.Beaten, now_ms: int) -> Decision:
    state = replace(state, beat_out=False)
    code, row = event.code, TABLE.get(event.code)
    if event.generation != state.generation or state.phase in _LEAVING:
        return state, ()
    if code in (0, _REBALANCE):
        state = replace(state, proof_ms=max(state.proof_ms, state.beat_sent_ms))
        if not code:
            state = replace(state, steady_ms=state.proof_ms)
        return _rebalance_begins(state, now_ms) if code else (state, ())
    if code in _MOVED:
        return replace(state, found=False), ()
    if code == _ILLEGAL_GENERATION and state.phase is Phase.JOINING:
        return state, ()  # the next generation has begun, and our join's answer is on its way
    if code in _PUT_OUT:
        return _lost(state, code, now_ms)
    if row is not None and row.retriable:
        return state, ()
    state, actions = lose(state, code)
    return replace(state, phase=Phase.CLOSED), (*actions, ev.Fail(code))


def _rebalance_begins(state: State, now_ms: int) -> Decision:
    reason = "the group rebalances"
    if state.phase in (Phase.STABLE, Phase.LOADING):
        return _rebalance(state, reason, now_ms)
    if state.phase is Phase.REVOKING:
        return replace(state, rejoin=state.rejoin or reason), ()
    return state, ()  # it joins anyway


def _lost(state: State, code: int, now_ms: int) -> Decision:
    """The group went on without us: what we owned may be others' by now."""
    if state.phase in (Phase.RELEASING, Phase.REVOKING):  # the application is being waited for
        everything = in_order(state.owned)
        state = replace(state, phase=Phase.RELEASING, generation=-1, target=NOBODY)
        return without_id(state, code), (ev.StopFetchers(everything),)
    state, actions = lose(state, code)
    if state.phase is Phase.JOINING:  # its answer says the same
        return state, actions
    return after(state, actions, _enter, now_ms)


# -- topics -----------------------------------------------------------------------------------


def _looked(state: State, event: ev.Looked, now_ms: int) -> Decision:
    state = replace(state, looking=False, look_at_ms=now_ms + state.setup.look_ms)
    if event.partitions is None or state.phase is not Phase.STABLE:
        return state, ()
    if state.setup.subscription.is_filter and _matching(state, event.partitions) != state.topics:
        return _rebalance(state, "other topics match its filter", now_ms)
    if not state.leads:
        return state, ()
    if state.withheld:  # its owner died, or was started again as a static member, before it joined
        return _rebalance(state, "partitions that were given up are nobody's", now_ms)
    seen = {topic: tuple(event.partitions.get(topic, ())) for topic in state.group_topics}
    if state.seen in (None, seen):
        return replace(state, seen=seen), ()
    return _rebalance(state, "topics have other partitions now", now_ms)


def _matching(state: State, partitions: Partitions) -> tuple[str, ...]:
    wanted = state.setup.subscription
    return tuple(topic for topic in sorted(partitions) if wanted.streams_of(topic))


# -- out of the group -------------------------------------------------------------------------


def _slow(state: State) -> Decision:
    state = replace(state, phase=Phase.GIVING_UP, ticket=state.ticket + 1, rejoin="")
    everything = in_order(state.owned)
    return state, (ev.StopFetchers(everything), ev.Release(state.ticket, everything))


def _given_up(state: State, now_ms: int) -> Decision:
    state, actions = forget(state, state.owned)
    if state.rejoin:  # it has asked meanwhile
        return after(state, actions, _enter, now_ms)
    member_id = state.member_id
    state = replace(state, phase=Phase.IDLE, member_id="", generation=-1, target=NOBODY)
    # A static member does not leave: its session runs out, unless it comes back before.
    if state.setup.static or not state.found:
        return state, actions
    state = replace(state, ticket=state.ticket + 1)
    return state, (*actions, ev.Leave(state.ticket, member_id))


def _asked(state: State, now_ms: int) -> Decision:
    reason = "the application asks again"
    if state.phase is Phase.GIVING_UP:
        return replace(state, rejoin=reason, reason=reason), ()
    return _rebalance(state, reason, now_ms) if state.phase is Phase.IDLE else (state, ())


def _stop(state: State) -> Decision:
    if state.phase in _LEAVING:
        return state, ()
    if not state.owned:
        return _leave(state)
    everything = in_order(state.owned)
    state = replace(state, phase=Phase.LEAVING_RELEASE, ticket=state.ticket + 1, wake_ms=None)
    return state, (ev.StopFetchers(everything), ev.Release(state.ticket, everything))


def _leave(state: State) -> Decision:
    if not state.member_id or state.setup.static or not state.found:
        return replace(state, phase=Phase.CLOSED), (ev.Close(),)
    state = replace(state, phase=Phase.LEAVING_GROUP, ticket=state.ticket + 1, wake_ms=None)
    return state, (ev.Leave(state.ticket, state.member_id),)
