"""The small steps that decisions of a group member are made of. Pure; part of
:mod:`.machine`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine.assignors import Partitions
from tallymark.client.group.state_machine.state import NOBODY, Phase, Places, State
from tallymark.errors import CODES, TABLE
from tallymark.protocol.topic_partition import TopicPartition

Decision: TypeAlias = tuple[State, tuple[act.Action, ...]]
GoOn: TypeAlias = Callable[[State, int], Decision]

BACKOFF_MAX_MS: Final = 2_000
ILLEGAL_GENERATION: Final = CODES["ILLEGAL_GENERATION"]
PUT_OUT: Final = (CODES["UNKNOWN_MEMBER_ID"], ILLEGAL_GENERATION)
REBALANCE: Final = CODES["REBALANCE_IN_PROGRESS"]
MOVED: Final = frozenset({CODES["NOT_COORDINATOR"], CODES["COORDINATOR_NOT_AVAILABLE"]})


def in_order(places: Places) -> tuple[TopicPartition, ...]:
    """Sorted by topic and number."""
    return tuple(sorted(places))


def matching(state: State, partitions: Partitions) -> tuple[str, ...]:
    """Which of these topics its filter wants."""
    wanted = state.setup.subscription
    return tuple(topic for topic in sorted(partitions) if wanted.streams_of(topic))


def outstanding(state: State, phase: Phase, now_ms: int) -> State:
    """In this phase, and waiting for the answer to a new ticket."""
    return replace(state, phase=phase, ticket=state.ticket + 1, wake_ms=None, sent_ms=now_ms)


def after(state: State, actions: tuple[act.Action, ...], go_on: GoOn, now_ms: int) -> Decision:
    """``actions``, then what ``go_on`` decides."""
    state, more = go_on(state, now_ms)
    return state, (*actions, *more)


def forget(state: State, places: Places) -> Decision:
    """These are given up."""
    return replace(state, owned=state.owned - places), (act.Forget(in_order(places)),)


def lose(state: State, code: int) -> Decision:
    """The group went on without us: what we owned may be others' by now."""
    gone = in_order(state.owned)
    state = without_id(replace(state, owned=NOBODY, target=NOBODY, generation=-1), code)
    return state, (act.StopFetchers(gone), act.Forget(gone)) if gone else ()


def without_id(state: State, code: int) -> State:
    """The member id is kept unless it is what the coordinator does not know."""
    reason = f"the coordinator says {TABLE[code].name}" if code in TABLE else "it was put out"
    unknown = code == CODES["UNKNOWN_MEMBER_ID"]
    return replace(state, member_id="" if unknown else state.member_id, reason=reason)


def no_answer(state: State, now_ms: int) -> State:
    """The coordinator must be found again, a little later. What waits for an
    answer of it begins anew."""
    attempts = state.attempts + 1
    pause = now_ms + backoff_ms(state.setup.backoff_ms, attempts)
    state = replace(state, found=False, attempts=attempts, seek_at_ms=pause)
    if state.phase in (Phase.JOINING, Phase.SYNCING):
        state = replace(state, phase=Phase.FINDING, ticket=state.ticket + 1, wake_ms=None)
    return state


def without_coordinator(state: State, now_ms: int) -> State:
    """A heartbeat found no coordinator where it was: look for it. At once the first time; later
    with a pause, since the same wrong broker may be named each time."""
    pause = backoff_ms(state.setup.backoff_ms, state.misses) if state.misses else 0
    return replace(state, found=False, misses=state.misses + 1, seek_at_ms=now_ms + pause)


def pause_unless_first(state: State, now_ms: int) -> State:
    """Join again: at once, or a little later when that was refused before."""
    return later(state, Phase.FINDING, now_ms) if state.attempts else again(state, now_ms)


def later(state: State, phase: Phase, now_ms: int) -> State:
    """Try again in this phase, after a pause that grows."""
    pause = backoff_ms(state.setup.backoff_ms, state.attempts + 1)
    return replace(again(state, now_ms + pause), phase=phase)


def again(state: State, wake_ms: int) -> State:
    """Join again at that time."""
    return replace(
        state,
        phase=Phase.FINDING,
        ticket=state.ticket + 1,
        attempts=state.attempts + 1,
        wake_ms=wake_ms,
    )


def backoff_ms(first_ms: int, attempts: int) -> int:
    """The pause after so many failures in a row: twice as long each time, 2 s at most."""
    return min(first_ms << min(max(attempts - 1, 0), 10), BACKOFF_MAX_MS)
