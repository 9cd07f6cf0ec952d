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
from tallymark_spark_jobs.reconcile.look import Sight
from tallymark_spark_jobs.reconcile.outcome import Exit, Outcome
from tallymark_spark_jobs.reconcile.run import Job, reconcile
from tallymark_spark_jobs.reconcile.shapes.period import Period

SETTLE_MS = 300


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


def run(tmp_path: Path, period: Period, wait: float) -> tuple[Outcome, list[Any]]:
    deployment = Deployment(data_dir=tmp_path, audit=AuditSettings(settle_min_ms=SETTLE_MS))
    job = Job(deployment, period, wait_seconds=wait)
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
