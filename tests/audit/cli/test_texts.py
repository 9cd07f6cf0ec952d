"""What is said at three in the morning: each number is what it says, and every place is named."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from judged_world import W, World, heartbeats, publisher, steady, world_in
from sqlalchemy import update

from tallymark.deployment import AlertSettings
from tallymark_audit.alerts.rules import Facts, Rules
from tallymark_audit.cli import command
from tallymark_audit.collector.judging.hop_loop import log_verdict
from tallymark_audit.events.events import Gap
from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.reading.alarms import watching
from tallymark_audit.store.schema import tables

RULES = Rules(AlertSettings(), W, 30_000, "http://c")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path) as made:
        yield made


def invoke(world: World, *arguments: str) -> str:
    settings = str(world.deployment.data_dir / "tallymark.toml")
    name, *rest = arguments
    result = CliRunner().invoke(
        command, [name, "--settings", settings, *rest], env={"COLUMNS": "300"}
    )
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", ["verdicts", "incidents", "repair", "scrub"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_range_that_ends_before_it_begins_is_no_good_answer(name: str, order: int) -> None:
    """Asked with both dates exchanged, ``repair`` said that nothing is missing, ``incidents`` that
    nothing went wrong."""
    bounds = [["--from", "2026-02-01"], ["--to", "2026-01-31"]][::order]
    result = CliRunner().invoke(command, [name, *bounds[0], *bounds[1]])
    assert result.exit_code == 2
    assert "--to has to be after --from" in result.output


def corrupt(changed: int) -> Verdict:
    cell = CellVerdict(CellKey("t", 0, 0, "web", "aa" * 8), State.CORRUPT, 304, 304, corrupt=(0,))
    return Verdict("dc1-to-aggregate", "t", 0, State.CORRUPT, 304, 304, cells=(cell,))


def test_the_alert_says_how_many_messages_are_changed(world: World) -> None:
    """Three messages of a window were changed: "304 messages in windows with changed ones", which
    is how many the window had."""
    with world.store.write() as connection:
        record_verdicts(connection, [corrupt(3)], COLLECTOR, 1)
    edges = ["dc1-to-aggregate"]
    for changed, said in (
        ([], "t on dc1-to-aggregate: 1 windows with messages changed on the way"),
        ([[0, 1, 1], [0, 2, 2], [0, 7, 7]], "t on dc1-to-aggregate: 3 messages changed on the way"),
    ):
        with world.store.write() as connection:
            row = connection.execute(tables.verdicts.select()).mappings().one()
            cells = [{**cell, "changed": changed} for cell in row["cells"]]
            connection.execute(update(tables.verdicts).values(cells=cells))
            found = watching.corrupt_windows(connection, edges)
        (alert,) = RULES.judge(Facts(corrupt=found), 1000)
        assert alert.annotations["summary"] == said


def test_counters_that_differ_in_the_state_only_do_not_differ_by_0_messages() -> None:
    """Spark said CORRUPT and the collector COMPLETE: "0 messages counted differently"."""
    one = watching.WrongWindows("dc1-to-aggregate", "t", 2, 0, 0)
    (alert,) = RULES.judge(Facts(disagreements=[one]), 1000)
    assert alert.annotations["summary"].endswith(": 2 windows judged otherwise by Spark")
    (alert,) = RULES.judge(Facts(disagreements=[one._replace(messages=5)]), 1000)
    assert alert.annotations["summary"].endswith(": 5 messages counted differently by Spark")


def test_the_log_says_what_is_wrong_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """A collector logged "CORRUPT (0 missing, 0 duplicates, 0 unclaimed)"."""
    with caplog.at_level(logging.WARNING):
        log_verdict(corrupt(1))
        log_verdict(Verdict("dc1-to-aggregate", "t", 0, State.LOSS, 9, 6, missing=3))
    first, second = caplog.messages
    assert first.endswith("CORRUPT (changed messages in 1 blocks of 1024 sequences)")
    assert second.endswith("LOSS (3 missing)")


def test_what_may_still_come_is_pending(world: World) -> None:
    """A window that was still settling "missed" 5 messages, in the API and on the terminal: they
    were under way."""
    one = publisher(world, "dc1", b"a")
    one.publish(world.now + 10, 5, lose=5)
    one.report(world.now)
    world.run(1000)
    (row,) = json.loads(invoke(world, "verdicts", "--json"))
    assert (row["state"], row["pending"], row["missing"]) == (State.SETTLING, 5, 0)
    cells = json.loads(invoke(world, "evidence", row["edge"], "t", str(row["window"]), "--json"))
    (cell,) = cells["verdicts"][0]["cells"]
    assert (cell["pending"], cell["missing"], cell["missing_count"]) == ([0, 4], [], 0)
    assert "pending: 0-4" in invoke(world, "evidence", row["edge"], "t", str(row["window"]))
    heartbeats(world, one, ms=6000)
    (row,) = json.loads(invoke(world, "verdicts", "--json"))
    assert (row["state"], row["pending"], row["missing"]) == (State.LOSS, 0, 5)


def test_evidence_has_what_was_wrong_before_it_was_mended(world: World) -> None:
    """After the repair the page still named the lost messages and their offsets, the command did
    not: a window that is COMPLETE has no cells."""
    place = "dc1-to-aggregate", "t", 60_000
    key = CellKey("t", 0, 60_000, "web-7", "00112233445566aa")
    cell = CellVerdict(key, State.LOSS, 10, 8, RangeSet.single(5, 6), 2)
    with world.store.write() as connection:
        lost = Verdict(*place, State.LOSS, claimed=10, observed=8, missing=2, cells=(cell,))
        record_verdicts(connection, [lost], COLLECTOR, 200_000)
        repair = {"at": 300_000, "edge": place[0], "topic": "t", "window": 60_000, "copied": 2}
        who = {"server": "web-7", "instance": key.instance, "sequences": [5, 6]}
        connection.execute(tables.repairs.insert().values(**repair, **who, outcome="repaired"))
        good = Verdict(*place, State.COMPLETE, claimed=10, observed=10)
        record_verdicts(connection, [good], COLLECTOR, 400_000)
    said = invoke(world, "evidence", *place[:2], "60000")
    assert "was LOSS until 1970-01-01T00:06:40Z: what was named then" in said
    assert "5-6" in said.partition("was LOSS")[2]
    assert "what was said of it" in said
    assert "repaired" in said.partition("repairs")[2]
    found = json.loads(invoke(world, "evidence", *place[:2], "60000", "--json"))
    assert found["was"]["cells"][0]["missing"] == [5, 6]


def test_live_reporters_live(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of a group had been dead for minutes, and ``reporters --live`` had it still, without
    its group."""
    one, two = publisher(world, "dc1", b"a"), publisher(world, "dc1", b"b")
    one.report(world.now)
    two.report(world.now)
    heartbeats(world, one, ms=6000)
    with world.store.write() as connection:
        table = tables.reporters
        named = update(table).where(table.c.instance == one.instance.hex())
        connection.execute(named.values(consumer_group="billing"))
    monkeypatch.setattr("time.time_ns", lambda: world.now * 1_000_000)
    living = invoke(world, "reporters", "--live")
    assert one.tally.identity.reporter in living
    assert "billing" in living
    assert two.tally.identity.reporter not in living
    assert "silent" in invoke(world, "reporters")
    (row,) = json.loads(invoke(world, "reporters", "--live", "--json"))
    assert row["instance"] == one.instance.hex()


def test_a_cut_upstream_names_its_offsets_and_what_happened(world: World) -> None:
    """ "could not copy these upstream offsets: truncation": it named none, and they were copied."""
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=1000)
    world.mirror_reports("dc1", [Gap("t", 0, 12, 19, "truncation", world.now)])
    heartbeats(world, one)
    window = str(min(world.states("dc1-to-aggregate")))
    said: Any = invoke(world, "evidence", "dc1-to-aggregate", "t", window)
    assert "aggregate t-0 offsets 12-19" in said
    assert "had copied these upstream offsets, and upstream has lost them since" in said
    assert "could not copy" not in said
