"""What waits for somebody who may never come costs next to nothing, and is not forgotten."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forged_reports import event, tell
from judged_world import W, World, heartbeats, publisher, steady, world_in

from tallymark_audit.collector.judging import hop_loop
from tallymark_audit.collector.judging.hop_loop import WAITING_MS
from tallymark_audit.collector.judging.waiting import (
    EACH_MS,
    LONGEST_MS,
    Signs,
    Waiting,
    those_waited_for,
)
from tallymark_audit.events.events import CellReport, Copied
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.judge.windows import judge_windows
from tallymark_audit.model.edges import consumer_edge, derive_edges
from tallymark_audit.store.counted import claims


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as made:
        yield made


def test_the_wait_doubles_and_ends() -> None:
    waiting = Waiting()
    first, second = ("t", 0), ("t", 60_000)
    waits = [waiting.again_at(first, 1000, 5000, crowd=2) - 1000 for _ in range(40)]
    assert waits[:4] == [5000, 10_000, 20_000, 40_000]
    assert set(waits[4:]) == {LONGEST_MS}
    assert waiting.again_at(second, 1000, 5000, crowd=2) == 6000
    waiting.ended(first)
    assert waiting.again_at(first, 1000, 5000, crowd=2) == 6000
    assert waiting.again_at(second, 1000, 5000, crowd=2) == 11_000
    waiting.all_ended()
    assert waiting.again_at(second, 1000, 5000, crowd=2) == 6000


def test_a_crowd_is_judged_again_at_so_many_a_second() -> None:
    waiting = Waiting()
    assert waiting.again_at(("t", 0), 0, 10_000, crowd=20_000) == 20_000 * EACH_MS


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """By edge, the windows that were judged."""
    found: dict[str, list[int]] = defaultdict(list)

    def noted(connection: Any, hop: Any, topic: str, windows: Any, *rest: Any) -> Any:
        found[hop.edge.name].extend(windows)
        return judge_windows(connection, hop, topic, windows, *rest)

    monkeypatch.setattr(hop_loop, "judge_windows", noted)
    return found


def test_windows_of_a_lost_host_are_not_judged_again_and_again(
    world: World, judged: dict[str, list[int]]
) -> None:
    """A host was lost with its producer: its windows are UNKNOWN until somebody retires it. For
    days the collector judged each of them every few seconds, which took half a core; and it still
    has to see at once that the producer was retired."""
    lost = publisher(world, "dc1", b"a")
    steady(world, lost, ms=3000)
    lost.publish(world.now, 10)
    world.mirror("dc1")
    world.run(20_000)
    waiting = [w for w, state in world.states("producer-to-dc1").items() if state == State.UNKNOWN]
    assert waiting
    judged.clear()
    world.run(120_000)
    assert len(judged["producer-to-dc1"]) <= 4 * len(waiting), (
        "120 seconds, of which each window waits 60 by then"
    )
    with world.store.write() as connection:
        claims.retire(connection, lost.tally.identity.reporter, world.now)
    world.run(3000)
    assert State.UNKNOWN not in world.states("producer-to-dc1").values()


def test_windows_that_lack_records_wait_as_the_others_do(
    world: World, judged: dict[str, list[int]]
) -> None:
    """A stranger reported for groups that there are not, and fell silent: windows lack what these
    groups have not processed, and are UNKNOWN for as long as they are silent. Each such window, of
    each group, was judged again every second, for ever: 34 windows a second, four times the work of
    the collector before the attack, and the watermarks of a topic that the stranger had nothing to
    do with were 10 s behind in place of 3."""
    honest = publisher(world, "dc1", b"a")
    steady(world, honest, ms=1000)
    tell_of_group(world, "g")
    steady(world, honest, ms=3000)
    heartbeats(world, honest, ms=16_000)
    edge = "dc1-to-group:g"
    waiting = [w for w, state in world.states(edge).items() if state == State.UNKNOWN]
    assert len(waiting) >= 3
    assert all(world.verdicts(edge)[window]["missing"] for window in waiting)
    judged.clear()
    heartbeats(world, honest, ms=25_000)
    assert len(judged[edge]) <= 2 * len(waiting), (
        "25 seconds, of which each window waits 20 by then"
    )


def tell_of_group(world: World, name: str) -> None:
    """A run of a group that somebody makes up reports, once."""
    run = name.encode() * 8
    group = {"kind": "consumer", "tier": "consumer", "consumer_group": name}
    cells = (CellReport("t", 0, world.now - world.now % W, count=1),)
    tell(world, event(world, run, reporter=f"consumer-{run.hex()}", cells=cells, **group))


def test_a_reporter_ends_the_waits_of_its_own_edges_alone(world: World) -> None:
    """A stranger's reporters fell silent one after the other, and at each the windows of all
    groups were judged again, whatever they waited for."""

    def signs() -> dict[str, Signs]:
        edges = (*derive_edges(world.deployment), consumer_edge("dc1", "g", "t"))
        edges = (*edges, consumer_edge("dc1", "h", "t"))
        with world.store.read() as connection:
            return {
                edge.name: those_waited_for(connection, edge, ["dc1", "aggregate"], world.now, 3000)
                for edge in edges
            }

    tell_of_group(world, "g")
    world.run(1000)
    before = signs()
    tell_of_group(world, "h")
    world.run(1000)
    heard = signs()
    assert {name for name in heard if heard[name] != before[name]} == {"dc1-to-group:h"}
    tell(world, event(world, b"p" * 8))
    world.mirror_reports("dc1", copied=[all_of(world)])
    world.run(1000)
    changed = {name for name, found in signs().items() if found != heard[name]}
    assert changed >= {"producer-to-dc1", "dc1-to-aggregate"}
    assert "dc1-to-group:h" not in changed


def test_groups_that_share_their_time_share_their_crowd(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger made up 25 groups. Of each no more than five windows in two seconds were judged
    again, and of all of them sixty, which was all the time that groups have."""
    honest = publisher(world, "dc1", b"a")
    for name in "gh":
        tell_of_group(world, name)
    steady(world, honest, ms=3000)
    heartbeats(world, honest, ms=5000)
    hops = {
        hop.hop.edge.name: hop
        for hop in world.judges["dc1"]._hops.values()
        if hop.hop.edge.kind == "consumer"
    }
    waiting = {name: hop.waiting for name, hop in hops.items()}
    assert len(waiting) == 2
    assert min(waiting.values()) > 0
    told: dict[str, int] = {}

    def step(hop: hop_loop.HopLoop, *given: Any) -> list[Verdict]:
        told[hop.hop.edge.name] = given[3]
        return []

    monkeypatch.setattr(hop_loop.HopLoop, "step", step)
    world.judges["dc1"].step(world.now)
    assert told["producer-to-dc1"] == 0
    g, h = hops
    assert (told[g], told[h]) == (waiting[h], waiting[g])
    hop = hops[g]
    hop._due, hop._beside = {}, 1_000
    hop._schedule(Verdict(g, "t", 0, State.UNKNOWN), world.now)
    assert hop._due["t", 0] - world.now == 1_000 * EACH_MS


def test_what_a_mirror_that_was_silent_has_lost_is_seen_when_it_comes_back(world: World) -> None:
    """Windows that lack what a silent mirror has not copied wait longer and longer. It comes back,
    and says that it is past these records: they are lost, and it is seen now."""
    honest = publisher(world, "dc1", b"a")
    edge = "dc1-to-aggregate"
    steady(world, honest, ms=2000)
    world.mirror_reports("dc1", copied=[all_of(world)])
    honest.publish(world.now, 10)
    heartbeats(world, honest, ms=20_000)
    assert State.UNKNOWN in world.states(edge).values()
    world.mirror_reports("dc1", copied=[all_of(world)])
    heartbeats(world, honest, ms=3000)
    assert State.UNKNOWN not in world.states(edge).values()
    assert State.LOSS in world.states(edge).values()


def all_of(world: World) -> Copied:
    """A mirror's report that it is past all there is in dc1."""
    return Copied("t", 0, "t", "", world.clusters["dc1"].log("t").end, 10)


def test_a_silent_producer_that_is_heard_again_is_seen_at_once(world: World) -> None:
    """Its network was away for longer than it may be silent. It is back, and reports what it had
    kept: that changes the reporter, and not the windows that waited for it."""
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=3000)
    one.publish(world.now, 10)
    world.mirror("dc1")
    world.run(60_000)
    assert State.UNKNOWN in world.states("producer-to-dc1").values()
    heartbeats(world, one, ms=4000)
    assert set(world.states("producer-to-dc1").values()) == {State.COMPLETE}


def test_windows_of_a_crowded_topic_do_not_make_others_wait(world: World) -> None:
    """Somebody stamped records of two thousand windows into a topic. The more windows wait the
    longer each is left alone, those of other topics too: their watermarks came six seconds late."""
    loop = world.judges["dc1"]
    world.run(1000)
    (hop,) = (one for one in loop._hops.values() if one.hop.edge.name == "producer-to-dc1")
    hop._due = {("crowded", n * W): world.now + 10**6 for n in range(2_000)}
    hop._due |= {("other", 0): world.now + 10**6}
    hop._many = Counter(topic for topic, _ in hop._due)
    assert hop._patience("other") < WAITING_MS + 10
    assert hop._patience("crowded") >= WAITING_MS + 2 * 2_000
    hop._due = {(f"t{n}", 0): world.now for n in range(2_000)}
    hop._many = Counter(topic for topic, _ in hop._due)
    assert hop._patience("t7") >= WAITING_MS + 2 * 2_000


def test_a_crowd_of_young_windows_is_judged_when_it_is_old_enough(world: World) -> None:
    """Somebody stamped records of two thousand windows, and so late that windows of the topic took
    minutes to settle. Each was judged again every half minute meanwhile, which was known to be in
    vain: long after it was over the collector took half as much processor again as before."""
    world.run(1000)
    (hop,) = (
        one for one in world.judges["dc1"]._hops.values() if one.hop.edge.name == "producer-to-dc1"
    )
    now, name = world.now, hop.hop.edge.name

    def again_in(topic: str, young_for: int) -> int:
        settles = Verdict(name, topic, now - W, State.SETTLING, young_until=now + young_for)
        hop._schedule(settles, now)
        return hop._due[topic, now - W] - now

    hop._due = {("crowded", n * W): now + 10**6 for n in range(2_000)}
    hop._many = Counter(topic for topic, _ in hop._due)
    assert again_in("crowded", 300_000) == 300_000
    assert 30_000 <= again_in("crowded", 10_000) <= 31_000, "it has lots of others beside it"
    assert again_in("crowded", 10**9) == pytest.approx(2_000 * EACH_MS, rel=0.01), "not for ever"
    hop._due, hop._many = {}, Counter({"alone": 1})
    assert again_in("alone", 300_000) <= WAITING_MS + 10, "records may come sooner than was thought"
