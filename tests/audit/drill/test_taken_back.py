"""Alarms that were taken back are seen, and those that were mended are none."""

from typing import Any

import pytest

from tallymark_audit.proof.drill.findings.taken_back import alerts_taken_back, in_alarm, taken_back

EDGE, TOPIC = "dc1-to-aggregate", "orders"


def revision(window: int, state: str, at: int) -> dict[str, Any]:
    where = {"edge": EDGE, "topic": TOPIC, "window": window}
    return {**where, "state": state, "judged_at": at, "reasons": ["because"]}


def test_what_was_called_wrong_and_holds_no_longer_was_taken_back() -> None:
    """A window was UNCLAIMED for ten seconds, until the run it came from was heard of: every
    comparison saw the verdict that was right in the end."""
    history = [revision(0, "UNCLAIMED", 5), revision(2_000, "LOSS", 6)]
    rows = [revision(0, "COMPLETE", 9), revision(2_000, "MIXED", 9)]
    assert taken_back(history, rows) == [f"{EDGE} {TOPIC} 0 was UNCLAIMED: because"]


def test_an_alarm_of_which_no_verdict_is_left_was_taken_back() -> None:
    assert len(taken_back([revision(0, "LOSS", 5)], [])) == 1


def test_what_may_have_been_mended_and_what_was_before_is_left_out() -> None:
    history = [revision(0, "LOSS", 5), revision(2_000, "DUPLICATION", 20)]
    before = in_alarm([revision(0, "LOSS", 5)])
    left = taken_back(history, [revision(0, "COMPLETE", 30)], since=10, but=before)
    assert left == [f"{EDGE} {TOPIC} 2000 was DUPLICATION: because"]
    assert taken_back(history, [], since=21) == []


@pytest.mark.parametrize(
    ("topic", "state", "is_over"),
    [
        ("loss-for-spark", "DUPLICATION", True),
        ("lost-segment", "DUPLICATION", True),
        ("loss-for-spark", "LOSS", False),
        ("orders", "DUPLICATION", False),
    ],
)
def test_duplicates_that_a_fault_removed_are_no_false_alarm(
    topic: str, state: str, is_over: bool
) -> None:
    """Seed 9 on a busy machine: a mirror was killed, so 30 messages were in the log twice, and a
    window was rightly DUPLICATION. The segment that the drill removed then was that of the second
    copies: counted again the window was COMPLETE, and the drill called that a false alarm."""
    history = [{**revision(0, state, 5), "topic": topic}]
    rows = [{**revision(0, "COMPLETE", 9), "topic": topic}]
    assert bool(taken_back(history, rows)) is not is_over


def alert(rule: str, status: str = "resolved") -> dict[str, Any]:
    return {"rule": rule, "status": status, "labels": {}, "starts_at": 1, "ends_at": 2}


@pytest.mark.parametrize(
    ("rule", "status", "done", "count"),
    [
        ("TallymarkWatermarkStalled", "resolved", ("drop",), 1),
        ("TallymarkWatermarkStalled", "firing", ("drop",), 0),
        ("TallymarkCollectorSilent", "resolved", ("drop",), 1),
        ("TallymarkCollectorSilent", "resolved", ("pause-collector",), 0),
        ("TallymarkMirrorSilent", "resolved", ("kill-producer",), 1),
        ("TallymarkReporterSilent", "resolved", ("lost-consumer",), 0),
        ("TallymarkMissingMessages", "resolved", ("drop",), 0),
    ],
)
def test_alerts_that_are_over_are_of_what_was_done_or_were_taken_back(
    rule: str, status: str, done: tuple[str, ...], count: int
) -> None:
    assert len(alerts_taken_back([alert(rule, status)], done)) == count


def test_an_alert_that_the_repair_has_ended_was_not_taken_back() -> None:
    """A watermark stood at a window of a slow clock that lacked a message. The repair brought it,
    the alert ended with it, and the drill called that an alarm that was taken back."""
    stalled = alert("TallymarkWatermarkStalled")
    assert alerts_taken_back([stalled], ("drop",), since=1)
    assert not alerts_taken_back([stalled], ("drop",), since=2)
