"""Pages of what happened: each row once, whatever the length of a page; disagreements are the same
as by comparing every verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, event

from tallymark_audit.collector.judging.waiting import those_waited_for
from tallymark_audit.judge.states import UNDECIDED
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.edges import AUDIT_TOPIC, consumer_edge
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, record_verdicts
from tallymark_audit.store.reading import paging, queries, records
from tallymark_audit.store.reading.alarms.disagreeing import disagreements_between
from tallymark_audit.store.reading.alarms.watching import silent_reporters
from tallymark_audit.store.reading.runs import loaded_tables
from tallymark_audit.store.schema.tables import (
    incidents,
    metadata,
    progress,
    repairs,
    reporter_topics,
    reporters,
    runs,
    watermarks,
)

W = 60_000
NONE = records.WhichRecords()
MANY = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    postgres = request.param == "postgresql"
    address = request.getfixturevalue("postgres") if postgres else f"sqlite:///{tmp_path}/audit.db"
    with open_store(address) as store:
        yield store


def put(store: Store, table: Any, *rows: dict[str, Any]) -> None:
    with store.write() as connection:
        for row in rows:
            connection.execute(table.insert().values(**row))


def all_pages(
    store: Store, read: Callable[..., list[Any]], key: Sequence[str], limit: int
) -> list[Any]:
    found: list[Any] = []
    after: Any = None
    while True:
        with store.read() as connection:
            page = read(connection, after, limit)
        found += page
        if len(page) < limit:
            return found
        last = tuple(page[-1][name] for name in key)
        after = last if len(last) > 1 else last[0]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_every_row_is_on_one_page(store: Store, limit: int) -> None:
    names = ["a", "b", "Z", "é", "_"]
    for n in range(7):
        put(store, incidents, {"cluster": "dc1", "topic": "t", "at": n % 3, "kind": names[n % 2]})
        put(store, runs, {"job": "load", "started_at": n})
        put(store, repairs, {"at": n, "edge": "e", "topic": "t", "window": 0, "partition": 0})
    for name in names:
        for n in range(2):
            place = {"cluster": "dc1", "topic": name, "partition": n}
            put(store, progress, {**place, "next_offset": 5, "high_watermark": 5 + n})
            who = {"cluster": "dc1", "reporter": f"{name}{n}", "consumer_group": name}
            put(store, reporters, {**who, "tier": "consumer", "closed": bool(n), "last_heard": n})
            put(store, reporter_topics, {"cluster": "dc1", "reporter": f"{name}{n}", "topic": "t"})
    through = {"topic": "t", "through": 9, "horizon": 9, "holes": [[3, "LOSS", False]], "at": 9}
    put(store, watermarks, {"edge": "dc1-to-group:a", **through})
    reads: list[tuple[Callable[..., list[Any]], tuple[str, ...], int]] = [
        (lambda c, a, n: records.log_event_page(c, NONE, a, n), ("id",), 7),
        (lambda c, a, n: records.job_run_page(c, NONE, a, n), ("id",), 7),
        (lambda c, a, n: records.repair_page(c, NONE, a, n), ("id",), 7),
        (
            lambda c, a, n: records.progress_page(c, None, None, a, n),
            ("cluster", "topic", "partition"),
            10,
        ),
        (
            lambda c, a, n: records.group_page(c, None, None, None, a, n),
            ("cluster", "group", "topic"),
            5,
        ),
    ]
    for read, key, count in reads:
        found = all_pages(store, read, key, limit)
        assert len({tuple(row[name] for name in key) for row in found}) == len(found) == count
    groups = {row["group"]: row for row in found}
    assert (groups["a"]["runs"], groups["a"]["working"]) == (2, 1)
    assert (groups["a"]["through"], groups["a"]["holes"]) == (9, 1)
    assert groups["b"]["through"] == -1


@pytest.mark.parametrize(("heard", "back"), [(9, False), (10, False), (11, True)])
def test_a_retired_reporter_that_reports_again_is_back_everywhere(
    store: Store, heard: int, back: bool
) -> None:
    """Windows waited for it again, but lists of those that report left it out, and no alert named
    it when it became silent."""
    who: dict[str, Any] = {"cluster": "dc1", "reporter": "r", "kind": "consumer", "seen": []}
    who |= {"tier": "consumer", "ahead": [], "last_heard": heard, "retired_at": 10}
    who["consumer_group"] = "g"
    put(store, reporters, who)
    put(store, reporters, {**who, "reporter": "load", "tier": "lake", "consumer_group": ""})
    put(store, reporter_topics, {"cluster": "dc1", "topic": "t", "reporter": "r"})
    place = {"cluster": "dc1", "topic": AUDIT_TOPIC, "partition": 0}
    put(store, progress, {**place, "counted_through": 1_000})
    edge = consumer_edge("dc1", "g", "t")
    with store.read() as connection:
        live = queries.all_reporters(connection, live_only=True)
        page = paging.reporter_page(connection, None, "consumer", 0, None, 9)
        (group,) = records.group_page(connection, None, None, None, None, 9)
        silent = silent_reporters(connection, "dc1", 100)
        tables = loaded_tables(connection, 9)
        ended = those_waited_for(connection, edge, ["dc1"], 1_000, 100)[1]
    found = len(live) == 2, len(page) == 2, group["working"] == 1, len(tables) == 1, ended == 0
    assert found == (back,) * 5
    assert len(silent) == 2 * back


def test_rows_are_chosen(store: Store) -> None:
    for n in range(4):
        place = {"cluster": f"dc{n % 2}", "topic": "t", "at": n}
        put(store, incidents, {**place, "kind": "gap" if n else "expired"})
    which = records.WhichRecords(1, 3, "dc1", "t", None, ["gap"])
    with store.read() as connection:
        assert [row["at"] for row in records.log_event_page(connection, which, None, 9)] == [1]


judged = st.dictionaries(
    st.tuples(st.sampled_from(["a-to-b", "b-to-c"]), st.sampled_from("xy"), st.integers(0, 3)),
    st.tuples(*[st.sampled_from(["COMPLETE", "LOSS", "OPEN", "UNKNOWN", "DUPLICATION"])] * 2),
    max_size=12,
)


@MANY
@given(judged=judged, limit=st.integers(1, 4))
def test_disagreements_are_those_of_all_verdicts(
    store: Store, judged: dict[tuple[str, str, int], tuple[str, str]], limit: int
) -> None:
    with store.write() as connection:
        for table in reversed(metadata.sorted_tables):
            if table.name not in ("meta", "graph"):
                connection.execute(table.delete())
        for at, source in enumerate((COLLECTOR, SPARK)):
            verdicts = [
                Verdict(edge, topic, window * W, State(states[at]), 9, 7, 2, 1)
                for (edge, topic, window), states in judged.items()
            ]
            record_verdicts(connection, verdicts, source, 10 + at)
    with store.read() as connection:
        expected = queries.disagreements(connection, 1000)
        between = disagreements_between(connection, ["a-to-b", "b-to-c"], 0, 4 * W, 1000)
    found = all_pages(
        store,
        lambda c, a, n: records.disagreement_page(c, None, None, a, n),
        ("window", "edge", "topic"),
        limit,
    )
    expected.sort(key=lambda row: (-row["window"], row["edge"], row["topic"]))
    assert found == expected
    decided = {str(state) for state in State if state not in UNDECIDED}
    assert [(one.edge, one.topic, one.window) for one in between] == [
        (row["edge"], row["topic"], row["window"])
        for row in expected
        if {row["spark_state"], row["collector_state"]} <= decided
    ]


def test_the_other_count_of_a_window_is_looked_up_by_its_key(tmp_path: Path) -> None:
    """For each window that was not COMPLETE, SQLite read all windows of its topic within the time
    range: nine tenths of the processor time of the page of incidents, with 2 million verdicts."""
    plans: list[str] = []

    def explained(
        connection: Connection, cursor: Any, statement: str, values: Any, *_: Any
    ) -> None:
        if "verdicts AS other" in statement:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", values)
            plans.extend(row[-1] for row in cursor.fetchall())

    with open_store(f"sqlite:///{tmp_path}/audit.db") as store, store.read() as connection:
        event.listen(store.engine, "before_cursor_execute", explained)
        disagreements_between(connection, ["a-to-b", "b-to-c"], 0, 4 * W, 10)
    first, second = plans[:2]
    assert first.startswith("SEARCH one USING INDEX verdicts_by_state"), plans
    assert second.startswith("SEARCH other USING INDEX"), plans
    assert "(edge=? AND topic=? AND window=?" in second, plans
