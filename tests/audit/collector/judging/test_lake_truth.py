"""Loads with real faults, and drivers that die before they report: the verdicts against the truth.

What each commit lost, brought twice or put aside is drawn, and kept from the audit. At no time is a
row called lost that a commit did not lose; when every report has come, the verdicts say the truth.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from judged_world import W, World, heartbeats, publisher, world_in
from memory_lake import MemoryLake

from tallymark.deployment import LakeSettings
from tallymark_audit.judge.states import State
from tallymark_audit.reporters.lake import LakeCommit

EDGE = "aggregate-to-lake"
Truth = dict[str, set[int]]
"""By fault, the offsets in the one partition of the aggregate that it hit."""


def by_window(world: World, offsets: set[int]) -> Counter[int]:
    records = [r for b in world.clusters["aggregate"].log("t").batches for r in b.records()]
    return Counter(r.timestamp - r.timestamp % W for r in records if r.offset in offsets)


def said(world: World, column: str) -> Counter[int]:
    return Counter({at: row[column] for at, row in world.verdicts(EDGE).items() if row[column]})


def load_some(world: World, lake: MemoryLake, chance: Random, truth: Truth) -> LakeCommit:
    """A commit of what is new, perhaps not of all, with faults."""
    start = lake.through.get(0, 0)
    end = world.clusters["aggregate"].log("t").end
    most = chance.choice((1 << 30, max(1, (end - start) // 2)))
    fresh = list(range(start, min(end, start + most)))
    chance.shuffle(fresh)
    hit: dict[str, set[int]] = {}
    for name in ("lose", "twice", "quarantine"):
        many = chance.choice((0, 0, 1, 3)) if fresh else 0
        hit[name] = {fresh.pop() for _ in range(min(many, len(fresh)))}
        truth[name] |= hit[name]
    return lake.load(world.now, most=most, **hit)


@pytest.mark.soak_cases("2", "3", "4", "5", "6", "7")
@pytest.mark.parametrize("seed", range(8))
def test_the_verdicts_are_the_truth(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    truth: Truth = {"lose": set(), "twice": set(), "quarantine": set()}
    with world_in(tmp_path, lake=LakeSettings()) as world:
        one, two = publisher(world, "dc1", b"a"), publisher(world, "dc2", b"b")
        lake = MemoryLake(world.clusters["aggregate"], W)
        commits: list[tuple[LakeCommit, int]] = []
        for _ in range(7):
            for each in (one, two):
                each.publish(world.now - chance.choice((0, 0, 700)), chance.randrange(1, 12))
                each.report(world.now)
            world.mirror("dc1")
            world.mirror("dc2")
            if chance.random() < 0.7:
                before = commits[-1][0].version if commits else -1
                commits.append((load_some(world, lake, chance, truth), before))
                if chance.random() < 0.6:  # else its driver dies, and another one reports later
                    lake.reported = before
                    lake.report(commits[-1][0], world.now)
            world.run(1000)
            lost = sum(by_window(world, truth["lose"]).values())
            rows = world.verdicts(EDGE).values()
            assert sum(r["missing"] for r in rows if r["state"] == State.LOSS) <= lost
        before = commits[-1][0].version if commits else -1
        commits.append((lake.load(world.now), before))
        for commit, before in commits:
            lake.reported = before
            lake.report(commit, world.now)
        heartbeats(world, one, two, ms=5000)
        assert said(world, "missing") == by_window(world, truth["lose"])
        assert said(world, "duplicates") == by_window(world, truth["twice"])
        assert said(world, "explained") == by_window(world, truth["quarantine"])
        good = {State.COMPLETE, State.EXPLAINED}
        wrong = by_window(world, truth["lose"] | truth["twice"])
        states = world.states(EDGE)
        assert {at for at, state in states.items() if state not in good} == set(wrong)
        assert State.SETTLING not in states.values()
