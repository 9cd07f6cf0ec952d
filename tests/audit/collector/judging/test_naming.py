"""When losses get their names, where nobody can be asked at first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from judged_world import World, heartbeats, publisher, steady, world_in

from tallymark.errors import ConnectError
from tallymark_audit.collector.judging.naming import Namer
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.testing import MemoryCluster

EDGE = "dc1-to-aggregate"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as made:
        yield made


class Away:
    """Cluster dc1, of which no broker answers until ``back`` (ms); how often it was asked."""

    def __init__(self, world: World, back: int) -> None:
        self.world, self.back, self.asked = world, back, 0
        edges = derive_edges(world.deployment)
        ledger = world.collectors["aggregate"].ledger
        world.namers["aggregate"] = Namer(ledger, edges, self, 1000)

    def __call__(self, cluster: str) -> MemoryCluster:
        self.asked += 1
        if self.world.now < self.back:
            raise ConnectError("127.0.0.1:9092", "connect", "refused")
        return self.world.clusters[cluster]


def lose(world: World) -> list[Row]:
    """Three records that the mirror leaves out; the cells that lack some, once they are judged."""
    one = publisher(world, "dc1", b"a")
    steady(world, one)
    one.publish(world.now, 3)
    world.copied["dc1", "t", 0] = len(world.clusters["dc1"].log("t", 0).batches)
    for _ in range(3):
        one.report(world.now)
        world.run(1000)
    heartbeats(world, one)
    return lost_cells(world)


def lost_cells(world: World) -> list[Row]:
    rows = world.verdicts(EDGE).values()
    return [cell for row in rows for cell in row["cells"] if cell["missing_count"]]


def test_losses_are_named_when_their_home_is_back(world: World) -> None:
    """A broker was killed and took nine seconds to start on a busy machine. The collector
    downstream had asked it five times by then, a second apart, and never again: the losses stayed
    without a place."""
    away = Away(world, back=world.now + 60_000)
    (cell,) = lose(world)
    assert cell["located"] == []
    while world.now < away.back:
        world.run(1000)
    assert 3 < away.asked < 12
    for _ in range(60):
        world.run(1000)
    (cell,) = lost_cells(world)
    assert [place["cluster"] for place in cell["located"]] == ["dc1"]


def test_a_cluster_that_never_comes_back_is_not_asked_for_ever(world: World) -> None:
    away = Away(world, back=1 << 60)
    lose(world)
    for _ in range(200):
        world.now += 60_000
        world.namers["aggregate"].step([], world.now)
    asked = away.asked
    assert asked < 40
    for _ in range(100):
        world.now += 60_000
        world.namers["aggregate"].step([], world.now)
    assert away.asked == asked
