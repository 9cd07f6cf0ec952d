"""Many seeded runs of several nodes on one store (:mod:`node_world`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from memory_store import MemoryStore
from node_world import World
from virtual_loop import run_virtually

from tallymark_schema_registry.decisions.independence import Touched
from tallymark_schema_registry.node.replica import Replica
from tallymark_schema_registry.node.shell import Shell

STEPS = 600


def play(seed: int, steps: int = STEPS) -> World:
    async def main() -> World:
        world = World(seed)
        await world.run(steps)
        return world

    return run_virtually(main)


def play_all(seeds: range) -> None:
    for seed in seeds:
        play(seed)


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_lost_reused_or_contradicted(seed: int) -> None:
    play(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 1_600, 50))
def test_many_more_runs(first: int) -> None:
    play_all(range(first, first + 50))


def never_asks(patch: pytest.MonkeyPatch) -> None:
    """Reads are answered from memory, whatever other nodes did."""
    patch.setattr(Replica, "is_current", lambda _: True)


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """After a lost commit the store is read, and a transaction that is about to be written is not
    waited for."""
    patch.setattr(MemoryStore, "fence", MemoryStore.since)


def all_together(patch: pytest.MonkeyPatch) -> None:
    """Commands that depend on each other are decided on one catalog."""
    patch.setattr(Touched, "is_independent_of", lambda *_: True)


def decides_once(patch: pytest.MonkeyPatch) -> None:
    """What was decided is written though the catalog has changed meanwhile."""

    def init(shell: Shell, *arguments: object) -> None:
        kept(shell, *arguments)  # type: ignore[arg-type]
        decide = shell.writer._decide
        known = dict[int, object]()

        def once(catalog: object, command: object, *more: object) -> object:
            if id(command) not in known:
                known[id(command)] = command, decide(catalog, command, *more)  # type: ignore
            return known[id(command)][1]  # type: ignore[index]

        shell.writer._decide = once  # type: ignore[assignment]

    kept = Shell.__init__
    patch.setattr(Shell, "__init__", init)


@pytest.mark.parametrize("fault", [never_asks, no_fence, all_together, decides_once])
def test_the_simulation_finds_faults(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these would be found by the runs above."""
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        play_all(range(30))
