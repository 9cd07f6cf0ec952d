"""How long it took from the fault to the alarm, and to the message's name."""

from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote
from tallymark_audit.proof.drill.findings.detection_times import DetectionTimes, Times, times_of
from tallymark_audit.proof.drill.truth.expected import CORRUPT, DUPLICATION, LOSS, Cell, Finding

CELL = Cell("dc1-to-aggregate", "orders", 60_000, 0, "web-1", "ab" * 8)
PLACE = (CELL.edge, CELL.topic, CELL.window)


def note(kind: str, at: int, *sequences: int) -> FaultNote:
    who = (CELL.edge, CELL.topic, CELL.partition, CELL.server, CELL.instance)
    return FaultNote(at, kind, *who, RangeSet.of(sequences))


def test_times_are_from_the_first_fault_to_the_first_alarm_and_the_name() -> None:
    lost, twice = Finding(CELL, LOSS, 4), Finding(CELL, DUPLICATION, 9, 1)
    notes = [note(kinds.DROP, 1_000, 3, 4), note(kinds.LOST_ACK, 2_000, 9)]
    seen = DetectionTimes({PLACE: 5_000}, {lost: 7_500})
    assert times_of({lost, twice}, notes, seen) == {
        LOSS: Times((4.0,), (6.5,)),
        DUPLICATION: Times((3.0,), ()),
    }


def test_corruption_is_timed_by_its_block() -> None:
    item = Finding(CELL, CORRUPT, 1)
    notes = [note(kinds.CORRUPT, 1_000, 1_030), note(kinds.CORRUPT, 4_000, 1_040)]
    seen = DetectionTimes({PLACE: 5_000}, {item: 5_000})
    assert times_of({item}, notes, seen) == {CORRUPT: Times((4.0,), (4.0,))}


def test_what_no_fault_was_noted_for_has_no_time() -> None:
    seen = DetectionTimes({PLACE: 5_000})
    assert times_of({Finding(CELL, LOSS, 4)}, [note(kinds.DELAY, 1_000, 4)], seen) == {}
    assert times_of({Finding(CELL, LOSS, 4)}, [note(kinds.DROP, 1_000, 5)], seen) == {}
