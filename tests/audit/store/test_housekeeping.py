"""What is healthy is archived and what is old is forgotten; what is wrong stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Connection, event, func, select, update
from sqlalchemy.exc import OperationalError

from tallymark.deployment import AuditSettings
from tallymark_audit.events.claim_book import Reporter
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Claim, Observation
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import counts, facts, positions
from tallymark_audit.store.counted.positions import FencedError
from tallymark_audit.store.counted.totals import pieces, totals_of
from tallymark_audit.store.housekeeping.housekeeper import Housekeeper
from tallymark_audit.store.housekeeping.packing import JudgedState, is_healthy
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.schema import tables
from tallymark_audit.store.schema.rows import claim_to_row, reporter_to_row
from tallymark_audit.store.schema.upsert import upsert
from tallymark_audit.testing import FailingStore

W = 60_000
DAY = 86_400_000
EDGES = (
    Edge("producer-to-dc1", "producer", "dc1", "producer"),
    Edge("dc1-to-aggregate", "dc1", "aggregate", "mirror"),
)
SETTINGS = AuditSettings(window_ms=W, collapse_after_ms=3_600_000, retention_ms=10 * DAY)
HERE = ("observations", "claims", "window_changes")


@dataclass
class Keeper:
    """A cluster's collector as far as housekeeping needs one."""

    store: Store
    cluster: str = "dc1"
    generation: int = 0

    def take_over(self) -> None:
        with self.store.write() as connection:
            self.generation = positions.take_over(connection, self.cluster, "keeper", 1)

    @contextmanager
    def write(self, now: int) -> Iterator[Connection]:
        with self.store.write() as connection:
            positions.fence(connection, self.cluster, self.generation, now)
            yield connection


@pytest.fixture
def keeper(database: str) -> Iterator[Keeper]:
    with open_store(database) as store:
        keeper = Keeper(store)
        keeper.take_over()
        yield keeper


def fill(keeper: Keeper, windows: int, states: dict[str, State] | None = None) -> None:
    """Windows with a cell each, claimed and seen at 0, and judged on both edges."""
    states = states or {edge.name: State.COMPLETE for edge in EDGES}
    for at in range(windows):
        key = CellKey("t", 0, at * W, "web", "ab" * 8)
        ranges = RangeSet.single(10 * at, 10 * at + 9)
        seen = Observation(key, 10, 100, ranges, first_offset=10 * at, last_offset=10 * at + 9)
        claim = Claim(key, accepted=ranges, acknowledged=ranges, count=10, bytes=100)
        with keeper.store.write() as connection:
            upsert(connection, tables.claims, [claim_to_row("dc1", "r", 0, 1, claim)])
            counts.save_observations(connection, "dc1", "t", 0, [seen], 0)
            judged = [
                Verdict(edge, "t", at * W, state, claimed=10, observed=10)
                for edge, state in states.items()
            ]
            record_verdicts(
                connection, [Verdict(j.edge, "t", j.window, State.OPEN, 1) for j in judged],
                COLLECTOR, 0,
            )  # fmt: skip
            record_verdicts(connection, judged, COLLECTOR, 1)
            marks = [
                {"edge": e, "topic": "t", "through": 0, "horizon": 0, "holes": [], "at": 0}
                for e in states
            ]
            upsert(connection, tables.watermarks, marks)


def rows(store: Store, *names: str) -> list[int]:
    with store.read() as connection:
        return [
            connection.scalar(select(func.count()).select_from(tables.metadata.tables[name])) or 0
            for name in names
        ]


def work(keeper: Keeper, now: int, settings: AuditSettings = SETTINGS, steps: int = 30) -> None:
    house = Housekeeper(keeper, EDGES, settings)
    for at in range(steps):
        house.step(now + at)


def test_healthy_windows_are_archived_once_they_are_quiet(keeper: Keeper) -> None:
    fill(keeper, 130)
    work(keeper, SETTINGS.collapse_after_ms - 1, steps=1)
    assert rows(keeper.store, *HERE, "archive") == [130, 130, 130, 0]
    work(keeper, SETTINGS.collapse_after_ms)
    assert rows(keeper.store, *HERE, "archive") == [0, 0, 0, 130]
    with keeper.store.read() as connection:
        observed = facts.observed(connection, "dc1", "t", [5 * W])
        (hour, *_) = totals_of(connection, "t", 0, DAY, 3_600_000)
        sums = {(one.tier, one.messages) for one in totals_of(connection, "t", 0, DAY)}
        history = connection.execute(select(tables.verdict_history.c.state)).scalars().all()
    assert next(iter(observed[5 * W].values())).ranges == RangeSet.single(50, 59)
    assert (hour.messages, hour.bytes) == (600, 6000)
    assert sums == {("producer", 1300), ("cluster", 1300)}
    # That it was too soon to say is not kept on the edges into this cluster; the verdict is.
    assert sorted(set(history)) == ["COMPLETE", "OPEN"]
    assert len(history) == 130 + 2 * 130


def test_passing_revisions_are_looked_up_by_their_key(keeper: Keeper) -> None:
    """They were looked for by the end of the edge's name: each portion of 50 windows read the whole
    history, and with 60,000 verdicts a collector of a quiet deployment took most of a core."""
    if keeper.store.engine.dialect.name != "sqlite":
        pytest.skip("the plan of SQLite is looked at")
    plans: list[str] = []

    def explained(
        connection: Connection, cursor: Any, statement: str, values: Any, *_: Any
    ) -> None:
        if statement.startswith("DELETE FROM verdict_history"):
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", values)
            plans.extend(row[-1] for row in cursor.fetchall())

    fill(keeper, 2)
    event.listen(keeper.store.engine, "before_cursor_execute", explained)
    work(keeper, SETTINGS.collapse_after_ms)
    assert plans
    assert all(plan.startswith("SEARCH verdict_history USING") for plan in plans), plans


@pytest.mark.parametrize(
    ("states", "archived"),
    [
        ({"producer-to-dc1": State.COMPLETE, "dc1-to-aggregate": State.EXPLAINED}, True),
        ({"producer-to-dc1": State.COMPLETE, "dc1-to-aggregate": State.LOSS}, False),
        ({"producer-to-dc1": State.UNKNOWN, "dc1-to-aggregate": State.COMPLETE}, False),
        ({"producer-to-dc1": State.COMPLETE}, False),
        ({"dc1-to-aggregate": State.COMPLETE}, True),
        (
            {
                "producer-to-dc1": State.COMPLETE,
                "dc1-to-aggregate": State.COMPLETE,
                "dc1-to-group:g": State.LOSS,
            },
            False,
        ),
        (
            {
                "producer-to-dc1": State.COMPLETE,
                "dc1-to-aggregate": State.COMPLETE,
                "dc2-to-aggregate": State.LOSS,
            },
            True,
        ),
    ],
)
def test_detail_stays_where_something_is_wrong(
    states: dict[str, State], archived: bool, tmp_path: Any
) -> None:
    with open_store(f"sqlite:///{tmp_path / 'db'}") as store:
        keeper = Keeper(store)
        keeper.take_over()
        fill(keeper, 1, states)
        work(keeper, 2 * SETTINGS.collapse_after_ms)
        assert rows(store, "archive") == [int(archived)]
        assert rows(store, "observations") == [int(not archived)]


def test_what_a_person_accepted_is_no_health() -> None:
    good = JudgedState("e", "t", 0, "COMPLETE", accepted=False)
    assert is_healthy(["e"], [good])
    assert not is_healthy(["e"], [good._replace(accepted=True)])
    assert not is_healthy([], [])
    assert not is_healthy(["e", "other"], [good])


def test_a_late_copy_unpacks_its_window_only(keeper: Keeper) -> None:
    fill(keeper, 3)
    work(keeper, DAY)
    key = CellKey("t", 0, W, "web", "ab" * 8)
    with keeper.write(DAY) as connection:
        known = counts.load_observations(connection, "dc1", "t", 0, {key})[key]
        late = Observation(key, 1, 10, RangeSet.single(12, 12), first_offset=70, last_offset=70)
        counts.save_observations(connection, "dc1", "t", 0, [known.merge(late)], DAY)
    assert rows(keeper.store, *HERE, "archive") == [1, 1, 1, 2]
    with keeper.store.read() as connection:
        (seen,) = facts.observed(connection, "dc1", "t", [W])[W].values()
        assert seen.duplicate_count == 1
        assert sum(one.messages for one in totals_of(connection, "t", 0, DAY)) == 60


@pytest.mark.parametrize("after", [False, True])
def test_it_may_die_anywhere(after: bool) -> None:
    """Whatever statement or commit fails, nothing is lost, and the next step goes on."""
    with open_store("sqlite://") as store:
        keeper = Keeper(store)
        keeper.take_over()
        failing, tried = FailingStore(store), 0
        for at in range(1, 60):
            tried = at
            fill(keeper, 2)
            failing.arm(at, after=after)
            house = Housekeeper(keeper, EDGES, SETTINGS)
            with suppress(OperationalError):
                house.step(DAY)
            done = not failing.disarm()
            with store.read() as connection:
                found = facts.observed(connection, "dc1", "t", [0, W])
            assert [sum(s.count for s in found[w].values()) for w in (0, W)] == [10, 10]
            house.step(DAY + 1)
            house.step(DAY + 60_001)
            assert rows(store, *HERE, "archive") == [0, 0, 0, 2]
            if done:
                break
    assert tried > 10


def test_who_is_not_in_charge_changes_nothing(keeper: Keeper) -> None:
    fill(keeper, 2)
    other = Keeper(keeper.store)
    other.take_over()
    with pytest.raises(FencedError):
        work(keeper, DAY)
    assert rows(keeper.store, "archive") == [0]


def test_what_is_old_is_forgotten_but_for_what_holds_a_watermark(keeper: Keeper) -> None:
    fill(keeper, 2)
    work(keeper, DAY)
    fill_wrong(keeper, 2)
    reporters = [
        Reporter("closed", closed=True, last_heard=1),
        Reporter("silent", last_heard=1),
    ]
    with keeper.write(DAY) as connection:
        upsert(connection, tables.reporters, [reporter_to_row("dc1", one) for one in reporters])
        for table in (tables.incidents, tables.repairs):
            connection.execute(table.insert().values(at=5))
        connection.execute(tables.graph.insert(), [{"valid_from": 1}, {"valid_from": 2}])
    work(keeper, DAY + SETTINGS.retention_ms - 100, steps=60)
    gone = [*HERE, "archive", "incidents", "repairs"]
    # Those that were written last are not old yet: they were archived a day later.
    assert rows(keeper.store, *gone) == [0, 0, 0, 2, 0, 0]
    work(keeper, 2 * DAY + SETTINGS.retention_ms, steps=60)
    assert rows(keeper.store, "archive", "graph") == [0, 1]
    with keeper.store.read() as connection:
        left = connection.execute(select(tables.verdicts.c.window, tables.verdicts.c.state)).all()
        history = connection.execute(select(tables.verdict_history.c.window)).scalars().all()
        who = connection.execute(select(tables.reporters.c.reporter)).scalars().all()
    assert [tuple(row) for row in left] == [(50 * W, "LOSS")]
    assert set(history) == {50 * W}
    assert who == ["silent"]
    with keeper.store.read() as connection:
        assert {one.messages for one in totals_of(connection, "t", 0, DAY)} == {20}


def fill_wrong(keeper: Keeper, windows: int) -> None:
    """A lost window, and one that is accepted, both of long ago."""
    for at in range(windows):
        window = (50 + at) * W
        with keeper.write(1) as connection:
            seen = Observation(CellKey("t", 0, window, "web", "ab" * 8), 1)
            counts.save_observations(connection, "dc1", "t", 0, [seen], 1)
            lost = Verdict("producer-to-dc1", "t", window, State.LOSS, claimed=10, missing=9)
            record_verdicts(connection, [lost], COLLECTOR, 1)
    with keeper.write(1) as connection:
        accepted = tables.verdicts.c.window == (50 + windows - 1) * W
        connection.execute(update(tables.verdicts).where(accepted).values(accepted_by="me"))


def test_a_record_of_long_ago_is_not_forgotten_at_once(keeper: Keeper) -> None:
    """A back-fill stamps its records in the past: they are counted now, and kept from now on."""
    fill(keeper, 2)
    now = 100 * SETTINGS.retention_ms
    with keeper.write(now) as connection:
        counts.touch(connection, "dc1", {("t", 0), ("t", W)}, now)
    work(keeper, now + 1)
    assert rows(keeper.store, *HERE) == [2, 2, 2]


def test_periods_in_pieces() -> None:
    hour, ten = 3_600_000, 600_000
    spans = (DAY, hour, ten)
    assert pieces(0, 2 * DAY, spans) == [(DAY, 0, 2 * DAY)]
    found = pieces(DAY - W, 2 * DAY + hour + ten + W, spans)
    assert found == [
        (0, DAY - W, DAY),
        (DAY, DAY, 2 * DAY),
        (hour, 2 * DAY, 2 * DAY + hour),
        (ten, 2 * DAY + hour, 2 * DAY + hour + ten),
        (0, 2 * DAY + hour + ten, 2 * DAY + hour + ten + W),
    ]
    assert pieces(5, 5, spans) == []
    assert sum(high - low for _, low, high in pieces(-W, 7 * hour + 1, spans)) == 7 * hour + 1 + W


def test_counting_goes_on_while_it_archives(keeper: Keeper) -> None:
    """Other collectors of the cluster write without asking who keeps house: whoever comes second
    waits, or has to begin again, and no record is counted twice or forgotten."""
    fill(keeper, 2)
    key = CellKey("t", 0, W, "web", "ab" * 8)
    stop, failures = threading.Event(), list[BaseException]()

    def archive() -> None:
        try:
            eager = AuditSettings(window_ms=W, collapse_after_ms=0, retention_ms=10 * DAY)
            while not stop.is_set():
                with suppress(OperationalError):  # a deadlock: tried again
                    Housekeeper(keeper, EDGES, eager).step(DAY)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=archive)
    thread.start()
    done = 0
    while done < 60:
        new = RangeSet.single(1000 + done, 1000 + done)
        with suppress(OperationalError):
            with keeper.store.write() as connection:
                before = counts.load_observations(connection, "dc1", "t", 0, {key})[key]
                seen = before.merge(Observation(key, 1, 10, new))
                counts.save_observations(connection, "dc1", "t", 0, [seen], 1)
            done += 1
    stop.set()
    thread.join()
    assert failures == []
    with keeper.store.read() as connection:
        (cell,) = facts.observed(connection, "dc1", "t", [W])[W].values()
        (other,) = facts.observed(connection, "dc1", "t", [0])[0].values()
        sums = {one.tier: one.messages for one in totals_of(connection, "t", 0, DAY)}
    assert (cell.count, cell.ranges.size, other.count) == (70, 70, 10)
    assert sums == {"cluster": 80, "producer": 20}
