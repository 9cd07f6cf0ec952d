"""Three clusters, their collectors and one store: what ends where is judged, named and repaired.

Brokers are in memory; everything between them and the verdicts is real.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from judged_world import W, World, heartbeats, parts_of, publisher, steady, world_in
from sqlalchemy import select

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp
from tallymark.errors import UserError
from tallymark_audit.cli import command
from tallymark_audit.collector.judging import hop_loop
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.repair.apply import apply_plan
from tallymark_audit.repair.plan import make_repair_plan
from tallymark_audit.repair.plan_file import read_plan, write_plan
from tallymark_audit.store.counted import claims
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, record_verdicts
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_audit.store.schema import tables
from tallymark_audit.testing import Told


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as made:
        yield made


def test_a_healthy_deployment_is_complete_on_every_edge(world: World) -> None:
    one, two = publisher(world, "dc1", b"a"), publisher(world, "dc2", b"b")
    steady(world, one, two)
    heartbeats(world, one, two)
    for edge in ("producer-to-dc1", "producer-to-dc2", "dc1-to-aggregate", "dc2-to-aggregate"):
        assert set(world.states(edge).values()) == {State.COMPLETE}
        assert sum(row["claimed"] for row in world.verdicts(edge).values()) == 60
    assert world.states("producer-to-aggregate") == {}
    with world.store.read() as connection:
        marks = {t.edge: t.through for t in queries.overview(connection)}
    assert all(mark >= 13_000 for edge, mark in marks.items() if edge != "producer-to-aggregate")


def test_a_step_judges_so_much_and_leaves_none_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector that comes back to a day of windows must not stand still until all are judged."""
    monkeypatch.setattr(hop_loop, "AT_ONCE", 2)
    one = publisher(world, "dc1", b"a")
    for ms in range(0, 8000, W):
        one.publish(world.now + ms, 5)
    world.mirror("dc1")
    one.report(world.now + 8000)
    edge, told = "producer-to-dc1", 0
    while len(world.states(edge)) < 8:
        world.run(1000)
        more = len(world.states(edge)) - told
        assert 0 < more <= 2
        told += more
    heartbeats(world, one, ms=20_000)
    for edge in ("producer-to-dc1", "dc1-to-aggregate"):
        assert list(world.states(edge).values()) == [State.COMPLETE] * 8


def test_what_the_aggregate_lost_is_named_and_repaired(world: World, tmp_path: Path) -> None:
    """The aggregate's log loses its tail. Its verdicts turn to LOSS with the offsets in dc1; the
    repair copies exactly those, twice does no harm, and the windows become COMPLETE."""
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=4000)
    log = world.clusters["aggregate"].log("t")
    log.cut(len(log.batches) - 3)
    heartbeats(world, one, ms=2000)
    # The cut is at the end of all there is: for a while the mirror might only be late.
    assert State.LOSS not in world.states("dc1-to-aggregate").values()
    heartbeats(world, one, ms=5000)
    lost = {w: r for w, r in world.verdicts("dc1-to-aggregate").items() if r["state"] == State.LOSS}
    assert sum(row["missing"] for row in lost.values()) == 30
    cells = [cell for row in lost.values() for cell in row["cells"]]
    places = [place for cell in cells for place in cell["located"]]
    assert sorted((p["first_sequence"], p["last_sequence"]) for p in places) == [
        (50, 59),
        (60, 79),
    ]
    assert all(place["cluster"] == "dc1" for place in places)
    assert {(p["first_offset"], p["last_offset"]) for p in places} == {(50, 59), (60, 79)}

    edges = derive_edges(world.deployment)
    with world.store.read() as connection:
        plan = make_repair_plan(connection, edges, world.now)
    assert plan.count == 30
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    assert [result.outcome for result in apply_plan(plan, world)] == ["repaired", "repaired"]
    assert [result.outcome for result in apply_plan(plan, world)] == ["present", "present"]
    heartbeats(world, one)
    assert set(world.states("dc1-to-aggregate").values()) == {State.COMPLETE}
    repaired = log.batches[-1].records()[0]
    assert repaired.headers[0][0] == STAMP_HEADER
    assert repaired.value == b"79"
    with world.store.read() as connection:
        history = window_evidence.evidence(connection, "dc1-to-aggregate", "t", max(lost)).history
    assert [row["state"] for row in history][-3:] == [State.LOSS, State.SETTLING, State.COMPLETE]


def test_a_mirror_that_is_late_raises_no_false_alarm(world: World) -> None:
    """The mirror stands still for longer than windows settle, then catches up; meanwhile nothing
    is called lost. What it skips once it goes on is lost at once."""
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=2000)
    for _ in range(6):
        one.publish(world.now, 10)
        one.report(world.now)
        world.run(500)
        assert State.LOSS not in world.states("dc1-to-aggregate").values()
    skipped = world.copied["dc1", "t", 0] + 1
    batches = world.clusters["dc1"].log("t").batches
    kept, batches[skipped:skipped] = batches[skipped], []
    del batches[skipped]
    world.mirror("dc1")
    batches.insert(skipped, kept)
    world.copied["dc1", "t", 0] += 1
    world.run(1000)
    heartbeats(world, one, ms=2000)
    lost = [r for r in world.verdicts("dc1-to-aggregate").values() if r["state"] == State.LOSS]
    assert [row["missing"] for row in lost] == [10]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_window_in_alarm_is_looked_at_again_while_a_cell_of_it_waits(
    world: World, restarted: bool
) -> None:
    """A window was in alarm for the copies of one producer's records while those of another one
    might still be under way. Nothing changed in it any more, so it was never judged again, and
    what was lost was never called so: nobody named it, repair passed it by."""
    first, second = publisher(world, "dc1", b"a"), publisher(world, "dc1", b"b")
    first.publish(world.now + 100, 5)
    world.mirror("dc1")
    copied = world.clusters["aggregate"].log("t")
    copied.append_records([parts_of(copied.batches[0].records()[0])])
    second.publish(world.now + 200, 5)  # the mirror never brings these
    heartbeats(world, first, second, ms=3000)
    edge, window = "dc1-to-aggregate", 10_000
    verdict = world.verdicts(edge)[window]
    assert verdict["state"] == "DUPLICATION"
    assert {cell["state"] for cell in verdict["cells"]} == {"DUPLICATION", "SETTLING"}
    if restarted:
        world.judge("aggregate")
    heartbeats(world, first, second, ms=20_000)
    verdict = world.verdicts(edge)[window]
    assert (verdict["state"], verdict["missing"], verdict["duplicates"]) == ("MIXED", 5, 1)
    assert any(cell["located"] for cell in verdict["cells"])


@pytest.mark.parametrize("restarted", [False, True])
def test_a_cell_with_copies_whose_missing_ones_wait_is_looked_at_again(
    world: World, restarted: bool
) -> None:
    """The same inside one cell: of 26 lost messages 19 stayed unnamed."""
    producer = publisher(world, "dc1", b"a")
    producer.publish(world.now + 100, 5)
    world.mirror("dc1")
    copied = world.clusters["aggregate"].log("t")
    copied.append_records([parts_of(copied.batches[0].records()[0])])
    producer.publish(world.now + 200, 5)
    heartbeats(world, producer, ms=3000)
    edge, window = "dc1-to-aggregate", 10_000
    (cell,) = world.verdicts(edge)[window]["cells"]
    assert (cell["state"], cell["missing_count"], cell["located"]) == ("DUPLICATION", 5, [])
    if restarted:
        world.judge("aggregate")
    heartbeats(world, producer, ms=20_000)
    (cell,) = world.verdicts(edge)[window]["cells"]
    assert (cell["state"], cell["missing_count"]) == ("MIXED", 5)
    assert cell["located"]


def test_a_window_in_alarm_that_waits_for_a_silent_producer_says_so(world: World) -> None:
    """A window was in alarm for a loss when the collector was still catching up. It was not judged
    again, so it never said that one of its producers had gone silent, and went on saying that the
    counter was catching up."""
    lossy, silent = publisher(world, "dc1", b"a"), publisher(world, "dc1", b"b")
    lossy.publish(world.now + 100, 5, lose=2)
    silent.publish(world.now + 200, 5, lose=1)
    silent.report(world.now)
    edge, window = "producer-to-dc1", 10_000
    while world.states(edge).get(window) != "LOSS":
        heartbeats(world, lossy, ms=1000)
        assert world.now < 20_000
    heartbeats(world, lossy, ms=20_000)
    verdict = world.verdicts(edge)[window]
    assert (verdict["state"], verdict["missing"]) == ("LOSS", 3)
    assert "is silent since" in verdict["reasons"][0]


def test_the_producers_loss_is_named_by_sequence(world: World) -> None:
    one = publisher(world, "dc1", b"a")
    one.publish(world.now, 10, lose=2)
    world.mirror("dc1")
    heartbeats(world, one)
    (row,) = world.verdicts("producer-to-dc1").values()
    assert (row["state"], row["missing"], row["cells"][0]["missing"]) == (State.LOSS, 2, [8, 9])
    with world.store.read() as connection:
        (item,) = make_repair_plan(connection, derive_edges(world.deployment), world.now).items
    assert "sequences 8-9 of partition 0" in item.refused


def test_a_silent_reporter_leaves_windows_unknown_until_it_is_retired(world: World) -> None:
    """A producer dies without a journal. Its last windows are UNKNOWN, and so is every later one
    of its topic, until somebody says that it will not return."""
    one, two = publisher(world, "dc1", b"a"), publisher(world, "dc1", b"b")
    steady(world, one, two, ms=2000)
    one.publish(world.now, 10)  # the report of these dies with it
    two.publish(world.now, 10)
    heartbeats(world, two, ms=8000)
    states = world.states("producer-to-dc1")
    assert states[max(states)] == State.UNKNOWN
    with world.store.write() as connection:
        assert claims.retire(connection, one.tally.identity.reporter, world.now) == ["dc1"]
    heartbeats(world, two, ms=6000)
    assert world.states("producer-to-dc1")[max(states)] == State.UNCLAIMED
    with world.store.write() as connection, pytest.raises(UserError, match="no reporter"):
        claims.retire(connection, "nobody", world.now)


def test_a_collector_that_is_down_makes_nothing_green(world: World) -> None:
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=2000)
    for _ in range(20):
        one.publish(world.now, 10)
        one.report(world.now)
        world.mirror("dc1")
        world.run(500, without="dc1")
    # dc1 is not counted, so nobody knows what the aggregate should have.
    newest = {w: s for w, s in world.states("dc1-to-aggregate").items() if w > 13_000}
    assert State.COMPLETE not in newest.values()
    assert State.LOSS not in newest.values()
    heartbeats(world, one, ms=8000)
    assert set(world.states("dc1-to-aggregate").values()) == {State.COMPLETE}
    assert set(world.states("producer-to-aggregate").values()) <= {State.COMPLETE}


def test_a_restarted_collector_judges_what_changed_meanwhile(world: World) -> None:
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=2000)
    heartbeats(world, one)
    log = world.clusters["aggregate"].log("t")
    log.cut(1)
    world.start("aggregate")
    world.judge("aggregate")
    heartbeats(world, one, ms=6000)
    assert State.LOSS in world.states("dc1-to-aggregate").values()


def test_strangers_in_the_aggregate_are_unclaimed(world: World) -> None:
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=2000)
    stranger = [Told(Stamp(b"stranger", 0, n, "evil"), 10_000) for n in range(3)]
    world.clusters["aggregate"].log("t").append([*stranger, Told(None, 10_000)])
    heartbeats(world, one)
    (row,) = [r for r in world.verdicts("producer-to-aggregate").values() if r["window"] == 10_000]
    assert (row["state"], row["unclaimed"]) == (State.UNCLAIMED, 4)
    assert set(world.states("dc1-to-aggregate").values()) == {State.COMPLETE}


def test_late_data_opens_a_window_again(world: World) -> None:
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=2000)
    heartbeats(world, one)
    one.publish(10_000, 5)
    one.report(world.now)
    world.run(500)
    assert world.states("producer-to-dc1")[10_000] == State.SETTLING
    world.mirror("dc1")
    heartbeats(world, one)
    row = world.verdicts("producer-to-dc1")[10_000]
    assert (row["state"], row["claimed"]) == (State.COMPLETE, 25)
    assert row["revision"] >= 2


def test_spark_holds_until_the_collector_knows_better(world: World) -> None:
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=2000)
    heartbeats(world, one)
    edge = "producer-to-dc1"
    told = Verdict(edge, "t", 10_000, State.LOSS, claimed=20, observed=18, missing=2)
    with world.store.write() as connection:
        record_verdicts(connection, [told], SPARK, world.now)
    assert world.states(edge)[10_000] == State.LOSS
    with world.store.read() as connection:
        (row,) = queries.disagreements(connection)
    assert (row["spark_state"], row["collector_state"]) == (State.LOSS, State.COMPLETE)
    world.run(1000)
    one.publish(10_000, 5)
    heartbeats(world, one)
    assert world.states(edge)[10_000] == State.COMPLETE
    with world.store.read() as connection:
        assert queries.disagreements(connection) == []
        assert len(window_evidence.evidence(connection, edge, "t", 10_000).verdicts) == 2


# --- the commands -------------------------------------------------------------------------------


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(command, [*arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_commands_show_what_is_known(world: World, tmp_path: Path) -> None:
    one = publisher(world, "dc1", b"a")
    one.publish(world.now, 10, lose=2)
    world.mirror("dc1")
    heartbeats(world, one)
    settings = ("--settings", str(tmp_path / "tallymark.toml"))
    assert "LOSS" in invoke("overview", *settings)
    assert "LOSS" in invoke("verdicts", *settings, "--edge", "producer-to-dc1")
    assert json.loads(invoke("verdicts", *settings, "--json", "--state", "LOSS"))[0]["missing"] == 2
    assert json.loads(invoke("overview", *settings, "--json"))
    told = invoke("evidence", *settings, "producer-to-dc1", "t", "1970-01-01T00:00:10")
    assert "8-9" in told
    assert json.loads(invoke("evidence", *settings, "--json", "producer-to-dc1", "t", "10000"))[
        "verdicts"
    ]
    reporter = one.tally.identity.reporter
    assert "silent" in invoke("reporters", *settings)  # since 1970
    assert reporter not in invoke("reporters", *settings, "--live")
    assert json.loads(invoke("reporters", *settings, "--json"))
    plan = tmp_path / "plan.json"
    assert "not possible" in invoke("repair", *settings, "--plan", str(plan))
    assert json.loads(invoke("repair", *settings, "--json"))["items"][0]["refused"]
    assert "is retired on dc1" in invoke("retire", *settings, reporter)


def test_a_repair_that_cannot_be_made_exits_with_3(world: World, tmp_path: Path) -> None:
    one = publisher(world, "dc1", b"a")
    one.publish(world.now, 10, lose=2)
    world.mirror("dc1")
    heartbeats(world, one)
    settings = ("--settings", str(tmp_path / "tallymark.toml"))
    result = CliRunner().invoke(command, ["repair", *settings, "--apply"], catch_exceptions=False)
    assert result.exit_code == 3
    assert "refused" in result.output
    with world.store.read() as connection:
        (row,) = queries.all_repairs(connection)
    assert row["outcome"] == "refused"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["repair", "--edge", "x-to-y"], "there is no edge 'x-to-y'"),
        (["evidence", "producer-to-dc1", "t", "5"], "nothing is known of t"),
        (["collect", "--cluster", "dc9"], "there is no cluster 'dc9'"),
        (["replay-journals", "--cluster", "dc9"], "there is no cluster 'dc9'"),
        (["retire", "nobody"], "no reporter is called 'nobody'"),
    ],
)
def test_wrong_names_are_said_in_one_line(
    arguments: list[str], said: str, world: World, tmp_path: Path
) -> None:
    settings = ["--settings", str(tmp_path / "tallymark.toml")]
    with pytest.raises(UserError, match=said):
        CliRunner().invoke(command, [*arguments, *settings], catch_exceptions=False)


def test_a_plan_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for text in ("not json", "[]", '{"version": 9}', '{"version": 1, "items": [{}]}'):
        path.write_text(text)
        with pytest.raises(UserError, match=r"plan\.json"):
            read_plan(path)
    with pytest.raises(UserError, match="cannot read the plan"):
        read_plan(tmp_path / "nothing")


def test_a_hop_that_owes_nothing_keeps_no_verdict_of_what_was_only_doubted(world: World) -> None:
    """The collector of dc1 was away for a while. What its mirror copied was nobody's that the
    aggregate knew of, so the windows there were UNKNOWN; afterwards they stood for ever among the
    verdicts of the aggregate's own producers, which it does not have: COMPLETE, 0 of 0."""
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=2000)
    two = publisher(world, "dc1", b"b")  # of which nobody has heard yet
    for _ in range(8):
        two.publish(world.now, 10)
        two.report(world.now)
        world.mirror("dc1")
        world.run(1000, without="dc1")
    doubted = world.states("producer-to-aggregate")
    assert State.UNKNOWN in set(doubted.values()), doubted
    heartbeats(world, one, two, ms=14_000)
    assert set(world.states("dc1-to-aggregate").values()) == {State.COMPLETE}
    assert world.verdicts("producer-to-aggregate") == {}
    with world.store.read() as connection:
        history = tables.verdict_history.c
        query = select(history.window).where(history.edge == "producer-to-aggregate")
        assert not connection.scalars(query).all()


def test_an_alarm_on_a_hop_that_owes_nothing_is_taken_back_and_not_forgotten(
    world: World,
) -> None:
    """What was once reported as unclaimed must be found again, with what became of it."""
    edge, topic, window = "producer-to-aggregate", "t", 5000
    states = (State.UNKNOWN, State.UNCLAIMED, State.COMPLETE)
    for at, state in enumerate(states):
        n = 0 if state is State.COMPLETE else 3
        verdict = Verdict(edge, topic, window, state, observed=n, unclaimed=n)
        with world.store.write() as connection:
            record_verdicts(connection, [verdict], COLLECTOR, 10_000 + at)
    row = world.verdicts(edge)[window]
    assert (row["state"], row["revision"]) == (State.COMPLETE, 2)
