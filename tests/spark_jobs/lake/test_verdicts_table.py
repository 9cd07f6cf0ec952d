"""The table of verdicts: a run replaces what it judged, and an older look replaces nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tallymark_spark_jobs.lake import verdicts
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.verdicts import read_verdicts, write_verdicts

HOUR = 1_769_846_400_000
MINUTE = 60_000


def verdict(window: int, state: str = "COMPLETE", as_of: int = HOUR, **more: Any) -> dict[str, Any]:
    return {
        "edge": "producer-to-dc1",
        "topic": "page-views",
        "window": HOUR + window * MINUTE,
        "state": state,
        "as_of": as_of,
        "claimed": 10,
        "observed": 10,
        "missing": 0,
        "duplicates": 0,
        "unclaimed": 0,
        "explained": 0,
        "reasons": (),
        "cells": "[]",
        **more,
    }


def states(lake: Lake) -> list[tuple[str, int, str, str]]:
    return [
        (
            row["topic"],
            (int(row["window"].timestamp() * 1000) - HOUR) // MINUTE,
            row["state"],
            row["run"],
        )
        for row in read_verdicts(lake).to_pylist()
    ]


def test_a_run_replaces_the_windows_it_judged(lake: Lake) -> None:
    assert states(lake) == []
    write_verdicts(lake, [verdict(0), verdict(1, "LOSS", missing=3, reasons=["x", "y"])], run="1")
    write_verdicts(
        lake,
        [verdict(1, as_of=HOUR + 1), verdict(0, topic="clicks"), verdict(5, "LOSS")],
        run="2",
    )
    assert states(lake) == [
        ("clicks", 0, "COMPLETE", "2"),
        ("page-views", 0, "COMPLETE", "1"),
        ("page-views", 1, "COMPLETE", "2"),
        ("page-views", 5, "LOSS", "2"),
    ]


def test_an_older_look_changes_nothing(lake: Lake) -> None:
    """A run that began at midnight and took until three, after one that began at two."""
    write_verdicts(lake, [verdict(0, as_of=HOUR + 5)], run="younger")
    late = [verdict(0, "LOSS", as_of=HOUR + 4), verdict(1, "LOSS", as_of=HOUR + 4)]
    write_verdicts(lake, late, run="older")
    assert states(lake) == [
        ("page-views", 0, "COMPLETE", "younger"),
        ("page-views", 1, "LOSS", "older"),
    ]


def test_twice_is_once(lake: Lake) -> None:
    rows = [verdict(0), verdict(1, "LOSS", missing=3, reasons=["x"])]
    assert write_verdicts(lake, rows, run="1") is not None
    assert write_verdicts(lake, rows, run="2") is None
    assert write_verdicts(lake, [], run="3") is None
    assert [run for *_, run in states(lake)] == ["1", "1"]


def test_all_columns_come_back(lake: Lake) -> None:
    row = verdict(1, "LOSS", missing=3, reasons=["x", "y"], cells='[{"server": "web-1"}]')
    write_verdicts(lake, [row], run="1")
    (found,) = read_verdicts(lake).to_pylist()
    assert int(found.pop("window").timestamp() * 1000) == row["window"]
    assert int(found.pop("as_of").timestamp() * 1000) == row["as_of"]
    assert found == {
        **{name: row[name] for name in found if name != "run"},
        "reasons": ["x", "y"],
        "run": "1",
    }
    assert read_verdicts(lake, HOUR + MINUTE + 1).num_rows == 0
    assert read_verdicts(lake, 0, HOUR + MINUTE).num_rows == 0


def test_two_runs_at_once_are_both_there(lake: Lake, monkeypatch: Any) -> None:
    """The second one commits between the look of the first and its commit."""
    write_verdicts(lake, [verdict(0)], run="before")
    real = verdicts.verdict_table(lake)
    other = type(real)
    read = other.read
    entered: list[int] = []

    def slow(self: Any, *range_: int) -> Any:
        found = read(self, *range_)
        if not entered:
            entered.append(1)
            write_verdicts(lake, [verdict(0, "LOSS", as_of=HOUR + 9), verdict(2)], run="faster")
        return found

    monkeypatch.setattr(other, "read", slow)
    write_verdicts(lake, [verdict(0, as_of=HOUR + 3), verdict(1)], run="slower")
    assert states(lake) == [
        ("page-views", 0, "LOSS", "faster"),
        ("page-views", 1, "COMPLETE", "slower"),
        ("page-views", 2, "COMPLETE", "faster"),
    ]


def test_many_writers_at_once(lake: Lake) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            write_verdicts(
                lake, [verdict(number), verdict(9, as_of=HOUR + number)], run=f"{number}"
            )
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [(window, run) for _, window, _, run in states(lake)] == [
        (0, "0"), (1, "1"), (2, "2"), (3, "3"), (9, "3"),
    ]  # fmt: skip


def test_a_row_without_a_column_is_an_error(lake: Lake) -> None:
    row = verdict(0)
    del row["missing"]
    with pytest.raises(KeyError, match="missing"):
        write_verdicts(lake, [row], run="1")
