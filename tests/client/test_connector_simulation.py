"""Groups of consumers in a simulated world, many seeds, with named invariants.

The world is in ``tests/support/rebalance_world.py``: a registry with sessions, ephemeral nodes and
one-shot watches that are told late, twice or together; consumers that join, leave, are killed,
fall silent, lose the connection or the session; brokers that come and go; topics that are
created, grow and are deleted. Odd seeds lose sessions and kill, even ones do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

import pytest
import rebalance_consumer
from rebalance_world import BrokenInvariantError, World, simulate

from tallymark.client.connector import machine as connector_machine


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_what_the_rebalance_promises_holds_in_every_world(first: int) -> None:
    _simulate_all(range(first, first + 20))


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
_LOAD = "return state, (LoadOffsets(state.ticket, tuple(sorted(state.held))),)"
_BREAKS: dict[str, tuple[str, ...]] = {
    "partitions are released while they are still delivered": (
        "running=False)\n    return state, (StopFetchers(), CommitOffsets(state.ticket))",
        "running=False)\n    return state, (CommitOffsets(state.ticket),)",
    ),
    "offsets are not stored before the release": (
        (
            "    state = replace(_outstanding(state, Phase.COMMITTING), running=False)\n"
            "    return state, (StopFetchers(), CommitOffsets(state.ticket))"
        ),
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
    "answers of before the suspension still count": (
        "    state = replace(state, phase=Phase.OFFLINE, ticket=state.ticket + 1, wake_ms=None)\n",
        "    state = replace(state, wake_ms=None)\n",
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
def test_a_broken_machine_is_found_out(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation is worth what it finds: each of these breaks one promise of the machine."""
    monkeypatch.setattr(rebalance_consumer, "decide", _broken(*_BREAKS[what]))
    with pytest.raises(BrokenInvariantError, match=r"replay: python .*rebalance_world\.py \d+"):
        _simulate_all(range(300))


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
