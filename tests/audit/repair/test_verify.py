"""``tallymark audit repair --verify`` waits until verdicts know of the copies, and not longer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from repair_world import KEY, LOST, MIRROR, item, judged

from tallymark_audit.judge.verdicts import CellVerdict, State
from tallymark_audit.model.cells import LAKE
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sides import Observation
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.repair.verify import OpenWindow, still_open, wait_until_good
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import counts, positions
from tallymark_audit.store.counted.positions import Position
from tallymark_audit.store.judged.effective import SPARK
from tallymark_audit.store.schema.tables import repairs

PLAN = RepairPlan(5, (item(RangeSet.single(3, 4), 9), item(EMPTY, 0, refused="no")))
LESS = replace(LOST, missing=RangeSet.single(3, 3), missing_count=1)
"""Still a loss. A verdict that says the same as the one before is not stored again."""
COPIES = Observation(KEY, 2, 2, RangeSet.single(3, 4))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """The collector has counted all there was at 5, when the plan was made."""
    with open_store(f"sqlite:///{tmp_path}/audit.db") as opened:
        counted(opened, 5)
        yield opened


def counted(store: Store, through: int) -> None:
    position = Position("t", 0, counted_through=through)
    with store.write() as connection:
        positions.add_positions(connection, "aggregate", [position])
        (held,) = positions.take(connection, "aggregate", [position])
        positions.move(connection, "aggregate", 0, replace(held, counted_through=through))


def copies_are_counted(store: Store, at: int) -> None:
    with store.write() as connection:
        counts.save_observations(connection, "aggregate", "t", 0, [COPIES], at)


def copied(store: Store, at: int) -> None:
    values = {"edge": MIRROR.name, "topic": "t", "window": KEY.window, "partition": 0}
    others = {"server": KEY.server, "instance": KEY.instance, "sequences": [3, 4]}
    done = {"copied": 2, "present": 0, "outcome": "repaired"}
    with store.write() as connection:
        connection.execute(repairs.insert().values(at=at, **values, **others, **done))


def left(store: Store, plan: RepairPlan = PLAN) -> OpenWindow:
    with store.read() as connection:
        (one,) = still_open(connection, plan)
    return one


def test_a_verdict_from_before_the_copies_decides_nothing(store: Store) -> None:
    """A window was judged again between plan and copy, for a claim that had come late. --verify
    took that for the verdict on the repair: "still LOSS: 5 missing", exit code 3, of a window that
    became COMPLETE a moment later."""
    copied(store, 7)
    judged(store, MIRROR, LOST, State.LOSS, now=8)
    assert not left(store).decided, "the collector has not counted the copies"
    copies_are_counted(store, 9)
    counted(store, 9)
    assert not left(store).decided, "they are counted, and the window was judged before"
    assert left(store).reason == "not judged again yet; before: 2 missing"
    judged(store, MIRROR, LESS, State.LOSS, now=10)
    assert left(store).decided


def test_where_nothing_was_copied_the_last_verdict_holds(store: Store) -> None:
    """Nothing changed, so nothing judges the window again: it was waited for in vain."""
    judged(store, MIRROR, LOST, State.LOSS, now=4)
    assert left(store) == OpenWindow(
        MIRROR.name, "t", KEY.window, State.LOSS, "2 missing", decided=True
    )


def test_what_an_earlier_plan_copied_is_not_waited_for(store: Store) -> None:
    copied(store, 4)
    judged(store, MIRROR, LOST, State.LOSS, now=4)
    assert left(store).decided


def test_a_lake_is_counted_by_no_collector(store: Store) -> None:
    plan = RepairPlan(5, (item(RangeSet.single(3, 4), 9, downstream=LAKE),))
    judged(store, MIRROR, LOST, State.LOSS, now=4)
    assert not left(store, plan).decided
    judged(store, MIRROR, LESS, State.LOSS, now=5)
    assert left(store, plan).decided


def test_a_run_of_spark_needs_no_collector(store: Store) -> None:
    """Where only Spark judges, no collector counts: a loss that a later run still found was waited
    for until the time was over."""
    copied(store, 7)
    judged(store, MIRROR, LOST, State.LOSS, now=6, source=SPARK)
    assert not left(store).decided, "it looked at the logs before"
    judged(store, MIRROR, LOST, State.LOSS, now=7, source=SPARK)
    assert left(store).decided


def test_copies_that_are_left_do_not_make_a_repair_fail(store: Store) -> None:
    """docs: DUPLICATION and CORRUPT do not change the exit code; --verify exited with 3."""
    twice = CellVerdict(KEY, State.DUPLICATION, 10, 10, duplicates=3)
    copied(store, 6)
    judged(store, MIRROR, twice, State.DUPLICATION, now=4)
    assert not left(store).left_alone, "judged before the repair"
    counted(store, 6)
    judged(store, MIRROR, twice, State.DUPLICATION, now=7)
    one = left(store)
    assert (one.state, one.decided, one.left_alone) == ("DUPLICATION", True, True)
    judged(store, MIRROR, replace(twice, missing=LOST.missing, missing_count=2), State.MIXED, now=8)
    assert not left(store).left_alone


def test_it_is_waited_until_all_is_good_or_decided(store: Store) -> None:
    assert left(store).decided, "it has no verdict any more"
    copied(store, 6)
    judged(store, MIRROR, LOST, State.LOSS, now=4)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        judged(store, MIRROR, replace(LOST, missing_count=0), State.COMPLETE, now=6)

    assert wait_until_good(store, PLAN, 60, sleep) == []
    assert len(slept) == 1
    counted(store, 6)
    judged(store, MIRROR, LOST, State.LOSS, now=7)
    (one,) = wait_until_good(store, PLAN, 60, sleep)
    assert (one.state, one.decided, len(slept)) == ("LOSS", True, 1)
    judged(store, MIRROR, LOST, State.SETTLING, now=8)
    (one,) = wait_until_good(store, PLAN, 0, sleep)
    assert (one.state, one.decided) == ("SETTLING", False)
