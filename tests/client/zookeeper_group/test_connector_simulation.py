"""Groups of consumers in a simulated world, many seeds, with named invariants.

The world is in :mod:`rebalance_world`: a registry with sessions, ephemeral nodes and
one-shot watches that are told late, twice or together; consumers that join, leave, are killed,
fall silent, lose the connection or the session; brokers that come and go; topics that are
created, grow and are deleted. Odd seeds lose sessions and kill, even ones do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import rebalance_consumer
from rebalance_world import BrokenInvariantError, World, simulate

from tallymark.client.consuming.assignment import split_range
from tallymark.client.consuming.stream import Gate
from tallymark.client.zookeeper_group import machine as connector_machine
from tallymark.client.zookeeper_group import rebalance

WORLDS = 150


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, WORLDS, 30))
def test_what_the_rebalance_promises_holds_in_every_world(first: int) -> None:
    _simulate_all(range(first, first + 30))


def test_a_seed_replays_the_same_world() -> None:
    traces = [simulate(77).trace for _ in range(2)]
    assert traces[0] == traces[1]


def test_the_worlds_are_eventful() -> None:
    """A simulation in which nothing happens holds every invariant."""
    traces = [line for seed in range(20) for line in simulate(seed).trace]
    for event in (
        "joins",
        "is told to stop",
        "is killed",
        "loses its connection",
        "session times out",
        "session ends unseen",
        "Refused",
        "does nothing for a while",
        "node is deleted",
        "broker",
        "is deleted",
        "has 5 partitions",
    ):
        assert any(event in line for line in traces), event


_CLAIM = "    return state, (ClaimOwners(state.ticket, tuple(sorted(target)), state.session),)"
_GIVE_UP = "    state = replace(_outstanding(state, Phase.COMMITTING), running=False)\n"
_SUSPEND = (
    "    state = replace(state, phase=Phase.OFFLINE, ticket=state.ticket + 1, wake_ms=None)\n"
)
_LOAD = "return state, (LoadOffsets(state.ticket, tuple(sorted(state.held))),)"
_BREAKS: dict[str, tuple[str, ...]] = {
    "partitions are released while they are still delivered": (
        f"{_GIVE_UP}    return state, (StopFetchers(), CommitOffsets(state.ticket))",
        f"{_GIVE_UP}    return state, (CommitOffsets(state.ticket),)",
    ),
    "offsets are not stored before the release": (
        (f"{_GIVE_UP}    return state, (StopFetchers(), CommitOffsets(state.ticket))"),
        (
            "    state, actions = _release(replace(state, running=False))\n"
            "    return state, (StopFetchers(), *actions)"
        ),
    ),
    "a lost session's ownership is believed in": (
        "    fresh = State(state.consumer, ticket=state.ticket + 1)\n",
        (
            "    fresh = replace(state, phase=Phase.OFFLINE, ticket=state.ticket + 1)\n"
            "    return fresh, (Pause(),)\n"
        ),
    ),
    "a refused claim is kept while waiting": (
        "    return _release(replace(state, target=None, attempts=state.attempts + 1))",
        (
            "    return _outstanding_refused(replace(state, attempts=state.attempts + 1))\n\n\n"
            "def _outstanding_refused(state: State) -> Decision:\n"
            "    return _claim(replace(state, target=state.held))"
        ),
    ),
    "a change during a rebalance is forgotten": (
        "    return _look_again(state, actions) if state.changed else (state, actions)",
        "    return replace(state, changed=False), actions",
    ),
    "a suspension does not end what is under way": (
        _SUSPEND,
        "    state = replace(state, wake_ms=None)\n",
    ),
    "a suspension is not noticed": (
        (f"{_SUSPEND}    return state, (Pause(),)\n"),
        "    return state, ()\n",
    ),
    "a new session is taken for the old one": (
        "if state.session not in (0, session):",
        "if False:",
    ),
    "a watch is not noticed": (
        "    if state.phase in (Phase.RUNNING, Phase.WAITING):\n",
        "    if state.phase is Phase.WAITING:\n",
    ),
    "a refused claim stands while waiting": (
        "return _refused(state)\n",
        "return _refused(state, now_ms)\n",
        "def _refused(state: State) -> Decision:",
        "def _refused(state: State, now_ms: int) -> Decision:",
        "    return _release(replace(state, target=None, attempts=state.attempts + 1))",
        "    return _wait(replace(state, target=None, attempts=state.attempts + 1), now_ms)",
    ),
    "who gives up still counts as running": (
        _GIVE_UP,
        "    state = _outstanding(state, Phase.COMMITTING)\n",
    ),
    "what failed is not tried again": (
        "    return _wait(replace(state, attempts=state.attempts + 1, running=False), now_ms)",
        "    return replace(state, phase=Phase.RUNNING, running=False), ()",
    ),
    "it is tried again without a pause": ("    pause = min(", "    pause = 0 * min("),
    "offsets are stored after the release": (
        (f"{_GIVE_UP}    return state, (StopFetchers(), CommitOffsets(state.ticket))"),
        (
            "    state = replace(_outstanding(state, Phase.RELEASING), running=False)\n"
            "    nodes = tuple(sorted(state.held))\n"
            "    return state, (StopFetchers(), ReleaseOwners(state.ticket, nodes))"
        ),
        "            return _released(state, now_ms)\n",
        (
            "            state = replace(_outstanding(state, Phase.COMMITTING), held={})\n"
            "            return state, (CommitOffsets(state.ticket),)\n"
        ),
        "            return _release(state)\n",
        (
            "            state, actions = _released(state, now_ms)\n"
            "            return state, (Forget(), *actions)\n"
        ),
    ),
    "a claim of unknown fate is forgotten": (
        "    return _wait(replace(state, attempts=state.attempts + 1, running=False), now_ms)",
        (
            "    return _wait(replace(state, held={}, attempts=state.attempts + 1, running=False), "
            "now_ms)"
        ),
    ),
    "a consumer reads the offsets before it owns the partitions": (
        f"{_CLAIM}\n",
        (
            "    state = replace(state, phase=Phase.LOADING)\n"
            "    return state, (LoadOffsets(state.ticket, tuple(sorted(target))),)\n"
        ),
        "            return _settled(state, (StartFetchers(state.held),))\n",
        (
            "            state, target = _outstanding(state, Phase.CLAIMING), state.held\n"
            f"        {_CLAIM}\n"
        ),
        f"            {_LOAD}\n",
        "            return _settled(state, (StartFetchers(state.held),))\n",
    ),
}


@pytest.mark.parametrize("what", _BREAKS)
@pytest.mark.slow
def test_a_broken_machine_is_found_out(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation is worth what it finds: each of these breaks one promise of the machine."""
    monkeypatch.setattr(rebalance_consumer, "decide", _broken(*_BREAKS[what]))
    with pytest.raises(BrokenInvariantError, match=r"replay: python .*rebalance_world\.py \d+"):
        _simulate_all(range(WORLDS))


_SOUND_SPLIT = split_range
_DIVISIONS: dict[str, Callable[[Sequence[Any], int], list[Sequence[Any]]]] = {
    "the remainder is nobody's": lambda items, n: [
        items[i * (len(items) // n) : (i + 1) * (len(items) // n)] for i in range(n)
    ],
    "the last ones take the remainder": lambda items, n: [
        share[::-1] for share in reversed(_SOUND_SPLIT(items[::-1], n))
    ],
    "it goes round in turn": lambda items, n: [items[i::n] for i in range(n)],
}


@pytest.mark.parametrize("what", _DIVISIONS)
def test_another_division_is_found_out(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All consumers compute it, and come to the same one: the simulation knows the paper's."""
    monkeypatch.setattr(rebalance, "split_range", _DIVISIONS[what])
    with pytest.raises(BrokenInvariantError, match=r"EverythingOwned"):
        _simulate_all(range(WORLDS))


@pytest.mark.parametrize("what", ["the gate", "a watch", "the owner's session"])
def test_a_broken_shell_is_found_out(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine relies on."""
    match what:
        case "the gate":
            monkeypatch.setattr(Gate, "suspend", lambda gate: None)
        case "a watch":
            monkeypatch.setattr(rebalance_consumer, "topic_watch", lambda topic: "nothing")
        case _:
            monkeypatch.setattr(rebalance_consumer.Consumer, "_store", _store_in_any_session)
    with pytest.raises(BrokenInvariantError):
        _simulate_all(range(WORLDS))


def _store_in_any_session(
    consumer: rebalance_consumer.Consumer, positions: dict[tuple[str, int], int], session: int
) -> bool:
    for place, offset in positions.items():
        consumer.world.check_commit(consumer, place, offset)
        consumer.world.registry.offsets[place] = offset
    return True


def _simulate_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        simulate(seed)


def _broken(*changes: str) -> Callable[..., object]:
    """The machine with some texts of its source replaced: sound, broken, sound, broken ..."""
    source = Path(connector_machine.__file__).read_text("utf-8")
    for sound, broken in zip(changes[::2], changes[1::2], strict=True):
        assert source.count(sound) == 1, "the machine has changed: break it in the same way again"
        source = source.replace(sound, broken)
    module = ModuleType("broken_machine")
    exec(compile(source, "broken_machine", "exec"), module.__dict__)
    decide: Callable[..., object] = module.__dict__["decide"]
    return decide


@pytest.mark.soak
@pytest.mark.parametrize("thousand", range(10))
def test_many_worlds(thousand: int) -> None:
    """Some bugs of the state machine showed in one of a few thousand worlds only."""
    _simulate_all(range(10_000 + thousand * 1000, 11_000 + thousand * 1000))


@pytest.mark.soak
@pytest.mark.parametrize("hundred", range(3))
def test_long_worlds(hundred: int) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        World(seed, crashes=bool(seed % 2)).run(6000)
