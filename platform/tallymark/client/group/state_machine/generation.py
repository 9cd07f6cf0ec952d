"""Into a generation of the group: join, divide as leader, get a part, give up, load. Pure; part of
:mod:`.machine`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.assignors import ASSIGNORS, COOPERATIVE, Partitions
from tallymark.client.group.state_machine.state import NOBODY, Phase, State
from tallymark.client.group.state_machine.steps import (
    MOVED,
    PUT_OUT,
    REBALANCE,
    Decision,
    again,
    in_order,
    later,
    lose,
    matching,
    no_answer,
    outstanding,
    pause_unless_first,
)
from tallymark.errors import CODES, TABLE
from tallymark.protocol.topic_partition import TopicPartition

_MEMBER_ID_REQUIRED: Final = CODES["MEMBER_ID_REQUIRED"]


def rebalance(state: State, reason: str, now_ms: int) -> Decision:
    """Join again; eager assignors want everything given up before."""
    state = replace(state, reason=reason, rejoin="", target=NOBODY)
    if state.owned and not state.setup.cooperative:
        state = outstanding(state, Phase.RELEASING, now_ms)
        everything = in_order(state.owned)
        return state, (act.StopFetchers(everything), act.Release(state.ticket, everything))
    return enter(state, now_ms)


def enter(state: State, now_ms: int) -> Decision:
    """Join, as soon as the coordinator and the own topics are known."""
    if not state.found:
        return outstanding(state, Phase.FINDING, now_ms), ()
    if state.setup.subscription.is_filter:
        state = outstanding(state, Phase.READING, now_ms)
        return state, (act.ReadTopics(state.ticket, None),)
    return _join(replace(state, topics=tuple(sorted(state.setup.subscription.streams))), now_ms)


def _join(state: State, now_ms: int) -> Decision:
    state = replace(outstanding(state, Phase.JOINING, now_ms), rejoin="", doubted=False)
    owned = in_order(state.owned)
    join = act.Join(
        state.ticket, state.member_id, state.generation, state.topics, owned, state.reason
    )
    return state, (join,)


def joined(state: State, event: ev.Joined, now_ms: int) -> Decision:
    """In; the leader divides."""
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
    return divide(state, now_ms) if event.leads and not event.keep else _sync(state, {}, now_ms)


def divide(state: State, now_ms: int) -> Decision:
    """As leader: read what there is to divide."""
    state = outstanding(state, Phase.ASSIGNING, now_ms)
    return state, (act.ReadTopics(state.ticket, state.group_topics),)


def topics_read(state: State, partitions: Partitions, now_ms: int) -> Decision:
    """The topics for the own subscription, or the partitions to divide."""
    if state.phase is Phase.READING:
        return _join(replace(state, topics=matching(state, partitions)), now_ms)
    if state.phase is not Phase.ASSIGNING:
        return state, ()
    seen = {topic: tuple(partitions.get(topic, ())) for topic in state.group_topics}
    division = ASSIGNORS[state.protocol](state.members, seen)
    wanted = sum(map(len, seen.values()))
    withheld = sum(map(len, division.values())) < wanted
    return _sync(replace(state, seen=seen, withheld=withheld), division, now_ms)


def _sync(state: State, division: dict[str, list[TopicPartition]], now_ms: int) -> Decision:
    state = outstanding(state, Phase.SYNCING, now_ms)
    sync = act.Sync(state.ticket, state.member_id, state.generation, state.protocol, division)
    return state, (sync,)


def synced(state: State, event: ev.Synced, now_ms: int) -> Decision:
    """The own part is known: give up what is others' now, before what is new is loaded."""
    wanted = state.setup.subscription
    target = frozenset(place for place in event.partitions if wanted.streams_of(place[0]))
    state = replace(
        state,
        target=target,
        attempts=0,
        misses=0,
        proof_ms=max(state.proof_ms, state.sent_ms),
        steady_ms=max(state.steady_ms, state.sent_ms),
        beat_at_ms=now_ms,
        look_at_ms=now_ms + state.setup.look_ms,
    )
    revoked = state.owned - target
    if not revoked:
        return load(state, now_ms)
    state = replace(
        outstanding(state, Phase.REVOKING, now_ms),
        rejoin=f"it has given up {len(revoked)} partitions for others",
    )
    gone = in_order(revoked)
    return state, (act.StopFetchers(gone), act.Release(state.ticket, gone))


def load(state: State, now_ms: int) -> Decision:
    """Read where to go on in what is new."""
    added = state.target - state.owned
    if not added:
        return stable(state, now_ms)
    state = outstanding(state, Phase.LOADING, now_ms)
    return state, (act.Load(state.ticket, in_order(added)),)


def stable(state: State, now_ms: int) -> Decision:
    """Consume; unless another rebalance is due already."""
    state = replace(state, phase=Phase.STABLE, attempts=0, wake_ms=None)
    return rebalance(state, state.rejoin, now_ms) if state.rejoin else (state, ())


def refused(state: State, event: ev.Refused, now_ms: int) -> Decision:
    """A join or a sync was refused."""
    code = event.code
    row = TABLE.get(code)
    if code == _MEMBER_ID_REQUIRED and event.member_id and not state.member_id:  # KIP-394
        return _join(replace(state, member_id=event.member_id), now_ms)
    if code in PUT_OUT:
        state, actions = lose(state, code)
        return pause_unless_first(state, now_ms), actions
    if code == REBALANCE:  # it is how groups grow: no reason for longer and longer pauses
        return again(state, now_ms + (state.setup.backoff_ms if state.attempts else 0)), ()
    if code in MOVED:
        return no_answer(state, now_ms), ()
    if row is not None and row.retriable:
        return later(state, Phase.FINDING, now_ms), ()
    state, actions = lose(state, code)
    return replace(state, phase=Phase.CLOSED), (*actions, act.Fail(code))
