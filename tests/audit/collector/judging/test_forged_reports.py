"""Monitoring events that somebody makes up: what they say is bounded in numbers, rows and time, and
who reports truly does not notice.

Brokers are in memory; collectors, judges and the store are real.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forged_reports import count_of, event, tell
from judged_world import W, World, heartbeats, publisher, steady, world_in
from sqlalchemy import event as sql_event
from sqlalchemy import select

from tallymark.client.producing.stamps import Stamp
from tallymark_audit.collector.judging import hop_loop, judge_loop
from tallymark_audit.collector.limits.openings import Budget
from tallymark_audit.events.event_codec import MAX_BYTES, decode_event, encode_event
from tallymark_audit.events.events import AuditEvent, CellReport, Copied, Gap
from tallymark_audit.judge.unnamed import weigh
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.cells import Block, CellKey, Summary
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.hashing import fingerprint
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import UNHASHED, Claim, Observation
from tallymark_audit.store.counted import openings
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.tables import claims, observations, reporter_topics, reporters
from tallymark_audit.testing import Told

LARGEST = 2**63 - 1
FIVE = RangeSet.single(0, 4)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as made:
        yield made


def kinds(world: World) -> set[str]:
    with world.store.read() as connection:
        return {row["kind"] for row in queries.all_incidents(connection)}


def now_of(world: World) -> int:
    """The window of now."""
    return world.now - world.now % W


ABSURD: dict[str, dict[str, Any]] = {
    "gap": {"gaps": (Gap("t", 0, 0, LARGEST, "aborted"),)},
    "gap before": {"gaps": (Gap("t", 0, -5, 3, "aborted"),)},
    "gap in": {"gaps": (Gap("t", -1, 0, 3, "aborted"),)},
    "copied": {"copied": (Copied("t", 0, "t", "", LARGEST, 0),)},
    "copied records": {"copied": (Copied("t", 0, "t", "", 0, LARGEST),)},
    "number": {"event_number": LARGEST},
}
CELLS: dict[str, dict[str, Any]] = {
    "count": {"count": LARGEST},
    "bytes": {"bytes": LARGEST},
    "duplicates": {"duplicates": LARGEST},
    "less than none": {"duplicates": -1},
    "unstamped": {"unstamped": LARGEST},
    "summary": {"summary": Summary(LARGEST, LARGEST, 0, 0, 1)},
    "blocks": {"blocks": (Block(0, LARGEST, 1),)},
    "latency": {"latency": (1, LARGEST, 2, LARGEST)},
    "part": {"part": -1},
    "revision": {"revision": -1},
    "window": {"window_start": -2 * W},
    "partition": {"partition": LARGEST},
}


def forge(world: World, name: str) -> None:
    """Report one of these numbers."""
    if name in ABSURD:
        kind = {} if name == "number" else {"kind": "mirror", "tier": "mirror", "reporter": "x"}
        tell(world, event(world, b"b" * 8, **{**kind, **ABSURD[name]}))
        return
    cell = replace(CellReport("t", 0, now_of(world), accepted=FIVE, count=5), **CELLS[name])
    tell(world, *(event(world, b"b%07d" % n, closed=True, cells=(cell,)) for n in range(3)))


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([*ABSURD, *CELLS], id="all"),
        *(pytest.param([name], id=name, marks=pytest.mark.soak) for name in (*ABSURD, *CELLS)),
    ],
)
def test_numbers_that_cannot_be_are_refused(world: World, names: list[str]) -> None:
    """One event of a hundred bytes told of a gap up to the greatest offset there is: one more does
    not fit the store, so the audit topic was read no further, for ever. One told of so many
    records: the edge was judged no more, of no topic."""
    honest = publisher(world, "dc1", b"a")
    steady(world, honest, ms=2000)
    for name in names:
        forge(world, name)
    steady(world, honest, ms=2000)
    heartbeats(world, honest, ms=8000)
    assert kinds(world) == {"bad-event"}
    assert count_of(world, reporters) == 1
    assert set(world.states("producer-to-dc1").values()) == {State.COMPLETE}
    (place,) = [p for p in world.collectors["dc1"].ledger.positions if p[0] == AUDIT_TOPIC]
    position = world.collectors["dc1"].ledger.positions[place]
    assert position.next_offset == position.high_watermark


@pytest.mark.slow
def test_an_event_is_bounded_before_it_is_decoded() -> None:
    """Of 64 MB of zeros, which are 2 kB in a compressed batch, decoding made 3.4 GB."""
    cell = CellReport("t", 0, 0, accepted=FIVE)
    made = AuditEvent(
        kind="producer", reporter="p", server="", application="", instance="", event_number=0,
        covers_from=0, emitted_at=0, window_ms=W, complete_through=0, cells=(cell,) * 75_000,
    )  # fmt: skip
    value = encode_event(made)
    assert len(value) > MAX_BYTES
    tracemalloc.start()
    with pytest.raises(Exception, match="at most"):
        decode_event(value)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_a_name_beside_a_known_instance_is_another_run(world: World) -> None:
    """Whoever reads a topic sees instances in its stamps. With one of them, which had reported,
    stamps and claims of any number of servers' names cost nothing: 30,000 rows of the store."""
    for collector in world.collectors.values():
        collector.ledger.opener.budget = Budget(5, W)
    honest = publisher(world, "dc1", b"a")
    steady(world, honest, ms=1000)
    known = honest.instance
    stamps = [Stamp(known, 0, 1000 + n, f"h{n}") for n in range(500)]
    world.clusters["dc1"].log("t").append([Told(stamp, world.now) for stamp in stamps])
    cells = tuple(
        CellReport("t", 0, now_of(world), server=f"h{n}", instance=known.hex(), count=1)
        for n in range(500)
    )
    tell(world, event(world, b"b" * 8, cells=cells))
    world.run(2000)
    assert count_of(world, observations) < 20
    assert count_of(world, claims) < 20


def test_incarnations_of_a_cell_cost(world: World) -> None:
    """Each part of a cell is a row, and parts below 16, and below 0, cost nothing."""
    for collector in world.collectors.values():
        collector.ledger.opener.budget = Budget(5, W)
    at = now_of(world)
    for n in range(500):
        cells = (CellReport("t", 0, at, part=n, count=1),)
        tell(world, event(world, b"b" * 8, event_number=n, cells=cells))
    world.run(2000)
    assert count_of(world, claims) <= 5 * 5 * 10 + 1


def test_a_producer_that_runs_for_long_costs_nothing(world: World) -> None:
    """A producer numbers the incarnations of all its cells in one row, so from its seventeenth
    cell on each one cost a unit with every report: a thousand producers that had run for minutes
    were too many, and their windows UNKNOWN."""
    for collector in world.collectors.values():
        collector.ledger.opener.budget = Budget(1, W)
    honest = publisher(world, "dc1", b"a")
    for _ in range(40):
        for partition in range(8):
            honest.publish(world.now, 1, partition=partition)
        honest.report(world.now)
        world.run(500)
    heartbeats(world, honest)
    with world.store.read() as connection:
        assert not openings.overflowed(connection)
    assert kinds(world) == set()


def test_groups_that_somebody_makes_up_take_no_turns_of_edges(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dozen made-up groups, one topic each, took a second of the judges each, at every look: the
    watermark of a topic on a declared edge was 18 s behind in place of 6, until they had all been
    judged."""
    group = {"kind": "consumer", "tier": "consumer"}
    cells = (CellReport("t", 0, now_of(world), count=1),)
    for n in range(12):
        name = f"consumer-{(b'g%07d' % n).hex()}"
        told = {"reporter": name, "consumer_group": f"g{n}", "cells": cells, **group}
        tell(world, event(world, b"g%07d" % n, **told))
    world.run(3000)
    judges, cost = world.judges["dc1"], 1000.0
    stepped: list[str] = []

    def step(hop: hop_loop.HopLoop, *_: object) -> list[Verdict]:
        stepped.append(hop.hop.edge.name)
        world.worked_ms += cost
        return []

    monkeypatch.setattr(hop_loop.HopLoop, "step", step)
    monkeypatch.setattr(judge_loop, "update_watermarks", lambda *_: stepped.append("watermarks"))
    for n in range(12):
        stepped.clear()
        judges.step(world.now + (n + 1) * judge_loop.MARK_MS)
        # Watermarks waited for the groups' turn as well: 9 s in place of 6.
        assert stepped.index("watermarks") < min(
            stepped.index(name) for name in stepped if "group:" in name
        )
        assert stepped.count("producer-to-dc1") == 1
        assert sum("group:" in name for name in stepped) == 1
    stepped.clear()
    for _ in range(12):
        judges.step(world.now)
    assert {name for name in stepped if "group:" in name} == {
        f"dc1-to-group:g{n}" for n in range(12)
    }
    # While there is more to read than a round takes, what all wait for is not their turn.
    cost = 60.0
    for hurry, most in ((False, 7), (True, 2)):
        stepped.clear()
        judges.step(world.now, hurry=hurry)
        assert stepped.count("producer-to-dc1") == 1
        assert sum("group:" in name for name in stepped) == most


def test_groups_cannot_process_topics_that_never_were(world: World) -> None:
    """A group that somebody made up told of 3,000 topics: each was a row, a page and 5 ms of the
    judges at every look."""
    code = (b"c" * 8).hex()
    group = {"kind": "consumer", "tier": "consumer", "consumer_group": "g"}
    cells = tuple(CellReport(f"n{n}", 3, now_of(world), count=1) for n in range(3000))
    real = CellReport("t", 77, now_of(world), count=1)
    told = event(world, b"c" * 8, reporter=f"consumer-{code}", cells=(*cells, real), **group)
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    tell(world, told)
    sql_event.listen(world.store.engine, "before_cursor_execute", note)
    world.collectors["dc1"].step()
    world.collectors["dc1"].step()
    sql_event.remove(world.store.engine, "before_cursor_execute", note)
    assert count_of(world, reporter_topics) == count_of(world, claims) == 1
    # Each of 3,000 reasons was looked for in the store, four questions each: 2 s of a lock.
    assert len(statements) < 200
    assert kinds(world) == {"unknown-topic"}


def test_numbers_with_holes_are_remembered_within_bounds(world: World) -> None:
    """A reporter that skips every second number had all its holes kept, written with each report,
    and walked through for each event: after 50,000 events one took 50 ms."""
    for start in range(0, 3000, 1000):
        some = range(start, start + 1000)
        tell(world, *(event(world, b"b" * 8, event_number=2 * n + 1) for n in some))
        world.run(1000)
    with world.store.read() as connection:
        (seen,) = connection.scalars(select(reporters.c.seen))
    assert len(seen) <= 2 * 256
    assert seen[-1] == 2 * 2999 + 1


def test_what_is_only_said_to_be_there_is_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of four thousand million sequences takes ten bytes; to be compared with, or added to,
    what has no ranges they were hashed one by one: 30 s of the judges for each such cell."""
    hashed: list[int] = []

    def noted(ranges: RangeSet) -> int:
        hashed.append(ranges.size)
        return fingerprint(ranges)

    monkeypatch.setattr("tallymark_audit.model.sides.fingerprint", noted)
    monkeypatch.setattr("tallymark_audit.judge.unnamed.fingerprint", noted)
    key = CellKey("t", 0, 0, "web", "61" * 8)
    huge = RangeSet.single(0, 2**32 - 1)
    claim = Claim(key, accepted=huge, acknowledged=huge)
    few = Claim(key, summary=Summary(5, 5, 0, 0, fingerprint(FIVE)))
    assert weigh(claim, Observation(key, count=5, fingerprint=1), RangeSet()).missing == 2**32 - 5
    merged = claim.merge(few)
    assert merged.summary is not None
    assert (merged.summary.acknowledged, merged.summary.fingerprint) == (2**32 + 5, UNHASHED)
    unsure = weigh(merged, Observation(key, count=2**32 + 5, fingerprint=1), RangeSet())
    assert (unsure.missing, unsure.same) == (0, False)
    assert unsure.undecided
    seen = Observation(key, count=2**32, ranges=huge).merge(Observation(key, 5, fingerprint=1))
    assert seen.fingerprint == UNHASHED
    assert max(hashed, default=0) <= 5
    assert weigh(few, Observation(key, count=5, ranges=FIVE), RangeSet()).same
