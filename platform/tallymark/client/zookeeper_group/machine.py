"""When a consumer of a group registers, claims, releases and waits: a pure state machine.

``decide(state, event, now_ms) -> (state, actions)``. The shell performs the actions in order and
answers each *remote* one (those with a ticket) with :class:`Done`, :class:`Refused` or
:class:`Failed`; at most one is outstanding, and an answer with an old ticket is ignored.

::

                    Connected                  Done                    target = held: go on
    OFFLINE ───────────────────► REGISTERING ────────► READING ──────────────────────► RUNNING
       ▲                                               │  ▲  ▲                            │
       │ Suspended (pause at once)           otherwise │  │  └───────── Changed ──────────┘
       │ Lost (what was owned is void)                 ▼  │
    any phase           COMMITTING ──► RELEASING ──► CLAIMING ──► LOADING ──► RUNNING
                        (fetchers stopped)     ▲        │ Refused
                                               └────────┴──► WAITING ──► READING

Guarantees:

* No fetcher runs on a partition without an owner node of this session (*owned before fetched*).
* Fetchers are stopped and offsets stored before owner nodes are deleted (*flushed before
  released*).
* Offsets are read after the partition was claimed, hence after the previous owner stored them.
* Suspension pauses consumption at once; a lost session voids ownership without a commit, since
  another consumer may consume the partitions already.
* While another consumer's owner node exists, all partitions are released, and claimed again later:
  two consumers never hold partitions that the other one waits for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallymark.client.zookeeper_group.events import (
    Action,
    Changed,
    ClaimOwners,
    Close,
    CommitOffsets,
    Connected,
    Done,
    Event,
    Failed,
    Forget,
    LeaveGroup,
    LoadOffsets,
    Lost,
    Membership,
    Pause,
    Phase,
    ReadMembership,
    Refused,
    Register,
    ReleaseOwners,
    Resume,
    StartFetchers,
    State,
    Stop,
    StopFetchers,
    Suspended,
    Tick,
)
from tallymark.client.zookeeper_group.rebalance import assignment_of

BACKOFF_MS: Final = 100
BACKOFF_MAX_MS: Final = 2000

Decision = tuple[State, tuple[Action, ...]]
_LEAVING: Final = (Phase.LEAVING_COMMIT, Phase.LEAVING_RELEASE, Phase.LEAVING_GROUP)


def decide(state: State, event: Event, now_ms: int) -> Decision:
    """The next state, and the actions to perform. ``now_ms`` is of a clock that never goes back."""
    if state.phase is Phase.CLOSED:
        return state, ()
    match event:
        case Connected():
            return _connected(state, event.session)
        case Suspended():
            return _suspended(state)
        case Lost():
            return _lost(state)
        case Stop():
            return _stop(state)
        case Changed():
            return _changed(state)
        case Tick():
            due = state.wake_ms is not None and now_ms >= state.wake_ms
            return _look_again(state) if state.phase is Phase.WAITING and due else (state, ())
        case Membership() if event.ticket == state.ticket and state.phase is Phase.READING:
            return _membership(state, event, now_ms)
        case Done() if event.ticket == state.ticket:
            return _done(state, now_ms)
        case Refused() if event.ticket == state.ticket and state.phase is Phase.CLAIMING:
            return _refused(state)
        case Failed() if event.ticket == state.ticket:
            return _failed(state, now_ms)
        case _:
            return state, ()


# -- the session ------------------------------------------------------------------------------


def _connected(state: State, session: int) -> Decision:
    if state.phase is not Phase.OFFLINE:
        return state, ()
    if state.session not in (0, session):  # its end was not reported; the same as Lost
        state, actions = _lost(state)
        return _look_again(replace(state, session=session), actions)
    return _look_again(replace(state, session=session))


def _suspended(state: State) -> Decision:
    if state.phase in _LEAVING:
        return _closed(state)
    # Another ticket: an answer to an earlier action is ignored from now on.
    state = replace(state, phase=Phase.OFFLINE, ticket=state.ticket + 1, wake_ms=None)
    return state, (Pause(),)


def _lost(state: State) -> Decision:
    if state.phase in _LEAVING:
        return _closed(state)
    fresh = State(state.consumer, ticket=state.ticket + 1)
    return fresh, (Pause(), StopFetchers(), Forget())


def _stop(state: State) -> Decision:
    if state.phase in _LEAVING:
        return state, ()
    if state.phase is Phase.OFFLINE:
        # Nothing can be stored now, and the end of the session removes our ephemeral nodes.
        return _closed(state)
    state = replace(_outstanding(state, Phase.LEAVING_COMMIT), running=False)
    return state, (StopFetchers(), CommitOffsets(state.ticket))


def _closed(state: State) -> Decision:
    return replace(state, phase=Phase.CLOSED, running=False), (StopFetchers(), Forget(), Close())


# -- rebalance --------------------------------------------------------------------------------


def _changed(state: State) -> Decision:
    if state.phase in (Phase.RUNNING, Phase.WAITING):
        return _look_again(state)
    return replace(state, changed=True), ()


def _look_again(state: State, before: tuple[Action, ...] = ()) -> Decision:
    """Register if needed, then read the membership; a change that is reported from now on causes
    another read."""
    phase = Phase.READING if state.registered else Phase.REGISTERING
    state = replace(_outstanding(state, phase), changed=False, target=None)
    ticket = state.ticket
    return state, (*before, ReadMembership(ticket) if state.registered else Register(ticket))


def _membership(state: State, read: Membership, now_ms: int) -> Decision:
    if state.consumer not in read.members:
        # Another program deleted our node, or wrote data into it that cannot be read: register
        # again first, but with a delay, since that program may repeat it.
        return _wait(replace(state, registered=False, attempts=state.attempts + 1), now_ms)
    target = assignment_of(state.consumer, read.members, read.partitions)
    if state.running and target == state.held:
        return _settled(state, (Resume(),))
    state = replace(state, target=target)
    if not state.held:
        return _claim(state)
    state = replace(_outstanding(state, Phase.COMMITTING), running=False)
    return state, (StopFetchers(), CommitOffsets(state.ticket))


def _claim(state: State) -> Decision:
    """Claim the target; from here on its owner nodes may exist, whatever the answer."""
    target = state.target or {}
    state = replace(_outstanding(state, Phase.CLAIMING), held=target, target=None, running=False)
    # A claim that waits for the connection must not be made in the next session: the state of that
    # session would not contain it.
    return state, (ClaimOwners(state.ticket, tuple(sorted(target)), state.session),)


def _release(state: State, phase: Phase = Phase.RELEASING) -> Decision:
    """Release what is held. Positions are dropped first: the application must not commit after the
    release."""
    state = _outstanding(state, phase)
    return state, (Forget(), ReleaseOwners(state.ticket, tuple(sorted(state.held))))


def _refused(state: State) -> Decision:
    return _release(replace(state, target=None, attempts=state.attempts + 1))


def _settled(state: State, actions: tuple[Action, ...]) -> Decision:
    state = replace(state, phase=Phase.RUNNING, running=True, attempts=0, wake_ms=None)
    return _look_again(state, actions) if state.changed else (state, actions)


# -- answers ----------------------------------------------------------------------------------


def _done(state: State, now_ms: int) -> Decision:
    match state.phase:
        case Phase.REGISTERING:
            return _look_again(replace(state, registered=True))
        case Phase.COMMITTING:
            return _release(state)
        case Phase.RELEASING:
            return _released(state, now_ms)
        case Phase.CLAIMING:
            state = _outstanding(state, Phase.LOADING)
            return state, (LoadOffsets(state.ticket, tuple(sorted(state.held))),)
        case Phase.LOADING:
            return _settled(state, (StartFetchers(state.held),))
        case Phase.LEAVING_COMMIT:
            return _release(state, Phase.LEAVING_RELEASE)
        case Phase.LEAVING_RELEASE:
            state = replace(_outstanding(state, Phase.LEAVING_GROUP), held={})
            return state, (LeaveGroup(state.ticket),)
        case Phase.LEAVING_GROUP:
            return _closed(state)
        case _:
            return state, ()


def _released(state: State, now_ms: int) -> Decision:
    state = replace(state, held={})
    if state.changed:
        return _look_again(state)
    if state.target is None:  # another consumer's node exists: give it time to be deleted
        return _wait(state, now_ms)
    return _claim(state)


def _failed(state: State, now_ms: int) -> Decision:
    """An action failed, and may have been done in part. While consuming: read again later; ``held``
    has the nodes that may exist. While leaving: continue, since the end of the session removes the
    rest."""
    if state.phase in _LEAVING:
        return _done(state, now_ms)
    if state.running and state.phase is Phase.READING:
        # Consumption continues: owned partitions stay owned as long as the session is open.
        return _wait(replace(state, attempts=state.attempts + 1), now_ms)
    return _wait(replace(state, attempts=state.attempts + 1, running=False), now_ms)


def _wait(state: State, now_ms: int) -> Decision:
    pause = min(BACKOFF_MS << min(max(state.attempts - 1, 0), 10), BACKOFF_MAX_MS)
    return replace(_outstanding(state, Phase.WAITING), wake_ms=now_ms + pause), ()


def _outstanding(state: State, phase: Phase) -> State:
    return replace(state, phase=phase, ticket=state.ticket + 1, wake_ms=None)
