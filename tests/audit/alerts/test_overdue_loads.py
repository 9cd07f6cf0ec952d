"""A load into the lake that does not come, told by what waits for it and not by its silence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from judged_world import AUDIT, W, World, heartbeats, publisher, steady, world_in
from memory_lake import MemoryLake

from tallymark.deployment import LakeSettings
from tallymark_audit.alerts.facts import backlogs, judged_edges, read_facts
from tallymark_audit.alerts.overdue_loads import LOAD
from tallymark_audit.alerts.rules import MIRROR, REPORTER, RETENTION, STALLED, Rules

OVERDUE = 2_000_000
RULES = Rules(AUDIT.alerts, W, AUDIT.silence_ms, "")
EDGE = "aggregate-to-lake"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path, lake=LakeSettings(overdue_ms=OVERDUE)) as made:
        yield made


def conditions(world: World, kept_ms: int | None = None) -> set[tuple[str, str]]:
    """Rule and edge of what holds."""
    with world.store.read() as connection:
        edges = judged_edges(connection, world.deployment, "aggregate")
        facts = replace(
            read_facts(connection, world.deployment, "aggregate", edges, world.now),
            backlogs=backlogs(connection, "aggregate", edges),
            retention_ms={("aggregate", "t"): kept_ms} if kept_ms else {},
        )
    found = RULES.judge(facts, world.now)
    return {(c.labels["alertname"], c.labels.get("edge", "")) for c in found}


def test_between_two_loads_there_is_no_alarm(world: World) -> None:
    one = publisher(world, "dc1", b"a")
    lake = MemoryLake(world.clusters["aggregate"], W)
    steady(world, one, ms=2000)
    lake.report(lake.load(world.now), world.now)
    steady(world, one, ms=1000)
    world.now += OVERDUE - 20_000
    heartbeats(world, one)
    of_lake = {found for found in conditions(world) if found[1] == EDGE}
    assert not of_lake
    assert not {rule for rule, _ in conditions(world)} & {LOAD, MIRROR}
    world.now += 30_000
    heartbeats(world, one)
    assert (LOAD, EDGE) in conditions(world)
    lake.report(lake.load(world.now), world.now)
    heartbeats(world, one)
    assert (LOAD, EDGE) not in conditions(world)
    world.now += 2 * OVERDUE  # nothing is published any more, and so nothing waits
    heartbeats(world, one)
    found = conditions(world)
    assert not {(LOAD, EDGE), (STALLED, EDGE)} & found
    assert REPORTER not in {rule for rule, edge in found if edge == EDGE}


def test_a_topic_that_was_never_loaded_is_overdue_too(world: World) -> None:
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=2000)
    assert (LOAD, EDGE) not in conditions(world)
    world.now += OVERDUE
    heartbeats(world, one)
    assert (LOAD, EDGE) in conditions(world)


def test_retention_that_deletes_before_the_load_is_foretold(world: World) -> None:
    one = publisher(world, "dc1", b"a")
    lake = MemoryLake(world.clusters["aggregate"], W)
    steady(world, one, ms=2000)
    lake.report(lake.load(world.now, most=30), world.now)
    heartbeats(world, one)
    margin = AUDIT.alerts.retention_margin_ms
    assert (RETENTION, EDGE) in conditions(world, kept_ms=margin - 10_000)
    assert (RETENTION, EDGE) not in conditions(world, kept_ms=margin + 60_000)
    lake.report(lake.load(world.now), world.now)
    heartbeats(world, one)
    assert (RETENTION, EDGE) not in conditions(world, kept_ms=margin - 10_000)
