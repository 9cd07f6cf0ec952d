"""For any schedule of faults the verdict is what an oracle says that saw everything; and the
property is worth something: verdict functions that are wrong, or always unsure, fail it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from audit_oracle import cells_of, concerns, expect, wrong_now
from audit_parts import FATES, PARTITIONS
from audit_world import DATACENTERS, JUDGED, PRODUCERS, Judge, World
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallymark_audit.judge.verdicts import GOOD, UNDECIDED, CellVerdict, State, Verdict, judge
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.store.schema.rows import cell_to_json
from tallymark_audit.store.schema.shown import shown_verdict
from tallymark_audit.store.schema.tables import SUMS

Step = tuple[Any, ...]
UNKNOWN_BOUND = 0.01
"""Of the settled windows of schedules without a silent reporter at most this share is UNKNOWN."""
EVENT_FATES = ["delivered", "delivered", "lost", "repeated", "delayed"]
STEPS: list[tuple[int, str, list[list[Any]]]] = [
    (10, "send", [list(PRODUCERS), list(PARTITIONS), [1, 2, 5], [0, 0, 0, 900, 20_000, -1500],
                  ["stored"] * 8 + list(FATES)]),
    (4, "report", [list(PRODUCERS), EVENT_FATES]),
    (8, "mirror", [list(DATACENTERS), list(PARTITIONS),
                   ["copied"] * 4 + ["dropped", "twice", "half", "shuffled", "changed"]]),
    (2, "mirror_restarts", [list(DATACENTERS), list(PARTITIONS), [1, 3]]),
    (2, "mirror_reports", [list(DATACENTERS), EVENT_FATES]),
    (8, "collect", [[*DATACENTERS, "aggregate"], list(PARTITIONS), [1, 2, 50],
                    [False, False, True]]),
    (5, "consume", [list(PARTITIONS), ["processed"] * 3 + ["skipped", "twice"]]),
    (1, "reread", [list(PARTITIONS), [1, 2]]),
    (1, "rebalance", []),
    (2, "consumer_reports", [EVENT_FATES]),
    (1, "expire", [list(DATACENTERS), list(PARTITIONS)]),
    (1, "flush", [["in order", "reversed"]]),
    (1, "late_events", []),
    (2, "wait", [[100, 700, 4000]]),
    (1, "crash", [list(PRODUCERS), [True]]),
]  # fmt: skip
step = st.one_of(
    *(
        st.tuples(st.just(name), *(st.sampled_from(some) for some in arguments))
        for weight, name, arguments in STEPS
        for _ in range(weight)
    )
)
schedules = st.lists(step, max_size=50)
deadly = st.lists(
    st.one_of(
        step,
        step,
        st.tuples(st.just("crash"), st.sampled_from(PRODUCERS), st.just(False)),
        st.just(("look",)),
        st.just(("rest",)),
    ),
    max_size=50,
)
UNHURRIED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def random_schedule(chance: Random, steps: int = 50) -> list[Step]:
    """The same, from a seed."""
    weighted = [each for each in STEPS for _ in range(each[0])]
    script: list[Step] = []
    for _ in range(steps):
        _, name, arguments = chance.choice(weighted)
        script.append((name, *(chance.choice(some) for some in arguments)))
    return script


def check_settled(world: World) -> None:
    """Every window of every edge, cell by cell, exactly."""
    for window in world.windows():
        for edge in JUDGED:
            check_window(world, edge, window)


def check_window(world: World, edge: str, window: int) -> None:
    found = world.verdict(edge, window)
    judged = {(cell.key.instance, cell.key.partition): cell for cell in found.cells}
    states: set[str] = set()
    for place, messages in cells_of(world, window).items():
        mine = [message for message in messages if concerns(edge, message)]
        if not mine:
            continue
        wanted = expect(edge, mine)
        states.add(wanted.state)
        cell = judged.pop(place, None)
        if cell is None:
            assert wanted.state == "COMPLETE", f"{edge} {place} is {wanted}"
            continue
        assert str(cell.state) == wanted.state, f"{edge} {cell} is {wanted}"
        assert numbers(cell.missing) == wanted.missing
        assert cell.missing_count == len(wanted.missing)
        assert numbers(cell.expired) <= wanted.expired
        assert cell.duplicates == wanted.duplicates
        assert set(cell.corrupt) == wanted.corrupt
        reasons = {why.reason: numbers(why.ranges) for why in cell.explanations}
        reasons.pop("expired", None)
        assert reasons == wanted.explained
        assert not cell.unclaimed_count
    assert judged == {}, f"{edge}: cells that nobody sent"
    assert str(found.state) == _worst(states), f"{edge} {window}: {found}"


def _worst(states: set[str]) -> str:
    damage = states & {"LOSS", "DUPLICATION", "CORRUPT", "MIXED"}
    if len(damage) > 1:
        return "MIXED"
    if damage:
        return damage.pop()
    return "EXPLAINED" if "EXPLAINED" in states else "COMPLETE"


def numbers(ranges: RangeSet) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


class Watched(World):
    """A world in which somebody looks, now and then, whether anything wrong is green."""

    def rest(self) -> None:
        """Nobody reports for a while, but everything is counted: what is green now?"""
        self.now += 3000
        for name in self.clusters:
            for partition in PARTITIONS:
                self.collect(name, partition, 1 << 30, crash=False)
        self.look()

    def look(self) -> None:
        for window in self.windows():
            for edge in JUDGED:
                if self.verdict(edge, window).state in GOOD:
                    assert wrong_now(self, edge, window) == [], f"{edge} {window} is green"


@UNHURRIED
@given(schedules, st.randoms(use_true_random=False))
def test_the_settled_verdict_is_the_oracles(script: list[Step], chance: Random) -> None:
    """Send, retry, lost answer, duplicate, drop, reorder, delay, corrupt, crash, restart,
    rebalance, skew, rename, abort, expire; monitoring events lost, repeated, delayed and reordered
    until the last one of each reporter arrives."""
    world = World(chance)
    world.play(script)
    world.settle()
    check_settled(world)


@UNHURRIED
@given(deadly, st.randoms(use_true_random=False))
def test_nothing_wrong_is_ever_green(script: list[Step], chance: Random) -> None:
    """At any moment, whoever is dead, silent or behind."""
    world = Watched(chance)
    world.play(script)
    world.look()
    world.settle()
    world.look()


@UNHURRIED
@given(deadly, st.randoms(use_true_random=False))
def test_every_row_adds_up(script: list[Step], chance: Random) -> None:
    """At any moment: claimed = observed + pending + missing + explained, in windows and cells."""
    world = Watched(chance)
    world.play(script)
    for settled in (False, True):
        if settled:
            world.settle()
        for window in world.windows():
            for edge in JUDGED:
                check_sums(world.verdict(edge, window))


def check_sums(verdict: Verdict) -> None:
    cells = [cell_to_json(cell) for cell in verdict.cells]
    counts = {name: getattr(verdict, name) for name in SUMS}
    shown = shown_verdict({"state": str(verdict.state), "cells": cells, **counts})
    names = ("observed", "pending", "missing", "explained")
    assert shown["claimed"] == sum(shown[name] for name in names)
    assert min(shown[name] for name in (*names, "excused")) >= 0
    assert shown_verdict(shown) == shown
    if verdict.state not in UNDECIDED:
        assert not shown["pending"]
    names = ("observed", "pending_count", "missing_count", "explained_count")
    for cell in shown["cells"]:
        assert cell["claimed"] == sum(cell[name] for name in names)


def unknown_share(judging: Judge, seeds: range) -> float:
    """Of the settled windows of schedules whose reporters all live or left their journal."""
    states: list[State] = []
    for seed in seeds:
        world = World(Random(seed), judging)
        world.play(random_schedule(Random(seed)))
        world.settle()
        states += [world.verdict(edge, at).state for at in world.windows() for edge in JUDGED]
    return states.count(State.UNKNOWN) / len(states)


def test_hardly_anything_stays_unknown() -> None:
    """ "I do not know" is never wrong, and of no use."""
    assert unknown_share(judge, range(25)) <= UNKNOWN_BOUND
    assert unknown_share(always(State.UNKNOWN), range(3)) > UNKNOWN_BOUND


# --- verdict functions that are wrong -----------------------------------------------------------


def always(state: State) -> Judge:
    def judging(*facts: Any) -> Verdict:
        found = judge(*facts)
        return replace(found, state=state, missing=0, duplicates=0, cells=())

    return judging


def changed(change: Callable[[CellVerdict], CellVerdict]) -> Judge:
    """The verdict function, but each cell is changed, and the window judged by that."""

    def judging(*facts: Any) -> Verdict:
        found = judge(*facts)
        cells = tuple(change(cell) for cell in found.cells)
        cells = tuple(cell for cell in cells if cell.state is not State.COMPLETE)
        if found.state in (State.OPEN, State.SETTLING, State.UNKNOWN):
            return replace(found, cells=cells)
        worst = _worst({str(cell.state) for cell in cells})
        return replace(found, cells=cells, state=State(worst))

    return judging


def ignore_duplicates(cell: CellVerdict) -> CellVerdict:
    if cell.state is State.MIXED:
        return replace(cell, state=State.LOSS, duplicates=0)
    return replace(cell, state=State.COMPLETE) if cell.state is State.DUPLICATION else cell


def cancel(cell: CellVerdict) -> CellVerdict:
    """As one does who compares counts."""
    net = cell.missing_count - cell.duplicates
    if cell.state is not State.MIXED or not cell.duplicates or not cell.missing_count:
        return cell
    state = State.LOSS if net > 0 else State.DUPLICATION if net < 0 else State.COMPLETE
    return replace(cell, state=state, missing_count=max(0, net), duplicates=max(0, -net))


def ignore_contents(cell: CellVerdict) -> CellVerdict:
    return replace(cell, state=State.COMPLETE) if cell.state is State.CORRUPT else cell


def excuse_all(cell: CellVerdict) -> CellVerdict:
    """What retention took is excused."""
    if cell.state is State.LOSS and cell.expired == cell.missing:
        return replace(cell, state=State.EXPLAINED, missing=EMPTY, missing_count=0)
    return cell


def forget_names(cell: CellVerdict) -> CellVerdict:
    return replace(cell, missing=EMPTY)


def without_reporters(*facts: Any) -> Verdict:
    """As one does who never asks whether a report is missing."""
    edge, topic, window, cells, _, clock = facts
    return judge(edge, topic, window, cells, [], clock)


@pytest.mark.slow
@pytest.mark.parametrize(
    "judging",
    [
        always(State.UNKNOWN),
        always(State.COMPLETE),
        changed(ignore_duplicates),
        changed(cancel),
        changed(ignore_contents),
        changed(excuse_all),
        changed(forget_names),
    ],
    ids=["unknown", "complete", "no-duplicates", "net", "no-contents", "excuses", "no-names"],
)
def test_a_wrong_verdict_function_is_found_out(judging: Judge) -> None:
    assert any(_is_found_out(judging, seed) for seed in range(60))


def _is_found_out(judging: Judge, seed: int) -> bool:
    """Where the right one passes, the wrong one must not."""
    world = World(Random(seed))
    world.play(random_schedule(Random(seed)))
    world.settle()
    check_settled(world)
    world.judging = judging
    try:
        check_settled(world)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(
    "judging",
    [always(State.COMPLETE), changed(ignore_duplicates), without_reporters],
    ids=["complete", "no-duplicates", "no-reporters"],
)
def test_what_is_green_too_early_is_found_out(judging: Judge) -> None:
    assert any(_is_green_too_early(judging, seed) for seed in range(120))


def _is_green_too_early(judging: Judge, seed: int) -> bool:
    chance = Random(seed)
    world = Watched(Random(seed))
    for each in random_schedule(chance):
        world.play([each])
        if chance.random() < 0.1:
            world.judging = judge
            world.rest()
            world.judging = judging
            try:
                world.look()
            except AssertionError:
                return True
    return False
