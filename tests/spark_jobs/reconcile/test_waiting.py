"""Waiting for windows to settle: as long as it helps, never longer than was asked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from tallymark.clock import now_ms
from tallymark.deployment import AuditSettings, Deployment
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.store import open_store
from tallymark_audit.store.reading import queries
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.reconcile import run as module
from tallymark_spark_jobs.reconcile.look import Ask, Sight
from tallymark_spark_jobs.reconcile.outcome import Exit, Outcome
from tallymark_spark_jobs.reconcile.reading.read_plan import Unread
from tallymark_spark_jobs.reconcile.run import Job, reconcile
from tallymark_spark_jobs.reconcile.shapes.period import Period

SETTLE_MS = 300
W = AuditSettings().window_ms
EDGE = "dc1-to-aggregate"


def looks(monkeypatch: pytest.MonkeyPatch, states: list[State], period: Period) -> list[float]:
    """Let each look find the next of the states, the last one for ever; returns when they were."""
    at: list[float] = []

    def look(*_: object) -> Sight:
        state = states[min(len(at), len(states) - 1)]
        at.append(time.monotonic())
        verdicts = (Verdict("dc1-to-aggregate", "t", 0, state, claimed=1, observed=1),)
        return Sight(Outcome(period, now_ms(), verdicts, {}, {}, idle=False))

    monkeypatch.setattr(module, "look", look)
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.05)
    return at


def run(tmp_path: Path, period: Period, wait: float, **more: Any) -> tuple[Outcome, list[Any]]:
    deployment = Deployment(data_dir=tmp_path, audit=AuditSettings(settle_min_ms=SETTLE_MS))
    job = Job(deployment, period, wait_seconds=wait, **more)
    with open_store(deployment.audit_store) as store:
        outcome = reconcile(cast(Any, None), job, store, Steps(lambda text: None))
        with store.read() as connection:
            return outcome, queries.windows(connection)


def test_it_looks_again_until_all_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    period = Period(None, 0)
    at = looks(monkeypatch, [State.SETTLING, State.OPEN, State.COMPLETE], period)
    outcome, rows = run(tmp_path, period, 20)
    assert (outcome.state, len(at)) == (Exit.COMPLETE, 3)
    assert [row["state"] for row in rows] == ["COMPLETE"]


def test_it_gives_up_in_time_and_records_nothing_undecided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    period = Period(None, 0)
    at = looks(monkeypatch, [State.SETTLING], period)
    began = time.monotonic()
    outcome, rows = run(tmp_path, period, 0.3)
    assert 0.3 <= time.monotonic() - began < 5
    assert outcome.state is Exit.UNDECIDED
    assert len(at) > 1
    assert rows == []


def test_unasked_it_looks_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    period = Period(None, now_ms() + 60_000)
    at = looks(monkeypatch, [State.SETTLING], period)
    run(tmp_path, period, 0)
    assert len(at) == 1


def test_the_first_look_waits_for_the_last_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    period = Period(None, now_ms() + 200)
    at = looks(monkeypatch, [State.COMPLETE], period)
    began = time.monotonic()
    run(tmp_path, period, 20)
    assert 0.4 <= at[0] - began < 5


def test_what_nobody_will_ever_report_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    period = Period(None, 0)
    at = looks(monkeypatch, [State.UNKNOWN], period)
    outcome, rows = run(tmp_path, period, 20)
    assert (outcome.state, len(at)) == (Exit.UNDECIDED, 1)
    assert [row["state"] for row in rows] == ["UNKNOWN"]


def test_what_settled_while_it_counted_is_looked_at_again_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock was read before counting: the windows that settled during a quarter of an hour of
    it ended as SETTLING, without a word in the store."""
    asked: list[Ask] = []

    def look(_spark: object, _job: object, _store: object, _steps: object, ask: Ask) -> Sight:
        asked.append(ask)
        later = len(asked) > 1
        settled = Verdict(
            EDGE, "t", W, State.COMPLETE if later else State.SETTLING, 1, 1, young_until=1_000
        )
        found = (
            () if later else (Verdict(EDGE, "t", 0, State.COMPLETE, 1, 1),),
            () if later else (Verdict(EDGE, "t", 2 * W, State.OPEN, 1, 1, young_until=1 << 60),),
        )
        verdicts = (*found[0], settled, *found[1])
        return Sight(Outcome(ask.period, 100 + len(asked), verdicts, {}, {}, idle=False))

    monkeypatch.setattr(module, "look", look)
    outcome, rows = run(tmp_path, Period(0, 3 * W), 0)
    assert [(one.period, one.windows) for one in asked] == [
        (Period(0, 3 * W), None),
        (Period(W, 2 * W), frozenset({(EDGE, "t", W)})),
    ]
    assert [(one.window, str(one.state)) for one in outcome.verdicts] == [
        (0, "COMPLETE"),
        (W, "COMPLETE"),
        (2 * W, "OPEN"),
    ]
    assert {row["window"]: row["judged_at"] for row in rows} == {0: 101, W: 102}
    assert outcome.state is Exit.UNDECIDED


def test_messages_that_are_missing_are_looked_for_behind_the_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Ask] = []

    def look(_spark: object, _job: object, _store: object, _steps: object, ask: Ask) -> Sight:
        asked.append(ask)
        states = {0: State.COMPLETE, W: State.COMPLETE if ask.to_the_end else State.LOSS}
        verdicts = tuple(
            Verdict(EDGE, "t", at, state, 1, missing=int(state is State.LOSS))
            for at, state in states.items()
            if ask.windows is None or (EDGE, "t", at) in ask.windows
        )
        unread = () if ask.to_the_end else (Unread("aggregate", "dc1.t", 0, 100, 199),)
        outcome = Outcome(ask.period, 100, verdicts, {}, {}, idle=False, unread=unread)
        return Sight(outcome, {"t": "dc1.t", "dc1.t": "dc1.t", "other": "other"})

    monkeypatch.setattr(module, "look", look)
    outcome, _ = run(tmp_path, Period(0, 3 * W), 0)
    assert len(asked) == 2
    assert asked[1] == Ask(
        Period(W, 2 * W),
        frozenset({(EDGE, "t", W)}),
        frozenset({"t", "dc1.t"}),
        to_the_end=True,
        distrust=True,
    )
    assert outcome.state is Exit.COMPLETE


def test_what_is_wrong_by_the_counts_of_a_load_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load may have lost what it did not count, and then both would be wrong alike."""
    asked: list[Ask] = []

    def look(_spark: object, _job: object, _store: object, _steps: object, ask: Ask) -> Sight:
        asked.append(ask)
        states = {0: State.COMPLETE, W: State.COMPLETE if ask.distrust else State.LOSS}
        verdicts = tuple(
            Verdict(EDGE, "t", at, state, 1)
            for at, state in states.items()
            if ask.windows is None or (EDGE, "t", at) in ask.windows
        )
        return Sight(Outcome(ask.period, 100, verdicts, {}, {}, idle=False))

    monkeypatch.setattr(module, "look", look)
    outcome, _ = run(tmp_path, Period(0, 3 * W), 0, trust_load_counts=True)
    assert [(one.windows, one.distrust) for one in asked] == [
        (None, False),
        (frozenset({(EDGE, "t", W)}), True),
    ]
    assert outcome.state is Exit.COMPLETE


def test_a_window_that_waits_for_a_reporter_is_not_looked_at_again_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was old enough before the look: another one moments later would find the same."""
    asked: list[object] = []

    def look(*_: object) -> Sight:
        asked.append(_)
        verdict = Verdict(EDGE, "t", 0, State.SETTLING, 1, 1, young_until=now_ms() - 60_000)
        return Sight(Outcome(Period(0, W), now_ms() - 1_000, (verdict,), {}, {}, idle=False))

    monkeypatch.setattr(module, "look", look)
    run(tmp_path, Period(0, W), 0)
    assert len(asked) == 1
