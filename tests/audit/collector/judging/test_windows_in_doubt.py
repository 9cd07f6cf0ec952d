"""Windows that are in doubt: judged after they were counted again, never before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from judged_world import World, heartbeats, publisher, steady, world_in
from sqlalchemy import select

from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.apply import apply_plan
from tallymark_audit.repair.plan import make_repair_plan
from tallymark_audit.store.counted import recounts
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, record_verdicts
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import verdicts


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as made:
        yield made


@pytest.mark.parametrize("when", ["before the repair", "after the repair"])
def test_what_was_lost_after_it_was_counted_is_repaired_to_complete(
    world: World, when: str
) -> None:
    """A closed segment vanished after the collector had counted it. The nightly count said LOSS;
    repair copied what was missing, so that the log held every record once; the collector, which
    had never taken the lost ones off, said DUPLICATION and fired the alert. The collector may
    count again before or after the copies come: neither way is anything called a duplicate."""
    one = publisher(world, "dc1", b"a")
    steady(world, one)
    heartbeats(world, one)
    edge, log = "dc1-to-aggregate", world.clusters["aggregate"].log("t")
    good = world.verdicts(edge)
    assert {row["state"] for row in good.values()} == {State.COMPLETE}
    del log.batches[2:4]  # sequences 20 to 39, the whole window 11_000
    window, lost = 11_000, RangeSet.single(20, 39)
    cell = CellVerdict(CellKey("t", 0, window, "web", (b"a" * 8).hex()), State.LOSS, 20)
    found = Verdict(
        edge, "t", window, State.LOSS, 20, missing=20,
        cells=(replace(cell, missing=lost, missing_count=20),),
    )  # fmt: skip
    with world.store.write() as connection:
        record_verdicts(connection, [found], SPARK, world.now)
        for cluster in ("dc1", "aggregate"):
            recounts.ask_for_windows(connection, cluster, "t", [window], world.now)
    world.counts_again = when == "before the repair"
    if world.counts_again:
        heartbeats(world, one, ms=6000)
        (state,) = [r["state"] for r in rows_of(world, edge, window) if r["source"] == COLLECTOR]
        assert state == State.LOSS, "both counts agree"
    with world.store.read() as connection:
        plan = make_repair_plan(connection, derive_edges(world.deployment), world.now)
    assert plan.count == 20
    assert [one.copied.size for one in apply_plan(plan, world)] == [20]
    for second in range(12):
        world.counts_again = second > 3 or when == "before the repair"
        heartbeats(world, one, ms=1000)
        assert world.states(edge)[window] != State.DUPLICATION
    assert world.states(edge)[window] == State.COMPLETE
    assert set(world.states(edge).values()) == {State.COMPLETE}
    with world.store.read() as connection:
        history = window_evidence.evidence(connection, edge, "t", window).history
        told = [one for one in queries.all_incidents(connection) if one["kind"] == "recounted"]
        assert not list(recounts.to_do(connection, "aggregate"))
    assert State.DUPLICATION not in [row["state"] for row in history]
    if when == "before the repair":
        assert [one["count"] for one in told] == [20]


def rows_of(world: World, edge: str, window: int) -> list[Row]:
    query = select(verdicts).where(verdicts.c.edge == edge, verdicts.c.window == window)
    with world.store.read() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]
