"""Scores of what happened beside the main traffic; and that what is not found is missed."""

from typing import Any

import pytest

from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.planning.topology import CONSUMER_HOP
from tallymark_audit.proof.drill.scoring.compare import compare
from tallymark_audit.proof.drill.scoring.report import DrillOutcome, markdown, merged_outcome
from tallymark_audit.proof.drill.scoring.side_scores import (
    SideScore,
    score_events,
    score_items,
    score_unreadable,
)
from tallymark_audit.proof.drill.truth.books_and_logs import Unreadable
from tallymark_audit.proof.drill.truth.expected import DUPLICATION, LOSS, Cell, Expectation, Finding

EDGE = "dc1-to-aggregate"
PLACE = Unreadable("aggregate", kinds.BROKEN_CRC, 0, 417, 4_000)


def cell(edge: str, topic: str) -> Cell:
    return Cell(edge, topic, 0, 0, "web-1", "ab" * 8)


def test_findings_are_counted_where_their_fault_was_made() -> None:
    gone = {Finding(cell(EDGE, kinds.LOST_SEGMENT), LOSS, number) for number in range(5)}
    twice = {Finding(cell(CONSUMER_HOP, "orders"), DUPLICATION, number, 1) for number in range(3)}
    truth = Expectation(items=gone | twice)
    false = Finding(cell(EDGE, kinds.LOST_SEGMENT), DUPLICATION, 2, 1)
    missed = sorted(gone)[0]
    comparison = compare(truth, (gone | twice | {false}) - {missed})
    segment = score_items(kinds.LOST_SEGMENT, 5, truth, comparison)
    assert segment == SideScore(kinds.LOST_SEGMENT, 5, 5, 4, 1)
    assert not segment.perfect
    killed = score_items(kinds.KILL_CONSUMER, 1, truth, comparison)
    assert killed == SideScore(kinds.KILL_CONSUMER, 1, 3, 3, 0)
    assert killed.perfect


def bad_events(cluster: str, count: int, kind: str = "bad-event") -> dict[str, Any]:
    return {"cluster": cluster, "kind": kind, "count": count}


@pytest.mark.parametrize(
    ("incidents", "found", "wrong"),
    [
        ([bad_events("dc1", 2), bad_events("dc1", 3), bad_events("dc2", 1)], 6, 0),
        ([bad_events("dc1", 4), bad_events("dc2", 1)], 5, 0),
        ([bad_events("dc1", 5), bad_events("dc2", 2)], 6, 1),
        ([bad_events("dc1", 5), bad_events("aggregate", 1)], 5, 1),
        ([bad_events("dc1", 5, "truncated")], 0, 0),
        ([], 0, 0),
    ],
)
def test_every_event_with_a_turned_bit_is_an_incident(
    incidents: list[dict[str, Any]], found: int, wrong: int
) -> None:
    score = score_events(9, {"dc1": 5, "dc2": 1}, incidents)
    assert score == SideScore(kinds.FLIP_EVENTS, 9, 6, found, wrong)


def window(at: int, state: str, *reasons: str, edge: str = EDGE) -> dict[str, Any]:
    where = {"edge": edge, "topic": kinds.BROKEN_CRC, "window": at}
    return {**where, "state": state, "reasons": list(reasons)}


WHY = "broken-crc-0 of aggregate cannot be read from offset 417 on: CRC does not hold"
TOLD = {
    "cluster": "aggregate", "topic": kinds.BROKEN_CRC, "partition": 0, "from_offset": 417,
    "reason": "a batch whose CRC does not hold",
}  # fmt: skip


def test_windows_behind_damage_are_unknown_and_say_where() -> None:
    rows = [
        window(2_000, "COMPLETE"),
        window(4_000, "UNKNOWN", WHY),
        window(6_000, "UNKNOWN", WHY),
        window(6_000, "COMPLETE", edge="producer-to-dc1"),
    ]
    assert score_unreadable([PLACE], rows, [TOLD]) == SideScore(kinds.BROKEN_CRC, 1, 3, 3, 0)


@pytest.mark.parametrize(
    ("rows", "incidents"),
    [
        ([window(4_000, "COMPLETE")], [TOLD]),
        ([window(4_000, "UNKNOWN", "has not counted since 1970-01-01")], [TOLD]),
        ([window(4_000, "UNKNOWN", WHY.replace("417", "418"))], [TOLD]),
        ([window(4_000, "UNKNOWN", WHY)], []),
        ([window(4_000, "UNKNOWN", WHY)], [TOLD | {"from_offset": 1}]),
        ([], [TOLD]),
    ],
)
def test_what_is_not_said_of_damage_is_missed(
    rows: list[dict[str, Any]], incidents: list[dict[str, Any]]
) -> None:
    assert not score_unreadable([PLACE], rows, incidents).perfect


def outcome(**more: Any) -> DrillOutcome:
    return DrillOutcome(7, ("drop",), 10, 1.0, {"drop": 5}, compare(Expectation(), set()), **more)


def test_a_drill_with_a_miss_beside_an_alarm_taken_back_or_a_death_is_not_perfect() -> None:
    whole = SideScore(kinds.LOST_SEGMENT, 9, 9, 9, 0)
    assert outcome(beside=(whole,)).perfect
    assert not outcome(beside=(SideScore(kinds.LOST_SEGMENT, 9, 9, 8, 0),)).perfect
    assert not outcome(taken_back=["dc1 orders 0 was LOSS"]).perfect
    assert not outcome(deaths=["collector-dc1 ended"]).perfect


def test_the_report_has_a_line_a_kind_and_what_must_not_be() -> None:
    one = outcome(beside=(SideScore(kinds.LOST_SEGMENT, 9, 9, 9, 0),), deaths=["it ended"])
    other = outcome(beside=(SideScore(kinds.LOST_SEGMENT, 1, 1, 0, 2),))
    assert merged_outcome([one, other]).beside == (SideScore(kinds.LOST_SEGMENT, 10, 10, 9, 2),)
    text = markdown([one, other])
    assert "| lost-segment | 10 | 10 | 9 | 1 | 2 |" in text
    assert "| alarms taken back |  | 0 |  |  | 0 |" in text
    assert "| collector deaths |  | 0 |  |  | 1 |" in text
