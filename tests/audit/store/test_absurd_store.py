"""Whatever lies in the store: no row stops a collector, or the judging of anything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from absurd_rows import absurd_row, put
from fastapi import FastAPI
from fastapi.testclient import TestClient
from judged_world import AUDIT, NAMES, World, heartbeats, publisher, world_in
from sqlalchemy import select, update

from tallymark.deployment import Deployment
from tallymark_audit.alerts.alerter import Alerter
from tallymark_audit.alerts.rules import UNJUDGED
from tallymark_audit.api import PREFIX, AuditApi, router
from tallymark_audit.judge.verdicts import State
from tallymark_audit.metrics.source import AuditMetrics
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.store.counted import counts, recounts
from tallymark_audit.store.housekeeping.housekeeper import Housekeeper
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema import tables
from tallymark_audit.testing import stamped

EDGES = ("producer-to-dc1", "dc1-to-aggregate")
CELLS: Final = (
    "observations",
    "claims",
    "archive",
    "verdicts",
    "verdict_history",
    "window_changes",
)
"""The tables whose rows are about one window of a topic."""
DAILY = {("observations", 0), ("claims", 1)}
OTHERS = tuple(sorted(tables.metadata.tables.keys() - set(CELLS)))
TURNS = [
    pytest.param(name, turn, marks=[] if (name, turn) in DAILY else pytest.mark.soak)
    for name in sorted(tables.metadata.tables)
    for turn in range(2)
]
"""Each table with a row of dc1 and one of the aggregate. The ordinary run takes two
of them, and all that are not of CELLS at once."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as made:
        yield made


def place_of(window: int, cluster: str) -> dict[str, Any]:
    """A place at which a healthy row may stand already."""
    return {
        "cluster": cluster,
        "topic": "t",
        "window": window,
        "partition": 0,
        "tier": "cluster",
        "server": "web",
        "instance": (b"a" * 8).hex(),
        "seen_topic": "t",
        "seen_partition": 0,
        "reporter": f"producer-{(b'a' * 8).hex()}",
        "edge": "producer-to-dc1" if cluster == "dc1" else "dc1-to-aggregate",
        "source": "collector",
        "part": 0,
        "kind": "gap",
        "fingerprint": "deadbeef",
    }


def spoil(world: World, name: str, window: int, turn: int) -> None:
    """Put one absurd row into a table, on dc1 or on the aggregate."""
    table = tables.metadata.tables[name]
    place = place_of(window, "dc1" if turn % 2 == 0 else "aggregate")
    if name == "collectors":  # who is in charge is not judged: that one fences
        place["cluster"] = "nowhere"
    if name == "progress":  # so does who counts a partition; this one there is not
        place["partition"] = 7
    if name == "meta":
        place |= {"key": "alerts_paused_until" if turn % 2 else "absurd"}
    if name == "claims":
        place["tier"] = "producer"
    if name == "incidents":
        mirror = "mirror-dc1-to-aggregate could not copy these upstream offsets: retention"
        place |= {"cluster": "aggregate", "reason": mirror, "from_offset": 9, "to_offset": 3}
    with world.store.write() as connection:
        put(connection, table, absurd_row(table, place, turn))


def both_topics(world: World, one: Any, count: int = 3) -> None:
    for _ in range(count):
        for topic in ("t", "u"):
            one.publish(world.now + 10, 5, topic=topic)
        one.report(world.now)
        world.mirror("dc1")
        world.run(1000)


class Chores:
    """What a collector does besides counting and judging, and who looks at the store."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.deployment = Deployment(
            data_dir=world.deployment.data_dir,
            audit=AUDIT.model_copy(update={"collapse_after_ms": 1000}),
        )
        ledgers = [world.collectors[name].ledger for name in NAMES]
        edges = derive_edges(self.deployment)
        self.keepers = [Housekeeper(one, edges, self.deployment.audit) for one in ledgers]
        self.alerters = [Alerter(one, self.deployment, lambda _: None, _Keeps()) for one in ledgers]
        app = FastAPI()
        app.state.audit_api = AuditApi.of(self.deployment, world.store)
        app.include_router(router, prefix=PREFIX)
        self.client = TestClient(app)

    def look(self) -> None:
        """Every chore, every page of the API, and the metrics."""
        now = self.world.now
        for keeper in self.keepers:
            keeper.step(now)
        for alerter in self.alerters:
            alerter.step(now)
        metrics = AuditMetrics(self.world.store, self.deployment, lambda: now)
        up = next(family for family in metrics.collect() if family.name == "tallymark_audit_up")
        assert up.samples[0].value == 1
        cells = "cells?topic=t&cluster="
        pages = ("overview", "verdicts", "reporters", "alerts", "watermarks", f"{cells}dc1")
        for path in (*pages, f"{cells}aggregate", f"{cells}dc1&tier=producer"):
            answer = self.client.get(f"{PREFIX}/{path}")
            assert answer.status_code == 200, (path, answer.text)

    def firing(self) -> set[str]:
        with self.world.store.read() as connection:
            query = select(tables.alerts.c.rule).where(tables.alerts.c.status == "firing")
            return set(connection.scalars(query))


class _Keeps:
    def known(self, topics: Any, now: int) -> dict[Any, int]:
        return {}


def test_a_window_of_which_nothing_is_claimed_is_measured(world: World) -> None:
    """One message that nobody had claimed, and there were no metrics any more: SQLite could not
    round a share of nothing."""
    world.clusters["dc1"].log().append(stamped(0, 3, world.now, b"stranger"))
    world.run(8000)
    assert set(world.states("producer-to-dc1").values()) == {State.UNCLAIMED}
    Chores(world).look()


@pytest.mark.parametrize("turn", [0, 1], ids=["dc1", "aggregate"])
def test_an_archive_that_cannot_be_unpacked_is_shown_without_its_cells(
    world: World, turn: int
) -> None:
    """The API answered 500 for the cells of all windows, and for the evidence of this one, until
    the judges had come to it."""
    one, chores = publisher(world, "dc1", b"a"), Chores(world)
    both_topics(world, one)
    victim = min(world.states("producer-to-dc1"))
    spoil(world, "archive", victim, turn)
    cells = [f"cells?topic=t&cluster={name}" for name in NAMES]
    edges = ("producer-to-dc1", "dc1-to-aggregate")
    for path in (*cells, *(f"evidence?edge={edge}&topic=t&window={victim}" for edge in edges)):
        answer = chores.client.get(f"{PREFIX}/{path}")
        assert answer.status_code == 200, answer.text


@pytest.mark.soak_cases("claims")
@pytest.mark.parametrize("table", ["observations", "claims"])
def test_a_window_that_cannot_be_judged_says_so_and_somebody_is_told(
    world: World, table: str
) -> None:
    """The row of one cell said that it ends before it starts. Its window is UNKNOWN, with the
    reason, there is an incident and an alert; when the row is mended the window is, too."""
    one, chores = publisher(world, "dc1", b"a"), Chores(world)
    both_topics(world, one)
    victim = min(world.states("producer-to-dc1"))
    name = "ranges" if table == "observations" else "acknowledged"
    kept = tables.metadata.tables[table]
    mine = (kept.c.topic == "t", kept.c.window == victim, kept.c.cluster == "dc1")
    with world.store.write() as connection:
        sound = connection.scalar(select(kept.c[name]).where(*mine))
        connection.execute(update(kept).where(*mine).values({name: [4, 0]}))
        counts.touch(connection, "dc1", [("t", victim)], world.now)
    heartbeats(world, one, ms=8000)
    row = world.verdicts("producer-to-dc1")[victim]
    assert row["state"] == State.UNKNOWN
    (reason,) = row["reasons"]
    assert reason.startswith(f"cannot be judged: a row of {table} makes no sense (partition 0")
    assert "4..0" in reason
    for _ in range(10):
        world.run(1000)
        chores.look()
    assert UNJUDGED in chores.firing()
    with world.store.read() as connection:
        found = queries.all_incidents(connection)
    (told,) = (row for row in found if row["reason"].startswith("producer-to-dc1 "))
    where = told["kind"], told["cluster"], told["topic"], told["count"]
    assert where == ("unjudged", "dc1", "t", 1)
    with world.store.write() as connection:
        connection.execute(update(kept).where(*mine).values({name: sound}))
    heartbeats(world, one, ms=12_000)
    assert world.states("producer-to-dc1")[victim] == State.COMPLETE


def spoil_cell(world: World, window: int) -> None:
    """The row of what dc1 counted of ``t`` in the window says that it ends before it starts."""
    kept = tables.observations
    mine = (kept.c.topic == "t", kept.c.window == window, kept.c.cluster == "dc1")
    with world.store.write() as connection:
        spoilt = connection.execute(update(kept).where(*mine).values(ranges=[4, 0]))
        assert spoilt.rowcount == 1


def test_a_log_that_is_cut_beyond_an_absurd_row_leaves_its_window_unknown(world: World) -> None:
    """A broker came back without the tail of a log. One of the cells to be counted again could not
    be read: its row was dropped and never rebuilt, and the window, of which half was still in the
    log, was a LOSS of all."""
    one = publisher(world, "dc1", b"a")
    both_topics(world, one)
    victim, *others = sorted(world.states("producer-to-dc1"))[-2:]
    one.publish(victim + 20, 3)  # in the log behind the other windows, and about to be cut off
    one.report(world.now)
    world.run(1000)
    spoil_cell(world, victim)
    log = world.clusters["dc1"].log()
    log.cut(len(log.batches) - 2)
    heartbeats(world, one, ms=8000)
    row = world.verdicts("producer-to-dc1")[victim]
    assert row["state"] == State.UNKNOWN, row["reasons"]
    assert row["reasons"][0].startswith("cannot be judged: a row of observations makes no sense")
    assert {world.states("producer-to-dc1")[at] for at in others} == {State.LOSS}
    with world.store.read() as connection:
        kept = tables.observations.c
        query = select(kept.window).where(kept.cluster == "dc1", kept.topic == "t")
        assert victim in set(connection.scalars(query))


def test_a_scrub_goes_past_an_absurd_row(world: World) -> None:
    """Whatever was asked for was to be counted again from the first window on; the row of one of
    them could not be read, and the scrub failed at it for ever."""
    one = publisher(world, "dc1", b"a")
    both_topics(world, one)
    windows = sorted(world.states("producer-to-dc1"))
    spoil_cell(world, windows[0])
    end = windows[-1] + 1
    wanted = recounts.RecountRequest("t", 0, "scrub", windows[0], end, windows[0], world.now)
    with world.store.write() as connection:
        recounts.ask(connection, "dc1", [wanted])
    heartbeats(world, one, ms=6000)
    with world.store.read() as connection:
        (done,) = recounts.of_job(connection, "scrub", "dc1")
        found = queries.all_incidents(connection)
    assert done.done
    assert done.windows == len(windows) - 1
    assert any("cannot be compared" in told["reason"] for told in found)


@pytest.mark.parametrize(("table", "turn"), TURNS)
def test_one_absurd_row_stops_nothing_else(world: World, table: str, turn: int) -> None:
    """One row that made no sense was in the store: the collector died of it, and at every start
    again; nothing was counted or judged any more, of no topic."""
    victim = goes_on_when_spoilt(world, {table: turn})
    if table in CELLS:
        for edge in EDGES:
            states = {at: state for at, state in world.states(edge).items() if at != victim}
            assert len(states) >= 5
            assert set(states.values()) == {State.COMPLETE}, (edge, states)


@pytest.mark.soak
@pytest.mark.parametrize("turn", [0, 1], ids=["dc1", "aggregate"])
def test_an_absurd_row_in_each_table_stops_nothing_else(world: World, turn: int) -> None:
    """But those of which another topic's row must stay sound."""
    goes_on_when_spoilt(world, dict.fromkeys(OTHERS, turn))


def goes_on_when_spoilt(world: World, spoilt: Mapping[str, int]) -> int:
    """The flow: put an absurd row into each of the tables, of the cluster that is named by the
    turn; count, judge and look on, also after a restart. The windows of the other topic are
    complete. Returns the window to which the rows belong."""
    one, chores = publisher(world, "dc1", b"a"), Chores(world)
    both_topics(world, one)
    victim = min(world.states("producer-to-dc1"))
    for table, turn in spoilt.items():
        spoil(world, table, victim, turn)
    both_topics(world, one)
    for restarted in (False, True):
        if restarted:
            for name in NAMES:
                world.start(name)
                world.judge(name)
            chores = Chores(world)
        heartbeats(world, one, ms=3000)
        chores.look()
        one.publish(world.now + 10, 5, topic="u")
        one.publish(victim + 10, 1)  # late: the very row is to be counted on
        one.report(world.now)
        world.mirror("dc1")
    heartbeats(world, one, ms=12_000)
    chores.look()
    for edge in EDGES:
        states = world.states(edge, "u")
        assert len(states) == 8
        assert set(states.values()) == {State.COMPLETE}, (edge, states)
    return victim
