"""An incident as a line: what, how many, who was notified, and how it stands."""

from dataclasses import replace
from typing import Any

from tallymark_audit.alerts.about import fingerprints
from tallymark_audit.alerts.conditions import condition
from tallymark_audit.repair.next_steps import Step
from tallymark_audit.repair.repairable import NotRepairable, Repairability
from tallymark_audit.store.reading.incidents import WindowIncident
from tallymark_audit.store.reading.timeline import Moment
from tallymark_dashboards.view.incidents.alert_rows import alert_row
from tallymark_dashboards.view.incidents.incident_line import entries, happenings
from tallymark_dashboards.view.incidents.incident_rows import incident_row, worst_tone
from tallymark_dashboards.view.incidents.mending import mending
from tallymark_dashboards.view.lag import GroupLag, lag_cell

NOON = 1_767_268_800_000
HOUR = 3_600_000
ONE = WindowIncident(
    id=7, edge="dc1-to-aggregate", topic="clicks", kind="LOSS", state="OPEN",
    first_window=NOON, last_window=NOON + 60_000, opened_at=NOON + HOUR, last_change=NOON + HOUR,
    closed_at=0, windows=2, bad=2, accepted=0, explained=0, missing=38, duplicates=0, unclaimed=0,
    worst_missing=38, worst_duplicates=0, worst_unclaimed=0, repaired_by="",
)  # fmt: skip
OVER = replace(ONE, state="REPAIRED", closed_at=NOON + 2 * HOUR, missing=0, bad=0)


def alert(starts: int, ends: int, told: str, told_at: int = 0) -> dict[str, Any]:
    return {
        "fingerprint": "f", "rule": "TallymarkMissingMessages", "starts_at": starts,
        "status": "resolved" if ends else "firing", "ends_at": ends, "told": told,
        "told_at": told_at, "labels": {"severity": "critical"}, "annotations": {"summary": "s"},
    }  # fmt: skip


def test_a_loss_in_a_line() -> None:
    row = incident_row(ONE, 60_000, [])
    assert (row.what, row.now, row.symbol, row.tone) == ("38 missing", "", "−", "bad")
    assert row.end == NOON + 120_000
    partly = incident_row(replace(ONE, missing=5), 60_000, [])
    assert (partly.what, partly.now) == ("38 missing", "still 5 missing")
    mended = incident_row(OVER, 60_000, [])
    assert (mended.tone, mended.state_tone) == ("", "good")
    assert mended.now == "a repair brought what was lost"


def test_kinds_without_messages_count_windows() -> None:
    unknown = replace(ONE, kind="UNKNOWN", missing=0, worst_missing=0)
    assert incident_row(unknown, 60_000, []).what == "2 windows UNKNOWN"
    assert incident_row(replace(unknown, bad=1), 60_000, []).now == (
        "1 of 2 windows are still wrong"
    )
    corrupt = replace(unknown, kind="CORRUPT", windows=1)
    assert incident_row(corrupt, 60_000, []).what == "1 window with changed messages"


def test_only_alerts_that_held_meanwhile_say_who_was_notified() -> None:
    before = alert(NOON - HOUR, NOON, "resolved", NOON)
    later = alert(OVER.closed_at + 1, 0, "firing", OVER.closed_at + 2)
    assert incident_row(OVER, 60_000, [before, later]).notified.text == "no alert"
    going_on = alert(NOON - HOUR, 0, "firing", NOON - HOUR)
    assert incident_row(ONE, 60_000, [going_on]).notified.at == NOON - HOUR
    muted = alert(ONE.opened_at, 0, "nobody")
    assert incident_row(ONE, 60_000, [muted]).notified.text == "not sent: no webhook, or a pause"
    assert incident_row(ONE, 60_000, []).notified.text == "no alert yet"


def test_an_alert_is_found_by_the_labels_that_its_rule_gives() -> None:
    labels = {"edge": "a\u202e-to-b", "topic": "t"}
    missing = condition("TallymarkMissingMessages", "critical", labels, {})
    assert missing.fingerprint in fingerprints("a\u202e-to-b", "t")


def test_the_worst_open_incident_is_what_the_tab_tells() -> None:
    unknown = replace(ONE, kind="UNKNOWN")
    rows = [incident_row(one, 60_000, []) for one in (unknown, OVER)]
    assert worst_tone(rows) == ("warn", 1)
    assert worst_tone([*rows, incident_row(ONE, 60_000, [])]) == ("bad", 1)
    assert worst_tone([]) == ("", 0)


def test_an_alert_whose_row_makes_no_sense_is_a_line_too() -> None:
    row = {**alert(NOON, 0, "?"), "labels": None, "annotations": [1], "status": "odd"}
    found = alert_row(row)
    assert (found.summary, found.symbol) == ("TallymarkMissingMessages", "?")


def test_moments_are_lanes_and_lines() -> None:
    fired = alert(ONE.opened_at, ONE.opened_at + HOUR, "resolved", ONE.opened_at + HOUR)
    moments = [
        Moment(ONE.opened_at, "verdict", "LOSS", "why", {}, NOON),
        Moment(ONE.opened_at, "alert", "TallymarkMissingMessages", "38 gone", fired),
        Moment(ONE.opened_at + 9, "repair", "repair 3", "38 copied", {"copied": 38, "present": 0}),
        Moment(ONE.opened_at + HOUR, "resolved", "TallymarkMissingMessages", "", fired),
    ]
    assert [(one.word, one.what) for one in entries(moments)] == [
        ("LOSS", ""),
        ("alert fires", "TallymarkMissingMessages"),
        ("repair 3", ""),
        ("alert over", "TallymarkMissingMessages"),
    ]
    drawn = happenings(ONE, moments, 60_000, lambda moment: f"/{moment.kind}")
    assert [one.lane for one in drawn] == ["windows", "verdicts", "alerts", "repairs"]
    windows, _, bar, _ = drawn
    assert (windows.start, windows.end) == (NOON, NOON + 120_000)
    assert (bar.start, bar.end) == (ONE.opened_at, ONE.opened_at + HOUR)


def test_what_can_be_repaired_is_summed_up() -> None:
    gone = NotRepairable(2, "gone")
    found = [
        (NOON, Repairability(5, 3, 0, (gone,), steps=(Step("a"),), tell=("x",))),
        (NOON + 1, Repairability(4, 1, 1, (NotRepairable(3, "cut"), gone))),
    ]
    whole = mending(found, wrong=9)
    assert whole is not None
    assert (whole.of, whole.repairable, whole.unsure, whole.windows) == (9, 4, 1, 2)
    assert [(one.count, one.reason) for one in whole.others] == [(4, "gone"), (3, "cut")]
    assert whole.tell == ("x",)
    assert mending([], 0) is None


def test_the_lag_of_the_worst_group_is_shown_and_the_others_are_named() -> None:
    groups = [GroupLag("dc1", f"g{n}", 12_345, 40_000, "STALLED") for n in range(7)]
    found = lag_cell(groups)
    assert found is not None
    assert (found.text, found.status, found.tone) == ("12,345, 40 s", "STALLED", "bad")
    assert "2 groups more" in found.title
    unknown = lag_cell([GroupLag("dc1", "g", None, -1, "UNKNOWN")])
    assert unknown is not None
    assert (unknown.text, unknown.tone) == ("not known", "")
    assert lag_cell([]) is None
