"""A producer whose clock is ahead, from its records to the overview."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from judged_world import W, World, heartbeats, publisher, world_in

from tallymark_audit.collector import corrections, fetching
from tallymark_audit.collector.recounting.recount import count_again
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.time_format import duration
from tallymark_audit.store.reading import queries
from tallymark_audit.testing import MemoryCluster

HOURS = 2 * 3_600_000
EDGE = "producer-to-dc1"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as made:
        yield made


def test_its_windows_are_judged_at_once_and_the_overview_says_whose_clock_it_is(
    world: World,
) -> None:
    """The windows of a host whose clock is two hours ahead were OPEN for two hours; a loss in them
    was an alarm two hours late, and the overview showed nothing but the future."""
    fast, right = publisher(world, "dc1", b"f"), publisher(world, "dc1", b"r")
    future = world.now - world.now % W + HOURS
    fast.publish(future, 10, lose=2)
    fast.publish(future + W, 10)
    fast.report(future + 2 * W)
    right.publish(world.now, 5)
    heartbeats(world, right, ms=4000)
    states = world.states(EDGE)
    assert states[future] == State.LOSS
    assert states[future + W] == State.COMPLETE
    with world.store.read() as connection:
        topic = {t.edge: t for t in queries.overview(connection, now=world.now)}[EDGE]
        later = {t.edge: t for t in queries.overview(connection, now=future + 3 * W)}[EDGE]
    assert topic.skewed.startswith("skewed: the clock of web is ahead by 2 h;")
    assert "skewed" in asdict(topic)
    assert later.skewed == "", "the future has become the past"
    reasons = world.verdicts(EDGE)[future]["reasons"]
    assert reasons[0].startswith("skewed: the clock of web is ahead by")


def test_a_fetch_that_waits_makes_no_clock_ahead(world: World, monkeypatch: Any) -> None:
    """Seed 4 of a drill with three brokers: its leader stood still, so a fetch took longer than the
    settle time. What came meanwhile was stored as of before the fetch, so all clocks seemed to be
    ahead: the window that had just begun was judged at once, and its messages, which their
    producers had not reported yet, were UNCLAIMED."""
    right = publisher(world, "dc1", b"r")
    right.publish(world.now, 5)
    heartbeats(world, right, ms=1000)
    answer, waits = MemoryCluster.multifetch, iter((4_000,))

    def waiting(self: MemoryCluster, *args: Any, **kwargs: Any) -> Any:
        for ms in waits:
            world.now += ms
            right.publish(world.now, 5)
        return answer(self, *args, **kwargs)

    monkeypatch.setattr(MemoryCluster, "multifetch", waiting)
    world.collectors["dc1"].step()
    world.judges["dc1"].step(world.now)
    began = world.now - world.now % W
    verdict = world.verdicts(EDGE)[began]
    assert (verdict["state"], verdict["reasons"]) == (State.OPEN, ["the window has not ended"])
    heartbeats(world, right, ms=3000)
    assert world.states(EDGE)[began] == State.COMPLETE


def test_a_log_that_is_counted_again_slowly_makes_no_clock_ahead(
    world: World, monkeypatch: Any
) -> None:
    """As the one above: the log was cut, and reading it again took longer than the settle time."""
    right = publisher(world, "dc1", b"r")
    right.publish(world.now, 5)
    heartbeats(world, right, ms=1000)
    changed: list[int] = []

    def slowly(*args: Any) -> Any:
        world.now += 4_000
        return count_again(*args)

    monkeypatch.setattr(fetching, "count_again", slowly)
    monkeypatch.setattr(corrections, "cut", lambda *args: changed.append(args[5]))
    world.clusters["dc1"].log("t").cut(0)
    world.collectors["dc1"].step()
    assert changed == [world.now]


def test_a_reporter_whose_clock_is_ahead_is_not_alive_until_then(world: World) -> None:
    """It would have been waited for, two hours after its death."""
    fast = publisher(world, "dc1", b"f")
    fast.publish(world.now, 5)
    fast.report(world.now + HOURS)
    world.run(500)
    with world.store.read() as connection:
        (reporter,) = queries.all_reporters(connection)
    assert reporter["last_heard"] <= world.now


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 s"),
        (999, "0 s"),
        (41_999, "41 s"),
        (245_000, "4 min 5 s"),
        (240_000, "4 min"),
        (7_999_000, "2 h 13 min"),
        (90_061_000, "1 d 1 h"),
        (86_400_000, "1 d"),
    ],
)
def test_durations_are_short(ms: int, text: str) -> None:
    assert duration(ms) == text
