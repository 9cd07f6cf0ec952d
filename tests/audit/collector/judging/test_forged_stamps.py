"""What whoever writes to a topic forges may cost that topic: the store, the judges and the pages
are bounded, the other topics are judged as ever, and nothing is called lost that is there.

Brokers are in memory; collectors, judges and the store are real.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from forged_reports import count_of, event, tell
from judged_world import W, World, heartbeats, publisher, steady, world_in
from sqlalchemy import func, select

from tallymark.client.producing.stamps import Stamp
from tallymark_audit.alerts.facts import judged_edges
from tallymark_audit.collector.limits.openings import Budget
from tallymark_audit.events.events import CellReport, Copied, Gap
from tallymark_audit.judge.verdicts import State
from tallymark_audit.metrics.source import AuditMetrics
from tallymark_audit.model.cells import OVERFLOW
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store.counted import counts, groups, openings, recounts
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.tables import (
    claims,
    copied,
    observations,
    reporter_topics,
    reporters,
    watermarks,
)
from tallymark_audit.testing import Told

pytestmark = pytest.mark.soak_cases("postgresql")

MOST = 5


@pytest.fixture
def world(tmp_path: Path, database: str) -> Iterator[World]:
    with world_in(tmp_path, database) as made:
        for collector in made.collectors.values():
            collector.ledger.opener.budget = Budget(MOST, W)
        yield made


def forge(world: World, number: int, cluster: str = "dc1", first: int = 0, apart: int = 0) -> None:
    """Records of so many runs that never report, ``apart`` windows from each other."""
    told = [
        Told(Stamp(b"%08d" % (first + n), 0, 0, f"host-{n}"), world.now - n * apart * W)
        for n in range(number)
    ]
    world.clusters[cluster].log("t").append(told)


def rows_of(world: World, cluster: str = "dc1") -> int:
    with world.store.read() as connection:
        query = select(func.count()).select_from(observations)
        return connection.scalar(query.where(observations.c.cluster == cluster)) or 0


def overflow_of(world: World, cluster: str = "dc1") -> int:
    with world.store.read() as connection:
        query = select(func.sum(observations.c.count)).where(
            observations.c.cluster == cluster, observations.c.server == OVERFLOW
        )
        return connection.scalar(query) or 0


def test_forged_runs_are_one_cell_that_is_unclaimed_by_number(world: World) -> None:
    """A writer stamped each record as another run: each became a row of the store, a cell to judge
    and a line of the page, 50,000 of them within a second."""
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=1000)
    at = world.now
    forge(world, 200)
    one.publish(world.now, 10)
    heartbeats(world, one, ms=8000)
    assert rows_of(world) <= 10 + MOST
    assert overflow_of(world) == 200 - MOST
    row = world.verdicts("producer-to-dc1")[at]
    assert (row["state"], row["unclaimed"], row["claimed"], row["missing"]) == (
        State.UNCLAIMED, 200, 10, 0,
    )  # fmt: skip
    (cell,) = [cell for cell in row["cells"] if cell["server"] == OVERFLOW]
    assert (cell["state"], cell["unclaimed_count"]) == (State.UNCLAIMED, 200 - MOST)
    assert "counted, not told apart" in cell["reason"]
    with world.store.read() as connection:
        (incident,) = [
            row for row in queries.all_incidents(connection) if row["kind"] == "too-many-runs"
        ]
        (told,) = openings.overflowed(connection)
    assert incident["count"] == told.records == 200 - MOST
    assert world.collectors["dc1"].counters.overflowed == 200 - MOST
    metrics = AuditMetrics(world.store, world.deployment, lambda: world.now, ["dc1"])
    found = {family.name: family for family in metrics.collect()}
    (sample,) = found["tallymark_audit_overflow_records"].samples
    assert (sample.labels, sample.value) == ({"cluster": "dc1", "topic": "t"}, 200 - MOST)


def test_a_restart_gives_no_new_budget(world: World) -> None:
    """The bound was in the collector's memory: who made it restart could open as much again."""
    forge(world, 100)
    world.run(500)
    known = rows_of(world)
    world.start("dc1")
    world.collectors["dc1"].ledger.opener.budget = Budget(MOST, W)
    world.judge("dc1")
    forge(world, 100, first=1000)
    world.run(500)
    assert rows_of(world) == known


def test_a_run_whose_records_fell_into_overflow_shows_no_loss(world: World) -> None:
    """A producer starts amid forged ones, and reports what it has sent a moment later: its records
    are there, in the overflow cell. Its claim must not be called lost."""
    forge(world, 100)
    world.run(500)
    one = publisher(world, "dc1", b"a")
    at = world.now
    one.publish(at, 10)
    world.run(500)
    heartbeats(world, one, ms=8000)
    row = world.verdicts("producer-to-dc1")[at - at % W]
    assert row["state"] not in (State.LOSS, State.MIXED, State.COMPLETE)
    (cell,) = [cell for cell in row["cells"] if cell["instance"] == (b"a" * 8).hex()]
    assert cell["state"] == State.UNKNOWN
    assert "may be among" in cell["reason"]


def test_what_is_certainly_lost_is_lost_amid_overflow_too(world: World) -> None:
    """Whoever wants to hide a loss has to forge as many records as were lost."""
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=2000)
    at = world.now - world.now % W + W
    while world.now < at:
        world.run(500)
    one.publish(at, 50, lose=40)
    forge(world, MOST + 10)
    heartbeats(world, one, ms=8000)
    row = world.verdicts("producer-to-dc1")[at]
    assert row["state"] == State.LOSS
    assert row["missing"] == 40 - overflow_of(world)


def test_windows_all_over_time_are_counted_in_one(world: World) -> None:
    """A writer stamped each record with another minute of the last days: each opened a window, on
    every hop, each with its verdict. A record of a producer that is late for real and falls among
    them is not lost, though its claim names a window in which nothing was counted."""
    heartbeats(world, ms=500)
    world.now = 10_000_000
    forge(world, 150, apart=10)
    world.run(500)
    assert len(world.verdicts("producer-to-dc1")) <= MOST * 10 + 5
    one = publisher(world, "dc1", b"a")
    late = world.now - 1000 * W
    forge(world, 15, first=10_000)
    one.publish(late, 5)
    world.run(500)
    heartbeats(world, one, ms=6000)
    row = world.verdicts("producer-to-dc1")[late - late % W]
    assert (row["state"], row["missing"]) == (State.UNKNOWN, 0)
    assert overflow_of(world) >= 100


def test_a_mirror_is_not_blamed_for_what_is_told_apart_on_one_side_only(world: World) -> None:
    """The aggregate had met too many runs when those of dc1 came to it: what dc1 tells apart and
    the aggregate only counts is there."""
    forge(world, 100, "aggregate", first=500)
    world.run(500)
    forge(world, MOST)
    world.mirror("dc1")
    world.run(500)
    for _ in range(8):
        world.mirror_reports("dc1")
        world.run(1000)
    states = set(world.states("dc1-to-aggregate").values())
    assert states <= {State.UNKNOWN}
    assert overflow_of(world, "aggregate") >= MOST


def test_other_topics_are_judged_as_ever(world: World) -> None:
    other = publisher(world, "dc1", b"a")
    for step in range(6):
        forge(world, 100, first=1000 * step)
        other.publish(world.now, 10, topic="u")
        other.report(world.now)
        world.run(500)
    heartbeats(world, other, ms=6000)
    assert set(world.states("producer-to-dc1", "u").values()) == {State.COMPLETE}
    with world.store.read() as connection:
        assert {one.topic for one in openings.overflowed(connection)} == {"t"}


def test_counting_again_opens_no_cells(world: World) -> None:
    """Spark tells all runs apart, finds others than the collector, and asks for the window to be
    counted again: that opened a cell for each forged run after all."""
    one = publisher(world, "dc1", b"a")
    one.report(world.now)
    world.run(500)
    one.publish(world.now, 10)
    at = world.now - world.now % W
    forge(world, 100)
    heartbeats(world, one)
    known, hidden = rows_of(world), overflow_of(world)
    with world.store.write() as connection:
        recounts.ask_for_windows(connection, "dc1", "t", [at], world.now)
    heartbeats(world, one)
    assert (rows_of(world), overflow_of(world)) == (known, hidden)
    world.clusters["dc1"].log("t").cut(105)
    heartbeats(world, one)
    assert rows_of(world) <= known
    assert overflow_of(world) == hidden
    with world.store.read() as connection:
        kept = counts.cells_of_window(connection, "dc1", "t", 0, at)
    assert {seen.key.overflow for seen in kept} == {True, False}


def test_groups_that_somebody_makes_up_are_not_all_judged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write to the audit topic reports as the member of any group: each became a hop
    of its own, with verdicts, watermarks and metrics. Those that are judged stay."""
    monkeypatch.setattr(groups, "MOST_GROUPS", 3)
    with world.store.write() as connection:
        for group in ("z", "y"):
            connection.execute(
                watermarks.insert().values(edge=f"dc1-to-group:{group}", topic="t", holes=[])
            )
        told = {"cluster": "dc1", "tier": "consumer", "kind": "consumer"}
        for group in ("z", "y", *(f"a{n}" for n in range(50))):
            row = {**told, "reporter": f"consumer-{group}", "consumer_group": group}
            connection.execute(reporters.insert().values(**row))
            topic = {"cluster": "dc1", "topic": "t", "reporter": f"consumer-{group}"}
            connection.execute(reporter_topics.insert().values(**topic))
        assert groups.first_groups(connection, "dc1") == ["a0", "y", "z"]
        assert set(groups.groups_on(connection, "dc1")) == {"a0", "y", "z"}
    world.run(3000)
    with world.store.read() as connection:
        edges = judged_edges(connection, world.deployment, "dc1")
    assert sum(edge.kind == "consumer" for edge in edges) == 3


def test_no_stamp_names_the_overflow_cell(world: World) -> None:
    stamp = Stamp(b"a" * 8, 0, 0, OVERFLOW)
    world.clusters["dc1"].log("t").append([Told(stamp, world.now), Told(None, world.now)])
    world.run(1000)
    with world.store.read() as connection:
        at = world.now - world.now % W - W
        found = counts.cells_of_window(connection, "dc1", "t", 0, at)
        found += counts.cells_of_window(connection, "dc1", "t", 0, at + W)
    assert len(found) == 2
    assert not any(replace(seen).key.overflow for seen in found)


def test_reporters_that_somebody_makes_up_are_bounded(world: World) -> None:
    """Whoever may write to the audit topic reports as any producer: each was a row that every
    judgement of its topic read, a line of the page and, a minute later, silent."""
    honest_one = publisher(world, "dc1", b"a")
    honest_one.report(world.now)
    world.run(500)
    at = world.now - world.now % W
    cells = (CellReport("t", 0, at, accepted=RangeSet.single(0, 4), count=5),)
    tell(world, *(event(world, b"%08d" % n, cells=cells) for n in range(200)))
    honest_one.publish(world.now, 10)
    for _ in range(5):
        honest_one.report(world.now)
        world.run(1000)
    assert count_of(world, reporters) <= 1 + 2 * 5 * MOST
    with world.store.read() as connection:
        (incident,) = [
            row for row in queries.all_incidents(connection) if row["kind"] == "too-many-reports"
        ]
        (told,) = openings.overflowed(connection)
    assert incident["count"] == told.records >= 200 - 2 * 5 * MOST
    assert told.topic == AUDIT_TOPIC


def test_claims_of_all_times_gaps_and_made_up_mirrors_are_bounded(world: World) -> None:
    """One event names as many windows, runs, gaps or partitions as fit into it."""
    far = tuple(CellReport("t", 0, n * 100 * W, count=1) for n in range(1_000))
    strangers = tuple(
        CellReport("t", 0, 10_000, instance=f"{n:016x}", server="x", count=1) for n in range(1_000)
    )
    parts = tuple(CellReport("t", 0, 10_000, part=n, count=1) for n in range(1_000))
    mirror = {"kind": "mirror", "tier": "mirror", "reporter": "mirror-x"}
    group = {"kind": "consumer", "tier": "consumer", "consumer_group": "g"}
    code = (b"c" * 8).hex()
    tell(
        world,
        event(world, b"a" * 8, cells=far),
        event(world, b"b" * 8, cells=parts),
        event(world, b"c" * 8, cells=strangers, reporter=f"consumer-{code}", **group),
        event(world, b"", gaps=tuple(Gap("t", 0, n, n, "aborted") for n in range(1_000)), **mirror),
        event(world, b"", copied=tuple(Copied(f"t{n}", 0, "t") for n in range(1_000)), **mirror),
    )
    world.run(1000)
    assert count_of(world, claims) == count_of(world, copied) == 0
    with world.store.read() as connection:
        assert not [one for one in queries.all_incidents(connection) if one["kind"] == "gap"]
        (told,) = openings.overflowed(connection)
    assert told.records == 5


def test_a_report_that_was_left_out_makes_nothing_green(world: World) -> None:
    """Reports are left out while somebody floods the audit topic. A producer whose only claim of a
    lost record stood in one of them: its windows are not complete until it has told it again."""
    one = publisher(world, "dc1", b"a")
    one.report(world.now)
    world.run(1000)
    tell(world, *(event(world, b"%08d" % n) for n in range(100)))
    world.run(500)
    at = world.now - world.now % W
    two = publisher(world, "dc1", b"b")
    one.publish(world.now, 5)
    two.publish(world.now, 5, lose=2)
    two.report(world.now)  # is left out
    for _ in range(3):
        one.report(world.now)
        world.run(1000)
    assert world.states("producer-to-dc1")[at] not in (State.COMPLETE, State.EXPLAINED)
    world.now += 120_000
    for _ in range(10):
        one.report(world.now)
        two.report(world.now)
        world.run(1000)
    assert world.verdicts("producer-to-dc1")[at]["missing"] == 2
