"""A window that was found healthy and is archived: what happens to it afterwards is judged as if it
had stayed where it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from sqlalchemy import func, select, update

from tallymark.deployment import AuditSettings
from tallymark_audit.collector.judging.judge_loop import JudgeLoop
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.model.cells import CellKey, Copy, Edge
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Observation
from tallymark_audit.reporters.books.tally import Outcome, ReporterIdentity, Run, Tally, TallyKey
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import counts, positions
from tallymark_audit.store.counted.claims import add_events
from tallymark_audit.store.counted.positions import Position
from tallymark_audit.store.housekeeping.housekeeper import Housekeeper
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema import tables

W = 1000
WINDOW = 10_000
CODE = "ab" * 8
KEY = CellKey("t", 0, WINDOW, "web", CODE)
EDGE = Edge("producer-to-dc1", "producer", "dc1", "producer")
SETTINGS = AuditSettings(window_ms=W, settle_min_ms=500, silence_ms=5_000, collapse_after_ms=30_000)


@dataclass
class World:
    """A cluster whose log and audit topic are told by hand."""

    store: Store
    now: int = WINDOW + 100
    tally: Tally = field(
        default_factory=lambda: Tally(
            ReporterIdentity(f"producer-{CODE}", "web", "app", CODE, W, 0)
        )
    )

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.store, "dc1")
        self.ledger.take_over("test", self.now)
        with self.ledger.write(self.now) as connection:
            new = [Position("t", 0), Position(AUDIT_TOPIC, 0)]
            positions.add_positions(connection, "dc1", new)
        self.judge = JudgeLoop(self.ledger, [EDGE], SETTINGS)
        self.house = Housekeeper(self.ledger, [EDGE], SETTINGS)

    def claim(self, first: int, last: int) -> None:
        run = Run(TallyKey("t", 0, WINDOW), first, last, WINDOW, WINDOW)
        self.tally.accept(run, 10, WINDOW)
        self.tally.settle(run.key, Outcome.ACKNOWLEDGED, first, last, WINDOW)

    def see(self, first: int, last: int, offset: int) -> None:
        """Records at ``offset`` and after, counted on top of what the store has."""
        new = RangeSet.single(first, last)
        with self.ledger.write(self.now) as connection:
            found = counts.load_observations(connection, "dc1", "t", 0, {KEY})
            before = found.get(KEY, Observation(KEY))
            copies = tuple(Copy(0, offset, s) for s, _ in before.ranges & new)
            end = offset + last - first
            seen = Observation(KEY, new.size, 10, new, copies, first_offset=offset, last_offset=end)
            counts.save_observations(connection, "dc1", "t", 0, [before.merge(seen)], self.now)

    def pass_time(self, ms: int) -> None:
        """Everybody is alive and has counted all."""
        for _ in range(0, ms, W):
            self.now += W
            with self.ledger.write(self.now) as connection:
                for event in self.tally.report(self.now, self.now, False):
                    self.tally.published(event.event_number)
                    add_events(connection, "dc1", [event], self.now)
                connection.execute(update(tables.progress).values(counted_through=self.now))
            self.judge.step(self.now)
            self.house.step(self.now)

    def state(self) -> tuple[str, int, int]:
        """State, missing and duplicates of the window."""
        with self.store.read() as connection:
            (row,) = queries.windows(connection, EDGE.name, "t", WINDOW, WINDOW + 1)
        return row["state"], row["missing"], row["duplicates"]

    def archived(self) -> int:
        with self.store.read() as connection:
            return connection.scalar(select(func.count()).select_from(tables.archive)) or 0


@pytest.fixture
def world(database: str) -> Iterator[World]:
    with open_store(database) as store:
        world = World(store)
        world.claim(0, 9)
        world.see(0, 9, 0)
        world.pass_time(5_000)
        assert (world.state(), world.archived()) == (("COMPLETE", 0, 0), 0)
        world.pass_time(100_000)
        assert (world.state(), world.archived()) == (("COMPLETE", 0, 0), 1)
        yield world


def test_a_late_copy_is_a_duplication(world: World) -> None:
    world.see(4, 4, 30)
    world.pass_time(5_000)
    assert (world.state(), world.archived()) == (("DUPLICATION", 0, 1), 0)
    with world.store.read() as connection:
        (row,) = queries.windows(connection)
    assert row["cells"][0]["copies"] == [[0, 30, 4]]


def test_a_late_claim_opens_it_again_and_then_it_is_archived_again(world: World) -> None:
    world.claim(10, 12)
    world.pass_time(5_000)
    assert (world.state(), world.archived()) == (("LOSS", 3, 0), 0)
    world.see(10, 12, 30)
    world.pass_time(5_000)
    assert (world.state(), world.archived()) == (("COMPLETE", 0, 0), 0)
    world.pass_time(100_000)
    assert (world.state(), world.archived()) == (("COMPLETE", 0, 0), 1)


def test_a_cut_log_makes_it_a_loss(world: World) -> None:
    with world.store.read() as connection:
        (seen,) = counts.cells_beyond(connection, "dc1", "t", 0, 6)
    assert seen.ranges == RangeSet.single(0, 9)
    left = Observation(KEY, 6, 10, RangeSet.single(0, 5), first_offset=0, last_offset=5)
    with world.ledger.write(world.now) as connection:
        counts.replace_beyond(connection, "dc1", "t", 0, 6, {KEY: left}, world.now)
    world.pass_time(5_000)
    assert (world.state(), world.archived()) == (("LOSS", 4, 0), 0)
