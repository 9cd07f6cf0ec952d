"""Sums and incidents follow from the verdicts: after any sequence of what can happen to verdicts
they are what would be found by looking at all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from old_stores import load_old_store
from sqlalchemy import Connection, func, select, update

from tallymark.errors import UserError
from tallymark_audit.judge.states import GOOD, UNDECIDED
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.housekeeping import retention
from tallymark_audit.store.judged.filling import fill, fill_incidents
from tallymark_audit.store.judged.sums import EDGE, ChangedVerdicts
from tallymark_audit.store.judged.verdicts import (
    COLLECTOR,
    SPARK,
    accept,
    effective,
    record_verdicts,
)
from tallymark_audit.store.schema import tables
from tallymark_audit.store.schema.balance import NOTHING, added_by, adding_columns
from tallymark_audit.store.schema.summed_tables import BALANCED, IN_STATE, SUMMED

W = 60_000
HOUR = 3_600_000
SUMS = (tables.verdict_sums, tables.edge_sums, tables.topic_sums)
INCIDENTS = (tables.window_incidents, tables.incident_windows)
EDGES = ("producer-to-dc1", "dc1-to-agg")

counts = st.integers(0, 9)
verdicts = st.builds(
    Verdict,
    edge=st.sampled_from(EDGES),
    topic=st.sampled_from(["a", "b"]),
    window=st.integers(50, 72).map(lambda number: number * W),
    state=st.sampled_from(list(State)),
    claimed=counts,
    observed=counts,
    missing=counts,
    duplicates=counts,
    unclaimed=counts,
    explained=counts,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just(COLLECTOR), st.lists(verdicts, max_size=5), st.integers(0, 9)),
        st.tuples(st.just(SPARK), st.lists(verdicts, max_size=5), st.integers(0, 40)),
        st.tuples(st.just("accept"), st.lists(verdicts, max_size=2), st.booleans()),
        st.tuples(st.just("forget"), st.just([]), st.integers(50, 75)),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def memory_store() -> Iterator[Store]:
    """One for all examples: to make the tables takes longer than an example."""
    with open_store("sqlite://") as store:
        yield store


@contextmanager
def emptied(store: Store) -> Iterator[Store]:
    yield store
    with store.write() as connection:
        for table in (
            *SUMS, *INCIDENTS, tables.verdicts, tables.verdict_history, tables.watermarks,
        ):  # fmt: skip
            connection.execute(table.delete())


def contents(connection: Connection, *some: Any) -> dict[str, list[tuple[Any, ...]]]:
    """All rows, but that of an edge that has no verdict any more: it is there to be locked."""
    return {
        table.name: sorted(
            tuple(value for name, value in row.items() if name != "bad_windows")
            for row in connection.execute(select(table)).mappings()
            if any(row[name] for name in IN_STATE.values())
        )
        for table in some
    }


def unnumbered(connection: Connection) -> list[tuple[Any, ...]]:
    """The incidents with their windows, whatever their numbers are."""
    t, w = tables.window_incidents, tables.incident_windows
    told = [column for column in t.c if column.name not in ("id", "last_change")]
    number = {
        row.id: tuple(row)[1:]
        for row in connection.execute(select(t.c.id, *told).where(t.c.merged_into == 0))
    }
    windows = [
        (*row[1:], number[row.incident])
        for row in connection.execute(
            select(w.c.incident, *[column for column in w.c if column.name != "incident"])
        )
    ]
    return sorted(windows)


def play(store: Store, steps: list[Any]) -> bool:
    """What happens, each step in a transaction of its own; whether anything was forgotten."""
    now, forgotten = 10_000, False
    with store.write() as connection:
        rows = [{"edge": edge, "topic": "a"} for edge in EDGES]
        connection.execute(tables.watermarks.insert(), rows)
    for kind, some, number in steps:
        now += 1_000
        with store.write() as connection:
            if kind == "accept":
                for one in some:
                    who = "ann" if number else ""
                    with suppressed():
                        accept(connection, one.edge, one.topic, one.window, who, "", now)
            elif kind == "forget":
                for portion in (retention._verdicts, retention._incidents):
                    forgotten |= bool(portion(connection, "dc1", number * W, 1000))
            else:
                unique = {(one.edge, one.topic, one.window): one for one in some}
                at = now if kind == COLLECTOR else now - 500 * number
                record_verdicts(connection, unique.values(), kind, at)
    return forgotten


@contextmanager
def suppressed() -> Iterator[None]:
    try:
        yield
    except UserError:
        return


def check(connection: Connection, forgotten: bool) -> None:
    """Nothing would change if all were made anew."""
    some = SUMS if not forgotten else (tables.topic_sums,)
    was = contents(connection, *some)
    w = tables.incident_windows.c
    ill = select(w.edge, func.count().label("windows")).where(w.state.not_in(GOOD))
    found = {row.edge: row.windows for row in connection.execute(ill.group_by(w.edge))}
    assert bad_windows(connection) == found
    for row in connection.execute(select(tables.edge_sums)).mappings():
        assert row["claimed"] == sum(row[name] for name in BALANCED[1:])
        assert all(row[name] >= 0 for name in SUMMED)
    fill(connection)
    assert contents(connection, *some) == was


@given(steps)
@settings(max_examples=12, suppress_health_check=list(HealthCheck), deadline=None)
def test_sums_are_those_of_the_verdicts_after_whatever_happened(
    memory_store: Store, steps: list[Any]
) -> None:
    with emptied(memory_store) as store:
        forgotten = play(store, steps)
        with store.write() as connection:
            check(connection, forgotten)


@given(st.lists(st.lists(verdicts, max_size=5), max_size=12))
@settings(max_examples=12, suppress_health_check=list(HealthCheck), deadline=None)
def test_the_incidents_are_those_of_the_whole_history(
    memory_store: Store, rounds: list[list[Verdict]]
) -> None:
    """Made from nothing, out of every revision that is kept, they are the same as those that were
    kept up to date."""
    with emptied(memory_store) as store:
        play(store, [(COLLECTOR, some, 0) for some in rounds])
        with store.write() as connection:
            was = unnumbered(connection)
            ill = bad_windows(connection)
            fill_incidents(connection, W)
            assert unnumbered(connection) == was
            assert bad_windows(connection) == ill


def bad_windows(connection: Connection) -> dict[str, int]:
    t = tables.topic_sums.c
    query = select(t.edge, t.bad_windows).where(t.topic == EDGE, t.bad_windows != 0)
    return {row.edge: row.bad_windows for row in connection.execute(query)}


@given(verdicts, st.booleans())
def test_what_a_verdict_adds_is_balanced(one: Verdict, accepted: bool) -> None:
    row = {name: getattr(one, name) for name in tables.SUMS}
    added = added_by({**row, "state": str(one.state), "accepted_by": "ann" if accepted else ""})
    assert added["claimed"] == sum(added[name] for name in BALANCED[1:])
    assert all(number >= 0 for number in added.values())
    assert added.keys() == NOTHING.keys()
    assert one.state not in UNDECIDED or added["missing"] == 0


def test_sql_adds_what_python_adds(database: str) -> None:
    chance = Random(4)
    names = ("claimed", "observed", "missing", "duplicates", "unclaimed", "explained")
    with open_store(database) as store, store.write() as connection:
        rows = [
            {
                "edge": "e", "topic": "t", "window": at * W, "source": COLLECTOR,
                "state": chance.choice([*State, "NO SUCH STATE"]),
                "accepted_by": chance.choice(["", "ann"]),
                **{name: chance.randrange(9) for name in names},
            }
            for at in range(300)
        ]  # fmt: skip
        connection.execute(tables.verdicts.insert(), rows)
        query = select(*adding_columns(tables.verdicts)).order_by(tables.verdicts.c.window)
        for row, found in zip(rows, connection.execute(query).mappings(), strict=True):
            assert dict(found) == added_by(row), row


def test_the_statements_are_those_of_both_databases(database: str) -> None:
    chance = Random(7)

    def some() -> list[Verdict]:
        return [
            Verdict(
                chance.choice(EDGES),
                chance.choice("ab"),
                chance.randrange(40, 80) * W,
                chance.choice(list(State)),
                claimed=chance.randrange(9),
                observed=chance.randrange(9),
                missing=chance.randrange(9),
                duplicates=chance.randrange(9),
                unclaimed=chance.randrange(9),
                explained=chance.randrange(9),
            )
            for _ in range(chance.randrange(30))
        ]

    steps: list[Any] = [
        (chance.choice([COLLECTOR, COLLECTOR, SPARK, "accept"]), some(), chance.randrange(20))
        for _ in range(25)
    ]
    with open_store(database) as store:
        forgotten = play(store, [*steps, ("forget", [], 45), *steps[:3]])
        with store.write() as connection:
            assert connection.execute(select(tables.window_incidents)).first() is not None
            check(connection, forgotten)


def test_a_window_of_which_both_sources_change_at_once_counts_once(database: str) -> None:
    """Spark's verdict was read before the collector's transaction had ended, so the sums had both
    of them."""
    place = "dc1-to-agg", "a"
    with open_store(database) as store:
        first = Verdict(*place, 0, State.COMPLETE, claimed=10, observed=10)
        with store.write() as connection:
            record_verdicts(connection, [first], COLLECTOR, 100)
        jobs: list[Callable[[], None]] = []
        for number in range(6):
            lost = Verdict(
                *place, 0, State.LOSS, claimed=10, observed=9 - number, missing=1 + number
            )
            source, at = (COLLECTOR, SPARK)[number % 2], 200 + number

            def run(lost: Verdict = lost, source: str = source, at: int = at) -> None:
                with store.write() as connection:
                    record_verdicts(connection, [lost], source, at)

            jobs.append(run)
        threads = [threading.Thread(target=job) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with store.write() as connection:
            check(connection, False)


def test_edges_are_locked_in_one_order(database: str) -> None:
    """Two transactions that change the same edges, noted the other way round, do not wait for each
    other until the database ends one of them."""
    rows = {
        edge: {"state": "COMPLETE", "claimed": 1, "observed": 1, "missing": 0, "duplicates": 0,
               "unclaimed": 0, "explained": 0, "accepted_by": "", "judged_at": 1}
        for edge in EDGES
    }  # fmt: skip
    failures: list[BaseException] = []
    with open_store(database) as store:
        meeting = threading.Barrier(2)

        def run(edges: list[str], window: int) -> None:
            try:
                for _ in range(5):
                    meeting.wait(timeout=20)
                    with store.write() as connection:
                        changed = ChangedVerdicts(connection)
                        for edge in edges:
                            changed.note((edge, "a", window), COLLECTOR, None, rows[edge])
                        changed.write(1)
            except BaseException as error:  # of a thread: told below
                failures.append(error)

        threads = [
            threading.Thread(target=run, args=([*order], window))
            for window, order in enumerate((EDGES, EDGES[::-1]))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


@pytest.mark.parametrize("version", [1, 4])
def test_a_store_of_before_gets_its_sums_and_incidents(database: str, version: int) -> None:
    load_old_store(database, version)
    with open_store(database) as store, store.read() as connection:
        held = connection.execute(select(tables.verdicts).where(effective())).all()
        t = tables.topic_sums.c
        windows = connection.execute(
            select(t.in_complete + t.in_loss, t.bad, t.missing).where(t.topic == "t")
        ).one()
        (one,) = connection.execute(select(tables.window_incidents)).mappings()
    assert tuple(windows) == (len(held), 1, one["missing"])
    assert (one["kind"], one["state"], one["first_window"]) == ("LOSS", "OPEN", 6000)
    assert one["missing"] > 0


def test_what_retention_deletes_stays_in_the_hours(database: str) -> None:
    place = "dc1-to-agg", "a"
    good = Verdict(*place, 0, State.COMPLETE, claimed=10, observed=10)
    lost = Verdict(*place, W, State.LOSS, claimed=10, observed=9, missing=1)
    with open_store(database) as store:
        play(store, [(COLLECTOR, [good, lost], 0), ("forget", [], 5)])
        with store.read() as connection:
            hours = (
                connection.execute(
                    select(tables.verdict_sums.c.claimed).where(tables.verdict_sums.c.span == HOUR)
                )
                .scalars()
                .all()
            )
            topics = connection.execute(
                select(tables.topic_sums.c.claimed, tables.topic_sums.c.first_window).where(
                    tables.topic_sums.c.topic == "a"
                )
            ).all()
    assert (hours, [tuple(row) for row in topics]) == ([20], [(10, W)])


def test_windows_at_the_ends_of_time_are_as_others(database: str) -> None:
    """A stranger's stamp of the year 292,278,994 ended in an OverflowError: no window of the hop
    was judged any more."""
    last = ((1 << 63) - 1) // W * W
    some = [
        Verdict("dc1-to-agg", "a", window, State.LOSS, claimed=10, observed=9, missing=1)
        for window in (last, last - W, -2 * W, -W)
    ]
    with open_store(database) as store:
        play(store, [(COLLECTOR, some, 0)])
        with store.write() as connection:
            t = tables.topic_sums.c
            ends = select(t.first_window, t.last_window).where(t.edge == "dc1-to-agg")
            assert {tuple(row) for row in connection.execute(ends)} == {(-2 * W, last)}
            check(connection, False)
            query = select(tables.window_incidents.c.windows)
            assert list(connection.scalars(query)) == [2, 2]


def test_a_person_with_sql_who_removes_an_incident_does_not_stop_the_judge(tmp_path: Path) -> None:
    lost = Verdict("dc1-to-agg", "a", 0, State.LOSS, claimed=10, observed=9, missing=1)
    more = Verdict("dc1-to-agg", "a", 0, State.LOSS, claimed=10, observed=8, missing=2)
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        play(store, [(COLLECTOR, [lost], 0)])
        with store.write() as connection:
            connection.execute(tables.window_incidents.delete())
            connection.execute(update(tables.topic_sums).values(bad_windows=0))
        with store.write() as connection:
            record_verdicts(connection, [more], COLLECTOR, 90_000)
        with store.read() as connection:
            (one,) = connection.execute(select(tables.window_incidents)).mappings()
    assert (one["missing"], one["windows"]) == (2, 1)
