"""Both sides of a window: rows of the hop alone, and of the same cells."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from judged_world import World, heartbeats, publisher, steady, world_in
from sqlalchemy import Connection, event, select

from tallymark_audit.model.cells import Edge
from tallymark_audit.store.housekeeping.packing import Changed, collapse
from tallymark_audit.store.reading.sides import both_sides
from tallymark_audit.store.reading.window_evidence import Evidence, evidence
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import observations, window_changes

W = 1000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as world:
        yield world


def evidence_of(world: World, edge: str, window: int) -> Evidence:
    with world.store.read() as connection:
        return evidence(connection, edge, "t", window)


def runs(rows: tuple[Row, ...]) -> set[str]:
    return {row["instance"][:2] for row in rows}


def test_rows_of_other_hops_are_left_out(world: World) -> None:
    """dc1 and dc2 are mirrored into the aggregate, and a producer publishes there. The evidence of
    one hop showed the records of all three downstream: as if as many had been copied too often."""
    here, there, local = (
        publisher(world, name, letter)
        for name, letter in (("dc1", b"\xa1"), ("dc2", b"\xb2"), ("aggregate", b"\xc3"))
    )
    steady(world, here, there, local)
    heartbeats(world, here, there, local)
    window = min(world.states("dc1-to-aggregate"))
    for edge, ours in (
        ("dc1-to-aggregate", "a1"),
        ("dc2-to-aggregate", "b2"),
        ("producer-to-aggregate", "c3"),
    ):
        found = evidence_of(world, edge, window)
        assert runs(found.upstream) == runs(found.downstream) == {ours}, edge
        assert found.other_hops == 2
        assert not found.left_out
    plain = evidence_of(world, "producer-to-dc1", window)
    assert (runs(plain.downstream), plain.other_hops) == ({"a1"}, 0)


def test_a_packed_side_counts_as_the_others(world: World) -> None:
    """The window of dc2 was healthy and packed: its records in the aggregate are still its."""
    here, there = publisher(world, "dc1", b"\xa1"), publisher(world, "dc2", b"\xb2")
    steady(world, here, there)
    heartbeats(world, here, there)
    window = min(world.states("dc1-to-aggregate"))
    before = [evidence_of(world, edge, window) for edge in world_edges]
    for cluster in ("dc2", "aggregate"):
        t = window_changes.c
        with world.store.write() as connection:
            query = select(t.changed_at, t.topic, t.window).where(t.cluster == cluster)
            some = [Changed(*row) for row in connection.execute(query) if row[2] == window]
            assert collapse(connection, cluster, some, world.now) == 1
    for edge, then in zip(world_edges, before, strict=True):
        now = evidence_of(world, edge, window)
        assert runs(now.downstream) == runs(then.downstream)
        assert (len(now.upstream), now.other_hops) == (len(then.upstream), then.other_hops)


world_edges = ("dc1-to-aggregate", "dc2-to-aggregate", "producer-to-aggregate")
MIRROR = Edge("dc1-to-aggregate", "dc1", "aggregate", "mirror")


def fill(world: World, cluster: str, cells: list[tuple[int, str]], window: int = 0) -> None:
    """Records of runs, by partition and instance, that a cluster counted."""
    columns = [column.name for column in observations.c]
    rows = [
        {
            "tier": "cluster", "cluster": cluster, "topic": "t", "window": window,
            "partition": partition, "server": "web" if run else "", "instance": run,
            "seen_topic": "t", "seen_partition": partition, "count": 4,
            "ranges": [0, 3] if run else [],
        }
        for partition, run in cells
    ]  # fmt: skip
    assert set(rows[0]) <= set(columns)
    with world.store.write() as connection:
        connection.execute(observations.insert(), rows)


def test_a_portion_has_the_same_cells_on_both_sides(world: World) -> None:
    """Of the first 100 rows of each side, one side had runs that the other had beyond its 100:
    they looked lost. And the bad ones are there first, however late they stand."""
    all_of_them = [(0, f"{n:016x}") for n in range(300)]
    fill(world, "dc1", all_of_them)
    fill(world, "aggregate", all_of_them[150:])
    bad = [(0, "web", f"{n:016x}") for n in (299, 7)]
    with world.store.read() as connection:
        found = both_sides(connection, MIRROR, [MIRROR], "t", 0, 20, bad)
    up = {row["instance"] for row in found.upstream.rows}
    down = {row["instance"] for row in found.downstream.rows}
    assert len(up) == 20
    assert down == up & {run for _, run in all_of_them[150:]}
    assert {one[2] for one in bad} <= up
    assert found.upstream.left_out == 280
    assert found.downstream.left_out == 150 - len(down)


def test_of_records_without_a_stamp_a_hop_has_its_share(world: World) -> None:
    """Both datacenters sent 4 records without a stamp; the aggregate holds 4 of the 8."""
    for cluster in ("dc1", "dc2", "aggregate"):
        fill(world, cluster, [(0, "")])
    other = Edge("dc2-to-aggregate", "dc2", "aggregate", "mirror")
    with world.store.read() as connection:
        found = both_sides(connection, MIRROR, [MIRROR, other], "t", 0, 20)
    assert found.downstream.rows[0]["share"] == 0
    assert found.upstream.rows[0]["count"] == 4


@contextmanager
def counted(connection: Connection) -> Iterator[list[str]]:
    """The statements that are executed meanwhile."""
    said: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
        said.append(statement)

    event.listen(connection, "before_cursor_execute", note)
    try:
        yield said
    finally:
        event.remove(connection, "before_cursor_execute", note)


def test_the_number_of_questions_does_not_depend_on_the_rows(world: World) -> None:
    numbers: list[int] = []
    other = Edge("dc2-to-aggregate", "dc2", "aggregate", "mirror")
    for window, runs_there in ((0, 2), (W, 2_000)):
        cells = [(0, f"{n:016x}") for n in range(runs_there)]
        for cluster in ("dc1", "aggregate"):
            fill(world, cluster, cells, window)
        with world.store.read() as connection, counted(connection) as said:
            found = both_sides(connection, MIRROR, [MIRROR, other], "t", window, 100)
        assert len(found.downstream.rows) == min(100, runs_there)
        numbers.append(len(said))
    assert numbers[0] == numbers[1] < 20
