"""The hop into the lake: a load that comes now and then, and what the collector says of it.

The table is in memory, and so are the clusters; its reports go the way that real ones go.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from judged_world import W, World, heartbeats, publisher, steady, world_in
from memory_lake import MemoryLake
from sqlalchemy import select

from tallymark.deployment import LakeSettings
from tallymark_audit.cli import command
from tallymark_audit.collector.judging import hop_loop
from tallymark_audit.collector.limits.openings import Budget
from tallymark_audit.judge.states import State
from tallymark_audit.judge.windows import judge_windows
from tallymark_audit.model.edges import AUDIT_TOPIC, derive_edges
from tallymark_audit.repair.plan import make_repair_plan
from tallymark_audit.repair.reloads import reloads_of
from tallymark_audit.store.counted import claims
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_audit.store.schema import tables
from tallymark_audit.testing import Told

EDGE = "aggregate-to-lake"
OVERDUE = 600_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path, lake=LakeSettings(overdue_ms=OVERDUE)) as made:
        yield made


def lake_of(world: World, **fields: Any) -> MemoryLake:
    return MemoryLake(world.clusters["aggregate"], W, **fields)


def loaded(world: World, lake: MemoryLake, **faults: Any) -> None:
    lake.report(lake.load(world.now, **faults), world.now)


def through(world: World) -> int:
    with world.store.read() as connection:
        return max((t.through for t in queries.overview(connection) if t.edge == EDGE), default=0)


def cells_of(world: World, state: State) -> list[dict[str, Any]]:
    rows = world.verdicts(EDGE).values()
    return [cell for row in rows if row["state"] == state for cell in row["cells"]]


def test_what_the_load_has_not_come_to_is_not_lost(world: World) -> None:
    """Two loads, a while between them. Windows wait for the next one, and the watermark with them;
    what a load brought is COMPLETE, also the half window at its end with the load after it."""
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one)
    heartbeats(world, one)
    assert set(world.states(EDGE).values()) == {State.SETTLING}
    assert "no load has reported" in str(world.verdicts(EDGE))
    assert through(world) == 10_000
    loaded(world, lake)
    heartbeats(world, one)
    assert set(world.states(EDGE).values()) == {State.COMPLETE}
    assert sum(row["observed"] for row in world.verdicts(EDGE).values()) == 60
    mark = through(world)
    assert mark >= 13_000

    one.publish(world.now, 30)
    world.mirror("dc1")
    loaded(world, lake, most=10)
    for _ in range(5):
        heartbeats(world, one, ms=3000)
        assert world.states(EDGE)[max(world.states(EDGE))] == State.SETTLING
    assert "not loaded yet; the last load was committed at" in str(world.verdicts(EDGE))
    loaded(world, lake)
    heartbeats(world, one)
    assert set(world.states(EDGE).values()) == {State.COMPLETE}
    assert through(world) > mark


def test_rows_that_a_commit_lacks_are_lost_named_and_loaded_again(world: World) -> None:
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one)
    loaded(world, lake, lose={12, 13, 40})
    heartbeats(world, one)
    lost = {w: r for w, r in world.verdicts(EDGE).items() if r["state"] == State.LOSS}
    assert sum(row["missing"] for row in lost.values()) == 3
    places = [p for row in lost.values() for cell in row["cells"] for p in cell["located"]]
    assert sorted((p["first_offset"], p["last_offset"]) for p in places) == [(12, 13), (40, 40)]
    assert all(place["cluster"] == "aggregate" for place in places)
    others = set(world.states(EDGE).values()) - {State.LOSS}
    assert others == {State.COMPLETE}

    with world.store.read() as connection:
        plan = make_repair_plan(connection, derive_edges(world.deployment), world.now, edge=EDGE)
    assert sum(item.count for item in plan.items) == 3

    for first, last in ((12, 13), (40, 40)):
        lake.report(lake.load_again(world.now, 0, first, last), world.now)
    heartbeats(world, one)
    assert set(world.states(EDGE).values()) == {State.COMPLETE}


def test_rows_twice_and_rows_in_quarantine(world: World) -> None:
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=1000)
    loaded(world, lake, twice={3, 4})
    steady(world, one, ms=1000)
    loaded(world, lake, quarantine={25, 26, 27})
    heartbeats(world, one)
    (again,) = [cell for cell in cells_of(world, State.DUPLICATION) if cell["duplicates"]]
    assert again["duplicates"] == 2
    assert again["repeated"] == [[3, 4]]
    explained = [cell for cell in cells_of(world, State.EXPLAINED) if cell["explained"]]
    assert sum(cell["claimed"] - cell["observed"] for cell in explained) == 3
    assert "quarantined" in str(explained)


def test_a_commit_that_two_loads_made_is_a_duplication(world: World) -> None:
    """Counts alone would be fine with it if as many rows were lost elsewhere."""
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=1000)
    loaded(world, lake)
    lake.report(lake.load_again(world.now, 0, 5, 9), world.now)
    heartbeats(world, one)
    assert sum(cell["duplicates"] for cell in cells_of(world, State.DUPLICATION)) == 5


def test_a_load_that_is_overdue_is_unknown(world: World) -> None:
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=1000)
    loaded(world, lake)
    one.publish(world.now, 10)
    world.mirror("dc1")
    heartbeats(world, one)
    newest = max(world.states(EDGE))
    assert world.states(EDGE)[newest] == State.SETTLING
    world.now += OVERDUE
    heartbeats(world, one)
    assert world.states(EDGE)[newest] == State.UNKNOWN
    assert "overdue" in str(world.verdicts(EDGE)[newest]["reasons"])
    loaded(world, lake)
    heartbeats(world, one)
    assert world.states(EDGE)[newest] == State.COMPLETE


def test_a_report_that_was_never_sent_makes_no_loss(world: World) -> None:
    """A driver died between commit and report, and the next load reported its own commit first: the
    rows of the first one are not lost, they are not known. Sent later, the report closes the hole,
    and whoever sends any of them again changes nothing."""
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=1000)
    loaded(world, lake)
    steady(world, one, ms=1000)
    died = lake.load(world.now)
    steady(world, one, ms=1000)
    last = lake.load(world.now)
    lake.reported = died.version  # as the next load would have it
    lake.report(last, world.now)
    heartbeats(world, one, ms=8000)
    assert State.LOSS not in world.states(EDGE).values()
    assert State.SETTLING in world.states(EDGE).values()
    for commit, before in ((died, 3), (last, died.version), (died, 3)):
        lake.reported = before
        lake.report(commit, world.now)
    heartbeats(world, one)
    assert set(world.states(EDGE).values()) == {State.COMPLETE}
    assert not cells_of(world, State.DUPLICATION)


def test_windows_that_wait_for_a_load_are_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day of windows of every topic waits for a nightly load. Each was judged every second."""
    judged: list[int] = []

    def counted(connection: Any, hop: Any, topic: str, windows: Any, *rest: Any) -> Any:
        if hop.edge.name == EDGE:
            judged.extend(windows)
        return judge_windows(connection, hop, topic, windows, *rest)

    monkeypatch.setattr(hop_loop, "judge_windows", counted)
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=4000)
    heartbeats(world, one)
    judged.clear()
    for _ in range(30):
        one.report(world.now)
        world.run(1000)
    assert not judged
    # Lost as a whole: nothing of the last window came, and so nothing of it changed.
    loaded(world, lake, lose=set(range(60, 80)))
    heartbeats(world, one)
    assert sum(row["missing"] for row in world.verdicts(EDGE).values()) == 20
    world.judge("aggregate")  # a collector that starts looks at them once
    judged.clear()
    heartbeats(world, one, ms=10_000)
    assert len(judged) <= 10


def test_a_table_that_was_made_anew_begins_anew(world: World) -> None:
    """The table was deleted and is loaded from the start: no row is there twice."""
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=2000)
    loaded(world, lake)
    heartbeats(world, one)
    again = lake_of(world, table_id="table-2", created_at=2)
    one.publish(world.now, 5)
    world.mirror("dc1")
    loaded(world, again)
    heartbeats(world, one)
    assert set(world.states(EDGE).values()) == {State.COMPLETE}


def test_a_topic_that_was_made_anew_is_loaded_from_its_beginning(world: World) -> None:
    """Its first records have offsets that the table had passed in the log before."""
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=2000)
    loaded(world, lake)
    heartbeats(world, one)
    cluster = world.clusters["aggregate"]
    del cluster.logs["t", 0], cluster.ids["t"]
    cluster.log("t")
    one.publish(world.now, 5)
    world.mirror("dc1")
    heartbeats(world, one, ms=2000)
    newest = max(world.states(EDGE))
    assert world.states(EDGE)[newest] == State.SETTLING
    lake.through = {0: 0}
    loaded(world, lake)
    heartbeats(world, one)
    assert world.states(EDGE)[newest] == State.COMPLETE


def test_records_without_a_stamp_are_counted(world: World) -> None:
    lake = lake_of(world)
    log = world.clusters["aggregate"].log("t")
    log.append([Told(None, world.now, b"x") for _ in range(10)])
    loaded(world, lake, lose={1}, quarantine={4, 5})
    heartbeats(world)
    (cell,) = [cell for row in world.verdicts(EDGE).values() for cell in row["cells"]]
    assert (cell["claimed"], cell["observed"], cell["missing_count"]) == (10, 7, 1)
    assert cell["state"] == State.LOSS


def test_the_evidence_has_what_each_commit_brought(world: World) -> None:
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=1000)
    loaded(world, lake, most=7)
    loaded(world, lake)
    heartbeats(world, one)
    with world.store.read() as connection:
        found = window_evidence.evidence(connection, EDGE, "t", min(world.states(EDGE)))
    assert sorted(row["part"] for row in found.downstream) == [3, 4]
    assert {row["reporter"] for row in found.downstream} == {lake.who.reporter}
    assert lake.who.reporter in {row["reporter"] for row in found.reporters}


def test_a_retired_table_is_waited_for_no_more(world: World) -> None:
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=1000)
    loaded(world, lake)
    one.publish(world.now, 10)
    world.mirror("dc1")
    heartbeats(world, one)
    with world.store.write() as connection:
        claims.retire(connection, lake.who.reporter, world.now)
    heartbeats(world, one)
    assert sum(row["missing"] for row in world.verdicts(EDGE).values()) == 10


def test_nothing_of_the_lake_is_on_the_data_topics(world: World) -> None:
    """The hop is made of reports on the cluster's own audit topic."""
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=1000)
    before = world.clusters["aggregate"].log(AUDIT_TOPIC).end
    loaded(world, lake)
    assert world.clusters["aggregate"].log(AUDIT_TOPIC).end == before + 1


def test_a_scheduler_waits_for_the_lake(world: World, tmp_path: Path) -> None:
    """``tallymark audit wait`` gates on the hop as on any other."""
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one)
    heartbeats(world, one)
    place = ["--settings", str(tmp_path / "tallymark.toml"), "--edge", EDGE, "--topic", "t"]
    gate = ["wait", *place, "--through", "13000", "--timeout", "1s"]
    assert CliRunner().invoke(command, gate).exit_code == 4
    loaded(world, lake)
    heartbeats(world, one)
    assert CliRunner().invoke(command, gate).exit_code == 0


def test_repair_names_the_offsets_that_are_to_be_loaded_again(world: World) -> None:
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=1000)
    loaded(world, lake, lose={3, 4})
    heartbeats(world, one)
    with world.store.read() as connection:
        plan = make_repair_plan(connection, derive_edges(world.deployment), world.now, edge=EDGE)
    assert plan.count == 2
    (again,) = reloads_of(plan.items)
    assert (again.cluster, again.topic, str(again.offsets[0])) == ("aggregate", "t", "3-4")


def test_a_new_lake_leaves_old_windows_packed(tmp_path: Path) -> None:
    """A lake was added to a deployment that had run for weeks. Its first load brought all that the
    logs held and reported on every window: all of them were unpacked, and none was judged."""
    with world_in(tmp_path) as before:
        one = publisher(before, "dc1", b"a")
        steady(before, one, ms=2000)
        heartbeats(before, one)
        now, clusters, copied = before.now, before.clusters, before.copied
    with world_in(tmp_path, lake=LakeSettings(overdue_ms=OVERDUE)) as world:
        world.now = now
        for name, cluster in clusters.items():
            world.clusters[name] = cluster
            world.start(name)
            world.judge(name)
        world.copied = copied
        one.cluster = world.clusters["dc1"]
        heartbeats(world, one, ms=2000)
        old = set(world.states("dc1-to-aggregate"))
        steady(world, one, ms=2000)
        loaded(world, lake_of(world))
        heartbeats(world, one)
        assert set(world.states(EDGE).values()) == {State.COMPLETE}
        assert not old & set(world.states(EDGE))
        with world.store.read() as connection:
            kept = connection.scalars(
                select(tables.claims.c.window).where(tables.claims.c.tier == "lake")
            )
            assert set(kept) == set(world.states(EDGE))


def test_a_load_of_a_day_is_not_too_many_reports(world: World) -> None:
    """Reports have budgets, and a report that exceeds them is left out until the next one makes up
    for it. A load reports each commit once: a night's windows, all long ago, were left out, and
    waited for their load for ever."""
    one, lake = publisher(world, "dc1", b"a"), lake_of(world)
    steady(world, one, ms=6000)
    world.now += 3_600_000
    world.collectors["aggregate"].ledger.opener.budget = Budget(1, W)
    for _ in range(120):
        loaded(world, lake, most=1)
    heartbeats(world, one)
    assert lake.through[0] == 120
    assert set(world.states(EDGE).values()) == {State.COMPLETE}
    with world.store.read() as connection:
        assert "too-many-reports" not in {i["kind"] for i in queries.all_incidents(connection)}


def test_where_there_is_no_lake_its_reports_are_left_out(tmp_path: Path) -> None:
    """Else whoever may write to the audit topic could fill the store of any deployment."""
    with world_in(tmp_path) as world:
        one = publisher(world, "dc1", b"a")
        steady(world, one, ms=1000)
        loaded(world, lake_of(world))
        heartbeats(world, one)
        with world.store.read() as connection:
            assert not [r for r in queries.all_reporters(connection) if r["kind"] == "lake"]
