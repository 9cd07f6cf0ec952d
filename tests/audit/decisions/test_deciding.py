"""What people decide is in the store with who decided it, by commands and by pages alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import func, select

from tallymark.deployment import Deployment, dump_toml
from tallymark.errors import ConnectError, UserError
from tallymark.trail import COMMANDS_FILE_NAME, Doer
from tallymark_audit.cli import command
from tallymark_audit.collector.judging.locate import OffsetRange
from tallymark_audit.decisions import Decider
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.items import RepairItem
from tallymark_audit.repair.opened_clusters import OpenedClusters
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.repair.repair_run import RepairRun
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.judged import alerts
from tallymark_audit.store.judged.decisions import About
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.reading.incidents import incident
from tallymark_audit.store.reading.runs import DecisionsAsked, decision, decision_page
from tallymark_audit.store.reading.timeline import timeline
from tallymark_audit.store.schema.tables import decisions, reporters, verdicts

W, NOON = 60_000, 1_767_268_800_000
EDGE = "dc1-to-aggregate"
ALICE = Doer("User:alice", "10.0.0.9", "dashboards")


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    found = Deployment(data_dir=tmp_path)
    (tmp_path / "tallymark.toml").write_text(dump_toml(found))
    return found


@pytest.fixture
def store(deployment: Deployment) -> Iterator[Store]:
    with open_store(deployment.audit_store) as store:
        lost = Verdict(EDGE, "clicks", NOON, State.LOSS, claimed=10, observed=7, missing=3)
        with store.write() as connection:
            record_verdicts(connection, [lost], COLLECTOR, NOON + 10 * W)
            connection.execute(
                reporters.insert().values(cluster="dc1", reporter="r1", kind="producer")
            )
        yield store


def decided(store: Store, **asked: Any) -> list[dict[str, Any]]:
    with store.read() as connection:
        return decision_page(connection, DecisionsAsked(**asked))


def trail(deployment: Deployment) -> list[dict[str, Any]]:
    path = deployment.data_dir / COMMANDS_FILE_NAME
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_acceptance_says_who_and_is_found_by_its_window(
    deployment: Deployment, store: Store
) -> None:
    decider = Decider(store, deployment, ALICE, lambda: NOON + 20 * W)
    assert decider.accept(EDGE, "clicks", NOON + 5, "alice", "known") == (NOON, State.LOSS)
    (row,) = decided(store, edge=EDGE, topic="clicks", window=NOON)
    assert (row["who"], row["action"], row["note"]) == ("User:alice", "accept", "known")
    assert row["detail"] == {"state": "LOSS", "by": "alice"}
    assert decided(store, window=NOON + W) == []
    (line,) = trail(deployment)
    assert (line["who"], line["host"], line["process"]) == ("User:alice", ALICE.host, "dashboards")


def test_what_is_refused_leaves_nothing_behind(deployment: Deployment, store: Store) -> None:
    decider = Decider(store, deployment, ALICE)
    with pytest.raises(UserError, match="no verdict"):
        decider.accept(EDGE, "views", NOON, "alice")
    with pytest.raises(UserError, match="no reporter"):
        decider.retire("r2")
    assert decided(store) == []
    assert not (deployment.data_dir / COMMANDS_FILE_NAME).exists()


def test_a_pause_and_its_end(deployment: Deployment, store: Store) -> None:
    """A pause of the alerts left no trace: in the morning it was not known who had told them to be
    quiet."""
    decider = Decider(store, deployment, ALICE, lambda: NOON)
    assert decider.pause(3_600_000, "new disks") == NOON + 3_600_000
    assert decider.pause(0) == 0
    with store.read() as connection:
        assert alerts.paused_until(connection) == 0
    resume, pause = decided(store)
    assert (pause["action"], pause["detail"]) == ("pause", {"until": NOON + 3_600_000})
    assert (resume["action"], resume["detail"]) == ("resume", {})
    assert [line["action"] for line in trail(deployment)] == ["PAUSE_ALERTS", "RESUME_ALERTS"]


def test_commands_write_the_same(deployment: Deployment, store: Store) -> None:
    def run(*arguments: str) -> None:
        first, *rest = arguments
        settings = ("--settings", str(deployment.data_dir / "tallymark.toml"))
        done = CliRunner().invoke(command, [first, *settings, *rest], catch_exceptions=False)
        assert done.exit_code == 0, done.output

    run("accept", EDGE, "clicks", str(NOON), "--by", "bob", "--note", "known")
    run("accept", EDGE, "clicks", str(NOON), "--undo")
    run("retire", "r1")
    run("alerts", "--pause", "2h")
    run("alerts", "--resume")
    found = decided(store)
    actions = [row["action"] for row in found]
    assert actions == ["resume", "pause", "retire", "withdraw", "accept"]
    assert all(row["who"].startswith("os-user:") for row in found)
    with store.read() as connection:
        assert connection.scalar(select(verdicts.c.accepted_by)) == ""


def test_texts_of_any_length_are_stored(deployment: Deployment, store: Store) -> None:
    """PostgreSQL refuses a text that is longer than its column: the window was accepted, and the
    page said that it was not."""
    doer = Doer("User:" + "a" * 400, "h" * 400, "dashboards")
    Decider(store, deployment, doer).accept(EDGE, "clicks", NOON, "alice", "n" * 50_000)
    (row,) = decided(store)
    assert (len(row["who"]), len(row["host"]), len(row["note"])) == (255, 255, 2000)


def test_a_repair_that_breaks_off_says_so(deployment: Deployment, store: Store) -> None:
    class Gone(OpenedClusters):
        def reader(self, cluster: str) -> Any:
            raise ConnectError(cluster, "connect", "it cannot be reached")

    key = CellKey("clicks", 0, NOON, "web-1", "00112233445566aa")
    item = RepairItem(
        EDGE, "dc1", "aggregate", key, "clicks", RangeSet.from_list([3, 5]), 3,
        within=(OffsetRange(0, 0, 9),),
    )  # fmt: skip
    with ExitStack() as stack:
        run = RepairRun(store, deployment, Gone(deployment, stack), doer=ALICE)
        with pytest.raises(ConnectError):
            run.carry_out(RepairPlan(NOON, (item,)), About(EDGE, "clicks"), print)
    (row,) = decided(store, actions=["repair"])
    assert row["outcome"] == "broke off"
    assert row["finished_at"] >= row["at"] > 0
    assert "cannot be reached" in row["detail"]["error"]
    with store.read() as connection:
        assert decision(connection, row["id"]) == row
        assert decision(connection, 99) is None
        assert connection.scalar(select(func.count()).select_from(decisions)) == 1


def test_who_decided_is_on_the_time_line_of_the_incident(
    deployment: Deployment, store: Store
) -> None:
    Decider(store, deployment, ALICE, lambda: NOON + 20 * W).accept(
        EDGE, "clicks", NOON, "alice", "known"
    )
    with store.read() as connection:
        one = incident(connection, 1)
        assert one is not None
        moments = [m for m in timeline(connection, one, ()) if m.kind == "decision"]
    assert [(m.what, m.text, m.window) for m in moments] == [
        ("accept", "by User:alice: known", NOON)
    ]
