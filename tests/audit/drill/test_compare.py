"""The comparison can fail: verdicts that are wrong in any way are not passed."""

from collections.abc import Iterable
from typing import Any

import pytest

from tallymark_audit.proof.drill.findings.found import items_of, located, undecided
from tallymark_audit.proof.drill.scoring.compare import Comparison, compare
from tallymark_audit.proof.drill.scoring.report import DrillOutcome, markdown, outcome_to_json
from tallymark_audit.proof.drill.truth.expected import (
    CORRUPT,
    DUPLICATION,
    LOSS,
    UNCLAIMED,
    Cell,
    Expectation,
    Finding,
)

WINDOW = 60_000
EDGE = "dc1-to-aggregate"
CELL = Cell(EDGE, "orders", WINDOW, 0, "web-1", "ab" * 8)
OTHER = CELL._replace(partition=1)
TRUTH = Expectation(
    cells={CELL, OTHER, CELL._replace(window=0)},
    items={
        Finding(CELL, LOSS, 4),
        Finding(CELL, LOSS, 5),
        Finding(CELL, DUPLICATION, 9, 1),
        Finding(OTHER, CORRUPT, 0),
    },
)


def raw(cell: Cell, state: str, **found: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "missing": [],
        "unclaimed": [],
        "repeated": [],
        "duplicates": 0,
        "located": [],
    }
    who = {name: value for name, value in cell._asdict().items() if name != "edge"}
    return {**who, "state": state, **empty, **found}


def place(first: int, last: int) -> dict[str, int]:
    return {"first_sequence": first, "last_sequence": last}


def rows(*cells: dict[str, Any], state: str = "MIXED") -> list[dict[str, Any]]:
    return [
        {"edge": EDGE, "topic": "orders", "window": WINDOW, "state": state, "cells": list(cells)}
    ]


RIGHT = (
    raw(CELL, "MIXED", missing=[4, 5], repeated=[[9, 9]], duplicates=1, located=[place(4, 5)]),
    raw(OTHER, "CORRUPT", corrupt=[0]),
)


def judged(cells: Iterable[dict[str, Any]]) -> Comparison:
    verdicts = rows(*cells)
    waiting = undecided(verdicts, 10 * WINDOW, WINDOW)
    return compare(TRUTH, items_of(verdicts), located(verdicts), waiting)


def test_what_was_found_is_what_was_done() -> None:
    found = judged(RIGHT)
    assert found.perfect
    loss = next(score for score in found.scores if score.kind == LOSS)
    assert (loss.expected, loss.right, loss.wrong, loss.cells_right, loss.healthy) == (
        2,
        2,
        0,
        1,
        2,
    )


@pytest.mark.parametrize(
    ("cells", "missed", "invented", "unplaced"),
    [
        pytest.param((), 4, 0, 2, id="nothing found"),
        pytest.param(
            (raw(CELL, "LOSS", missing=[4, 5], located=[place(4, 5)]), RIGHT[1]), 1, 0, 0,
            id="a copy is overlooked",
        ),
        pytest.param(
            (RIGHT[0] | {"missing": [4, 4]}, RIGHT[1]), 1, 0, 0, id="one of two is overlooked"
        ),
        pytest.param(
            (RIGHT[0] | {"missing": [4, 6]}, RIGHT[1]), 0, 1, 0, id="one too many is named"
        ),
        pytest.param(
            (RIGHT[0] | {"repeated": [[8, 8]]}, RIGHT[1]), 1, 1, 0, id="the wrong copy"
        ),
        pytest.param(
            (RIGHT[0] | {"repeated": [[9, 9], [9, 9]], "duplicates": 2}, RIGHT[1]), 0, 1, 0,
            id="a copy too many",
        ),
        pytest.param(
            (RIGHT[0] | {"server": "web-2"}, RIGHT[1]), 3, 3, 2, id="the wrong server"
        ),
        pytest.param(
            (RIGHT[0] | {"window": 0}, RIGHT[1]), 3, 3, 2, id="the wrong window"
        ),
        pytest.param(
            (RIGHT[0] | {"located": [place(4, 4)]}, RIGHT[1]), 0, 0, 1, id="a place is missing"
        ),
        pytest.param((RIGHT[0], raw(OTHER, "CORRUPT", corrupt=[1])), 1, 1, 0, id="another block"),
        pytest.param(
            (*RIGHT, raw(CELL._replace(window=0), "UNCLAIMED", unclaimed=[3, 3])), 0, 1, 0,
            id="a false alarm",
        ),
        pytest.param(
            (RIGHT[0] | {"state": "COMPLETE"}, RIGHT[1]), 3, 0, 0, id="green although short"
        ),
    ],
)  # fmt: skip
def test_planted_wrong_verdicts_are_seen(
    cells: tuple[dict[str, Any], ...], missed: int, invented: int, unplaced: int
) -> None:
    found = judged(cells)
    assert not found.perfect
    assert (len(found.missed), len(found.invented)) == (missed, invented)
    assert len(found.unplaced) == unplaced


def test_a_cell_that_waits_inside_a_window_in_alarm_is_not_decided() -> None:
    """A window was judged DUPLICATION while another of its cells still waited for a counter, and
    was never judged again: three lost messages stayed SETTLING."""
    found = judged((*RIGHT, raw(CELL._replace(partition=2), "SETTLING", missing=[1, 1])))
    assert not found.perfect
    assert len(found.undecided) == 1


def test_windows_that_have_not_ended_are_not_waited_for() -> None:
    verdicts = rows(state="OPEN")
    assert undecided(verdicts, 2 * WINDOW - 1, WINDOW) == []
    assert len(undecided(verdicts, 2 * WINDOW, WINDOW)) == 1


def test_what_may_be_found_is_neither_missed_nor_invented() -> None:
    producer = CELL._replace(edge="producer-to-dc1")
    truth = Expectation(cells={producer}, untold={(CELL.instance, 0, 7)})
    assert compare(truth, {Finding(producer, LOSS, 7)}).perfect
    assert compare(truth, set()).perfect
    assert not compare(truth, {Finding(producer, LOSS, 8)}).perfect
    assert not compare(truth, {Finding(producer, UNCLAIMED, 7)}).perfect


@pytest.mark.slow
def test_a_percentage_is_never_rounded_up() -> None:
    items = {Finding(CELL, LOSS, number) for number in range(1_000_001)}
    found = compare(Expectation(cells={CELL}, items=items), items - {Finding(CELL, LOSS, 5)})
    assert not found.perfect
    table = markdown([DrillOutcome(1, ("drop",), 10, 1.0, {"drop": 5}, found)])
    assert "| 99.9999 | 100 |" in table


def test_the_report_names_what_went_wrong() -> None:
    found = judged((RIGHT[0] | {"missing": [4, 4]}, RIGHT[1]))
    told = outcome_to_json(DrillOutcome(7, ("drop",), 10, 1.0, {"drop": 5}, found))
    assert told["perfect"] is False
    assert told["missed"] == [f"LOSS {EDGE} orders-0 window 60000 web-1 {'ab' * 8} 5"]


def test_a_copy_that_is_counted_and_not_named_is_not_found() -> None:
    truth = Expectation(cells={CELL}, items={Finding(CELL, DUPLICATION, 9, 1)})
    named = rows(raw(CELL, "DUPLICATION", duplicates=1, repeated=[[9, 9]]))
    assert compare(truth, items_of(named)).perfect
    counted = compare(truth, items_of(rows(raw(CELL, "DUPLICATION", duplicates=1))))
    assert (len(counted.missed), len(counted.invented)) == (1, 1)
