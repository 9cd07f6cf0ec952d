"""What retention deletes leaves sums and incidents as they would be in a store that keeps all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, func, select

from tallymark.errors import UserError
from tallymark_audit.judge.states import GOOD
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted.totals import HOUR
from tallymark_audit.store.housekeeping import retention
from tallymark_audit.store.judged.filling import fill_incidents, fill_sums
from tallymark_audit.store.judged.sums import EDGE
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, accept, record_verdicts
from tallymark_audit.store.schema import tables
from tallymark_audit.store.schema.summed_tables import IN_STATE

W = 60_000
MINUTES_10 = HOUR // 6
EDGES = ("producer-to-dc1", "dc1-to-agg")
ALL = (
    tables.verdict_sums, tables.edge_sums, tables.topic_sums, tables.window_incidents,
    tables.incident_windows, tables.worst_cells, tables.verdicts, tables.verdict_history,
    tables.watermarks, tables.repairs,
)  # fmt: skip
AT_ONCE = 3

numbers = st.integers(0, 5)
windows = st.integers(55, 64).map(lambda number: number * W)
verdicts = st.builds(
    Verdict, edge=st.sampled_from(EDGES), topic=st.just("a"), window=windows,
    state=st.sampled_from([State.COMPLETE, State.LOSS, *State]), claimed=numbers, observed=numbers,
    missing=numbers, duplicates=numbers, unclaimed=numbers, explained=numbers,
)  # fmt: skip
some_verdicts = st.lists(verdicts, max_size=5)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([COLLECTOR, COLLECTOR, SPARK]), some_verdicts),
        st.tuples(st.sampled_from(["accept", "repair"]), some_verdicts),
        st.tuples(st.just("forget"), windows),
    ),
    max_size=14,
)


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[Store, Store]]:
    """One that forgets, and one that keeps all."""
    with open_store("sqlite://") as forgetting, open_store("sqlite://") as keeping:
        yield forgetting, keeping


def play(store: Store, steps: list[Any], known: list[set[Any]], *, forgets: bool) -> int:
    """What happens; the last time before which all was forgotten. ``known`` gets, or has, which
    windows a step is about: not those of which the verdicts have gone."""
    now, cutoff = 10_000, 0
    with store.write() as connection:
        for table in ALL:
            connection.execute(table.delete())
        connection.execute(tables.watermarks.insert(), [{"edge": edge} for edge in EDGES])
    for number, (kind, some) in enumerate(steps):
        now += 1_000
        with store.write() as connection:
            if kind == "forget":
                cutoff = max(cutoff, some)
                if forgets:
                    forget(connection, cutoff)
                if len(known) == number:
                    known.append(set())
                continue
            if len(known) == number:
                known.append({place(one) for one in some if is_known(connection, one, cutoff)})
            asked = {place(one): one for one in some if place(one) in known[number]}
            happen(connection, kind, list(asked.values()), now)
    return cutoff


def place(one: Verdict) -> tuple[str, str, int]:
    return one.edge, one.topic, one.window


def is_known(connection: Connection, one: Verdict, cutoff: int) -> bool:
    v = tables.verdicts.c
    here = v.edge == one.edge, v.topic == one.topic, v.window == one.window
    return (
        one.window >= cutoff or connection.execute(select(v.state).where(*here)).first() is not None
    )


def happen(connection: Connection, kind: str, some: list[Verdict], now: int) -> None:
    if kind == "accept":
        for one in some:
            try:
                accept(connection, one.edge, one.topic, one.window, "ann", "", now, W)
            except UserError:
                continue  # nothing to accept there
    elif kind == "repair":
        for one in some:
            row = {"at": now, "edge": one.edge, "topic": one.topic, "window": one.window}
            connection.execute(tables.repairs.insert().values(**row, copied=1))
        good = [Verdict(*place(one), State.COMPLETE, claimed=9, observed=9) for one in some]
        record_verdicts(connection, good, COLLECTOR, now, W)
    else:
        record_verdicts(connection, some, kind, now, W)


def forget(connection: Connection, before: int) -> None:
    """As the housekeeper does: each portion until it finds no more. What is open stays."""
    was = open_incidents(connection)
    for portion in retention.PORTIONS:
        while gone := portion(connection, "dc1", before, AT_ONCE):
            assert gone <= 3 * AT_ONCE
    assert open_incidents(connection) == was


def open_incidents(connection: Connection) -> list[Any]:
    t, w = tables.window_incidents, tables.incident_windows
    query = select(w, t).join(t, t.c.id == w.c.incident).where(t.c.state == "OPEN")
    return sorted(tuple(row) for row in connection.execute(query))


def rows_of(connection: Connection, table: Any, since: int = 0, span: int = 0) -> list[Any]:
    query = select(table)
    if span:
        query = query.where(table.c.span == span, table.c.start >= since)
    return sorted(
        tuple(value for name, value in row.items() if name != "bad_windows")
        for row in connection.execute(query).mappings()
        if any(row[name] for name in IN_STATE.values())
    )


def incidents_of(connection: Connection, *but: str) -> list[Any]:
    """The windows with their incidents, whatever the numbers of these are; without these columns of
    incidents."""
    t, w = tables.window_incidents, tables.incident_windows
    columns = [column for column in w.c if column.name != "incident"]
    told = [column for column in t.c if column.name not in ("id", "last_change", *but)]
    query = select(*columns, *told).join(t, t.c.id == w.c.incident)
    return sorted(tuple(row) for row in connection.execute(query))


def check_ill(connection: Connection) -> None:
    """The number of windows that are not good stands with their edge."""
    w, t = tables.incident_windows.c, tables.topic_sums.c
    ill = select(w.edge, func.count()).where(w.state.not_in(GOOD)).group_by(w.edge)
    noted = select(t.edge, t.bad_windows).where(t.topic == EDGE, t.bad_windows != 0)
    assert sorted(map(tuple, connection.execute(noted))) == sorted(
        map(tuple, connection.execute(ill))
    )


@given(steps)
@settings(
    max_examples=40,
    phases=[Phase.reuse, Phase.generate],  # to make an example smaller took minutes
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
def test_what_is_left_agrees_with_a_store_that_keeps_all(
    stores: tuple[Store, Store], steps: list[Any]
) -> None:
    """Of a window that the collector had found wrong before Spark found it good, only Spark's
    verdict was deleted: the loss of a month ago came back."""
    forgetting, keeping = stores
    known: list[set[Any]] = []
    cutoff = play(forgetting, steps, known, forgets=True)
    play(keeping, steps, known, forgets=False)
    since = cutoff - cutoff % MINUTES_10
    with forgetting.write() as one, keeping.write() as other:
        assert rows_of(one, tables.edge_sums) == rows_of(other, tables.edge_sums)
        for span, start in ((MINUTES_10, since), (HOUR, 0)):
            mine = rows_of(one, tables.verdict_sums, start, span)
            assert mine == rows_of(other, tables.verdict_sums, start, span)
        # Repairs go with their age, too: by which one a window was mended is not known then.
        repaired = "state", "repaired_by"
        assert incidents_of(one, *repaired) == incidents_of(other, *repaired)
        check_ill(one)
        topics = rows_of(one, tables.topic_sums)
        fill_sums(one)
        assert rows_of(one, tables.topic_sums) == topics


@given(steps)
@settings(
    max_examples=40,
    phases=[Phase.reuse, Phase.generate],  # to make an example smaller took minutes
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
def test_incidents_that_ended_go_and_no_others(
    stores: tuple[Store, Store], steps: list[Any]
) -> None:
    """Their windows were still counted as not good, and what was merged into them stayed."""
    store, _ = stores
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "INCIDENTS_KEPT", 0)
        play(store, [*steps, ("forget", 80 * W)], [], forgets=True)
    with store.write() as connection:
        check_ill(connection)
        t, w, k = tables.window_incidents.c, tables.incident_windows.c, tables.worst_cells.c
        kept = {row.id: row for row in connection.execute(select(t.id, t.state, t.merged_into))}
        for row in kept.values():
            assert row.merged_into in kept if row.merged_into else row.state == "OPEN"
        assert set(connection.scalars(select(w.incident))) <= kept.keys()
        named = {tuple(row) for row in connection.execute(select(w.edge, w.topic, w.window))}
        cells = {tuple(row) for row in connection.execute(select(k.edge, k.topic, k.window))}
        assert cells <= named


@given(
    st.lists(
        st.tuples(st.sampled_from([COLLECTOR, "accept", "repair"]), some_verdicts), max_size=14
    )
)
@settings(
    max_examples=25,
    phases=[Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
def test_incidents_are_those_made_anew_from_the_history(
    stores: tuple[Store, Store], steps: list[Any]
) -> None:
    store, _ = stores
    play(store, steps, [], forgets=False)
    with store.write() as connection:
        was = incidents_of(connection)
        fill_incidents(connection, W)
        anew = incidents_of(connection)
        assert [one for one in anew if one not in was] == []
        assert len(anew) == len(was)
        check_ill(connection)
