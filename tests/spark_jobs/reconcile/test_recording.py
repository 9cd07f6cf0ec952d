"""What a run leaves in the store, where other runs and the collectors write beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.rows import Row
from tallymark_spark_jobs.reconcile import ledger
from tallymark_spark_jobs.reconcile.outcome import Outcome
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.search import Identity, LogSpan

W = 5_000
EDGE = "dc1-to-aggregate"
WEB = "11" * 8


def verdict(window: int, missing: int = 0) -> Verdict:
    key = CellKey("t", 0, window, "web-1", WEB)
    lost = RangeSet.single(3, 2 + missing) if missing else RangeSet()
    cells = (
        (CellVerdict(key, State.LOSS, claimed=10, missing=lost, missing_count=missing),)
        if missing
        else ()
    )
    state = State.LOSS if missing else State.COMPLETE
    return Verdict(EDGE, "t", window, state, 10, 10 - missing, missing, cells=cells)


def outcome(as_of: int, *verdicts: Verdict) -> Outcome:
    places = {Identity("t", 0, WEB): [LogSpan("dc1", "t", 0, 103, 104, 3, 4)]}
    edges = (Edge(EDGE, "dc1", "aggregate", "mirror"),)
    return Outcome(Period(None, 10 * W), as_of, verdicts, places, {}, idle=False, edges=edges)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as opened:
        yield opened


def windows(store: Store) -> list[Row]:
    with store.read() as connection:
        return sorted(queries.windows(connection), key=lambda row: row["window"])


def test_a_run_that_looked_earlier_and_ends_later_replaces_nothing(store: Store) -> None:
    """A long run of the night began before a repair, a short one of the morning after it. The long
    one ended last, and its losses came back into the store, as the newest word on the windows."""
    ledger.record(store, outcome(2_000, verdict(0), verdict(W)), 2_000, 2_500)
    ledger.record(store, outcome(1_000, verdict(0, 2), verdict(W), verdict(2 * W, 2)), 900, 3_000)
    rows = windows(store)
    assert [row["state"] for row in rows] == ["COMPLETE", "COMPLETE", "LOSS"]
    assert [row["revision"] for row in rows] == [0, 0, 0]
    assert [row["judged_at"] for row in rows] == [2_000, 2_000, 1_000]
    assert rows[2]["cells"][0]["located"][0]["first_offset"] == 103
    ledger.record(store, outcome(4_000, verdict(0, 2)), 4_000, 4_100)
    assert windows(store)[0]["state"] == "LOSS"


def test_an_older_look_does_not_place_offsets_in_a_newer_verdict(store: Store) -> None:
    """Places are kept by the number of the cell in the verdict: in another verdict that number is
    another cell."""
    newer = verdict(0, 2)
    (cell,) = newer.cells
    other = replace(cell, key=cell.key._replace(instance="22" * 8))
    ledger.record(store, outcome(2_000, replace(newer, cells=(other,))), 2_000, 2_500)
    ledger.record(store, outcome(1_000, verdict(0, 2)), 900, 3_000)
    (row,) = windows(store)
    assert row["cells"][0]["instance"] == "22" * 8
    assert row["cells"][0]["located"] == []


def test_each_verdict_has_the_time_of_its_own_look(store: Store) -> None:
    """A run looks again at what had not settled, and must not date the rest later than it saw
    it."""
    later = replace(outcome(1_000, verdict(0), verdict(W)), looked={(EDGE, "t", W): 5_000})
    ledger.record(store, later, 900, 6_000)
    assert [row["judged_at"] for row in windows(store)] == [1_000, 5_000]


def test_two_runs_that_record_at_once_take_turns(store: Store) -> None:
    """Whichever comes first, what was seen last stands."""
    for turn in range(10):
        window = turn * W
        at = threading.Barrier(2)

        def record(as_of: int, missing: int, window: int = window) -> None:
            at.wait()  # noqa: B023 - the thread ends within the turn
            ledger.record(store, outcome(as_of, verdict(window, missing)), as_of, as_of)

        both = [
            threading.Thread(target=record, args=(as_of, missing))
            for as_of, missing in ((1_000, 2), (2_000, 0))
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
    assert {row["state"] for row in windows(store)} == {"COMPLETE"}


def test_disagreements_of_an_old_period_are_all_found(store: Store) -> None:
    """Only the newest 1,000 of the whole store were looked at: a back-fill of an old day, beside a
    younger fault, reported none of its own."""
    old = [verdict(at * W) for at in range(1_100)]
    young = [verdict(at * W) for at in range(2_000, 3_200)]
    with store.write() as connection:
        wrong = [replace(one, state=State.LOSS, missing=1) for one in (*old, *young)]
        record_verdicts(connection, wrong, COLLECTOR, 500)
    ledger.record(store, outcome(1_000, *young), 900, 1_100)
    run = outcome(1_000, *old)
    ledger.record(store, run, 900, 1_100)
    found = ledger.disagreements(store, run)
    assert [row["window"] for row in found] == [one.window for one in reversed(old)]
