"""What changes on edges in time: the graph itself, holes that a person accepts, settle times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_stage import AUDIT, CHAIN, Stage, W, deployment, span
from click.testing import CliRunner
from sqlalchemy import insert, select

from tallymark.deployment import Mirror, dump_toml
from tallymark.errors import UserError
from tallymark_audit.cli import command
from tallymark_audit.judge.settle_time import learned_settle_ms
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model import sketches
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import facts
from tallymark_audit.store.judged import graph
from tallymark_audit.store.judged.verdicts import COLLECTOR, accept, record_verdicts
from tallymark_audit.store.reading import window_evidence
from tallymark_audit.store.schema import tables


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        yield store


# --- the graph changes --------------------------------------------------------------------------


def test_an_edge_owes_nothing_of_before_it_was_there(store: Store) -> None:
    """A mirror is added at 12:00. It need not bring the morning, and the morning is not lost."""
    stage = Stage(store, deployment(CHAIN[1]))
    stage.see("dc1", "clicks", span(0, 9))
    stage.counted("dc1", "clicks")
    stage.judge("aggregate")
    stage.deployment = deployment(*CHAIN[:2])
    stage.begin()
    stage.now += 50_000
    stage.judge("aggregate")
    new = stage.now - stage.now % W + W
    stage.see("dc1", "clicks", span(10, 19), window=new)
    stage.now += 50_000
    stage.counted("dc1", "clicks")
    stage.counted("aggregate", "dc1.clicks")
    stage.judge("aggregate")
    assert stage.state("dc1-to-aggregate", "clicks") == "none"
    assert stage.state("dc1-to-aggregate", "clicks", new) == "LOSS"
    with store.read() as connection:
        past = graph.history(connection)
        known = {one.edge.name: one for one in graph.known_edges(connection)}
    assert len(past.graphs) == 2
    assert past.graphs[0][0] == 0
    assert known["dc1-to-aggregate"].since == past.graphs[1][0]
    assert known["dc1-to-aggregate"].edge.downstream_topic("x") == "dc1.x"


def test_records_without_a_time_are_judged_too(store: Store) -> None:
    """Their window lies before all time, and so it lay before any edge was there."""
    stage = Stage(store, deployment(*CHAIN[:2]))
    stage.see("dc1", "clicks", span(0, 9), window=-W)
    stage.now += 50_000
    stage.counted("dc1", "clicks")
    stage.counted("aggregate", "dc1.clicks")
    stage.judge("aggregate")
    assert stage.state("dc1-to-aggregate", "clicks", -W) == "LOSS"


def test_a_topic_under_a_new_name_is_owed_from_then_on(store: Store) -> None:
    plain = Mirror(source="dc1", target="aggregate", topics="a|b")
    more = plain.model_copy(update={"topics": "a|b|c"})
    other = more.model_copy(update={"rename": "x.{topic}", "max_repeated_records": 5})
    edges = [derive_edges(deployment(one)) for one in (plain, more, other)]
    with store.write() as connection:
        assert graph.note_edges(connection, edges[0], 1000)
        assert not graph.note_edges(connection, edges[0], 2000)
        assert graph.note_edges(connection, edges[1], 3000)
        past = graph.history(connection)
        (mirror,) = [one for one in edges[1] if one.kind == "mirror"]
        assert [past.owed_from(mirror, topic) for topic in "abc"] == [0, 0, 3000]
        assert graph.note_edges(connection, edges[2], 4000)
        past = graph.history(connection)
        (mirror,) = [one for one in edges[2] if one.kind == "mirror"]
        assert [past.owed_from(mirror, topic) for topic in "abc"] == [4000, 4000, 4000]


def test_a_removed_edge_keeps_its_verdicts_and_is_listed(tmp_path: Path) -> None:
    settings = deployment(*CHAIN[:2], folder=tmp_path)
    (tmp_path / "t.toml").write_text(dump_toml(settings))
    with open_store(settings.audit_store) as store:
        stage = Stage(store, settings)
        stage.judge("aggregate")
        with store.write() as connection:
            told = Verdict("dc1-to-aggregate", "clicks", 0, State.LOSS, claimed=9, missing=9)
            record_verdicts(connection, [told], COLLECTOR, stage.now)
        stage.deployment = deployment(CHAIN[1], folder=tmp_path)
        (tmp_path / "t.toml").write_text(dump_toml(stage.deployment))
        stage.begin()
        stage.now += 1000
        stage.judge("aggregate")
        assert stage.state("dc1-to-aggregate", "clicks") == "LOSS"
    result = CliRunner().invoke(
        command, ["edges", "--settings", str(tmp_path / "t.toml"), "--json"], catch_exceptions=False
    )
    listed = {one["edge"]: one for one in json.loads(result.output)}
    assert listed["dc1-to-aggregate"]["until"] == stage.now
    assert listed["dc2-to-aggregate"]["until"] is None
    shown = CliRunner().invoke(command, ["edges", "--settings", str(tmp_path / "t.toml")])
    assert "dc1-to-aggregate" in shown.output


# --- accepted holes -----------------------------------------------------------------------------


def hole(missing: int, state: State = State.LOSS) -> Verdict:
    return Verdict("producer-to-dc1", "clicks", 0, state, claimed=10, missing=missing)


def accepted(store: Store) -> str:
    with store.read() as connection:
        return str(connection.execute(select(tables.verdicts.c.accepted_by)).scalar_one())


def test_a_person_accepts_a_hole_until_more_is_wrong(store: Store) -> None:
    """Two missing messages were accepted. When twenty were missing the hole was still accepted."""
    place = ("producer-to-dc1", "clicks", 0)
    with store.write() as connection:
        record_verdicts(connection, [hole(2)], COLLECTOR, 1000)
        assert accept(connection, *place, "ann", "a known outage", 2000) is State.LOSS
    assert accepted(store) == "ann"
    with store.write() as connection:
        record_verdicts(connection, [hole(2, State.SETTLING)], COLLECTOR, 3000)
        record_verdicts(connection, [hole(1)], COLLECTOR, 4000)
    assert accepted(store) == "ann"
    with store.write() as connection:
        record_verdicts(connection, [hole(20)], COLLECTOR, 5000)
    assert accepted(store) == ""
    with store.read() as connection:
        past = window_evidence.evidence(connection, *place).history
    assert [(row["revision"], row["state"]) for row in past] == [
        (0, "LOSS"),
        (1, "LOSS"),
        (2, "SETTLING"),
        (3, "LOSS"),
        (4, "LOSS"),
    ]
    assert past[1]["reasons"][0] == "accepted by ann: a known outage"


def test_only_a_hole_can_be_accepted(store: Store) -> None:
    with store.write() as connection:
        record_verdicts(connection, [hole(0, State.COMPLETE)], COLLECTOR, 1000)
        with pytest.raises(UserError, match="nothing to accept"):
            accept(connection, "producer-to-dc1", "clicks", 0, "ann", "", 2000)
        with pytest.raises(UserError, match="no verdict of views"):
            accept(connection, "producer-to-dc1", "views", 0, "ann", "", 2000)


def test_accept_and_take_back_on_the_command_line(tmp_path: Path) -> None:
    settings = deployment(*CHAIN[:2], folder=tmp_path)
    (tmp_path / "t.toml").write_text(dump_toml(settings))
    where = ["--settings", str(tmp_path / "t.toml"), "producer-to-dc1", "clicks", "0"]
    with open_store(settings.audit_store) as store:
        with store.write() as connection:
            record_verdicts(connection, [hole(2)], COLLECTOR, 1000)
        said = CliRunner().invoke(command, ["accept", *where, "--by", "bo"], catch_exceptions=False)
        assert "is LOSS and accepted" in said.output
        assert accepted(store) == "bo"
        CliRunner().invoke(command, ["accept", *where, "--undo"], catch_exceptions=False)
        assert accepted(store) == ""


# --- settle times -------------------------------------------------------------------------------


def test_settle_times_are_learned_within_their_bounds() -> None:
    late: sketches.Sketch = {}
    sketches.add(late, 100, 99_800)
    assert learned_settle_ms(AUDIT, late) == 500
    sketches.add(late, 40_000, 200)
    assert learned_settle_ms(AUDIT, late) == pytest.approx(40_000, rel=0.03)
    sketches.add(late, 10_000_000, 100_000)
    assert learned_settle_ms(AUDIT, late) == AUDIT.settle_max_ms
    few: sketches.Sketch = {}
    sketches.add(few, 40_000, 100)
    assert learned_settle_ms(AUDIT, few) == 500


def test_a_topic_whose_records_come_late_is_waited_for(store: Store) -> None:
    """Records of mobile clients come a minute late. Judged after five seconds, each of their
    windows would be called lost first, every time."""
    stage = Stage(store, deployment(*CHAIN), now=86_400_000)
    sketch: sketches.Sketch = {}
    sketches.add(sketch, 60_000, 5000)
    with store.write() as connection:
        connection.execute(
            insert(tables.lateness).values(
                edge="dc1", topic="clicks", day=86_400_000, sketch=sketches.to_list(sketch)
            )
        )
    window = stage.now
    stage.claim("clicks", span(0, 9), window=window)
    stage.now += 30_000
    stage.tell("dc1", event_number=1)
    stage.counted("dc1", "clicks")
    stage.judge("dc1")
    assert stage.state("producer-to-dc1", "clicks", window) == "SETTLING"
    with store.read() as connection:
        assert facts.lateness_of(connection, "dc1", "clicks", 0) == sketch
    stage.now += 90_000
    stage.tell("dc1", event_number=2, covers_from=0)
    stage.counted("dc1", "clicks")
    stage.judge("dc1")
    assert stage.state("producer-to-dc1", "clicks", window) == "LOSS"
