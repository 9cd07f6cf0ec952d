"""``tallymark audit alerts`` and ``wait``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy.exc import OperationalError
from webhook_receiver import Receiver, webhook_receiver

from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark_audit.cli import alerts as watching
from tallymark_audit.cli import collect as running
from tallymark_audit.cli import decisions as deciding
from tallymark_audit.cli import verdicts as looking
from tallymark_audit.model.time_format import parse_time
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.judged import alerts as stored
from tallymark_audit.store.judged.window_at import window_at
from tallymark_audit.store.schema.tables import alerts, verdicts, watermarks

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
EDGE = "dc1-to-aggregate"


class Rig:
    """A deployment in a folder, its store, and the commands on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = folder / "deployment.toml"
        self.settle("")
        self.store: Store = open_store(Deployment(data_dir=folder).audit_store)

    def settle(self, more: str) -> None:
        self.settings.write_text(f'data_dir = "{self.folder}"\n{more}')

    def run(self, command: Any, *arguments: str) -> Result:
        return CliRunner().invoke(command, ["--settings", str(self.settings), *arguments])

    def alerts(self, *arguments: str) -> Result:
        return self.run(watching.alerts, *arguments)

    def wait(self, *arguments: str, topic: str = "clicks") -> Result:
        return self.run(watching.wait, "--topic", topic, "--timeout", "0s", *arguments)

    def put(self, table: Any, **values: Any) -> None:
        with self.store.write() as connection:
            connection.execute(table.insert().values(**values))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.store.close()


def fill(rig: Rig) -> None:
    labels = {"alertname": "TallymarkMissingMessages", "severity": "critical", "edge": EDGE}
    told = {"labels": labels, "annotations": {"summary": "41 [b]messages"}, "starts_at": NOON}
    rule = "TallymarkMissingMessages"
    rig.put(alerts, fingerprint="a", rule=rule, status="firing", **told)
    rig.put(alerts, fingerprint="b", rule=rule, status="resolved", ends_at=NOON, **told)


def test_times_may_be_so_long_ago_and_any_in_a_window(rig: Rig) -> None:
    """``audit evidence EDGE TOPIC 5m`` was no time, and 12:00:07 no window: one had to know when
    windows begin."""
    row = {"edge": EDGE, "topic": "clicks", "window": NOON, "state": "LOSS"}
    with rig.store.write() as connection:
        assert window_at(connection, EDGE, "clicks", NOON + 7, 60_000) == NOON + 7
    rig.put(verdicts, **_filled(verdicts, row))
    with rig.store.read() as connection:
        for moment in (NOON, NOON + 7_000, NOON + 59_999):
            assert window_at(connection, EDGE, "clicks", moment, 60_000) == NOON
        for moment in (NOON - 1, NOON + 60_000):
            assert window_at(connection, EDGE, "clicks", moment, 60_000) == moment
        assert window_at(connection, EDGE, "other", NOON + 7, 60_000) == NOON + 7
    told = rig.run(deciding.accept, EDGE, "clicks", "2026-01-01T12:00:07Z", "--by", "me")
    assert "2026-01-01T12:00:00Z is LOSS and accepted" in told.output
    assert parse_time("5m", NOON) == NOON - 300_000
    assert rig.run(looking.verdicts, "--from", "2h", "--json").output.strip() == "[]"
    assert rig.wait("--edge", EDGE, "--through", "1h").exit_code == watching.UNDECIDED
    assert "is no time" in rig.wait("--edge", EDGE, "--through", "5 minutes").output.replace(
        "not a time", "is no time"
    )


def _filled(table: Any, given: dict[str, Any]) -> dict[str, Any]:
    """A row with what has no default, empty."""
    empty = {int: 0, str: "", list: [], dict: {}}
    return {
        column.name: given.get(column.name, empty.get(column.type.python_type, []))
        for column in table.columns
        if column.name in given or not (column.nullable or column.default is not None)
    }


def test_a_collector_is_told_its_cluster_by_address_too(rig: Rig) -> None:
    nowhere = rig.run(running.replay_journals, "-b", "127.0.0.1:1")
    assert isinstance(nowhere.exception, UserError)
    assert "no cluster of the settings is at 127.0.0.1:1" in str(nowhere.exception)
    assert "--bootstrap-server" in rig.run(running.replay_journals).output
    assert "--bootstrap-server" in rig.run(running.collect).output


def test_alerts_are_listed(rig: Rig) -> None:
    assert "nothing is wrong" in rig.alerts().output
    fill(rig)
    text = rig.alerts().output
    assert text.count("MissingMessages") == 1
    assert "2026-01-01T12:00:00Z" in text
    assert "41 [b]messages" in text
    assert rig.alerts("--all").output.count("MissingMessages") == 2
    found = json.loads(rig.alerts("--json").output)
    assert found["paused_until"] is None
    assert [one["fingerprint"] for one in found["alerts"]] == ["a"]


def test_a_pause_and_its_end(rig: Rig) -> None:
    assert "no alert is sent until" in rig.alerts("--pause", "2h").output
    with rig.store.read() as connection:
        assert stored.paused_until(connection) > 0
    assert "no alert is sent" in rig.alerts().output
    assert "no alert is sent" not in rig.alerts("--resume").output
    assert rig.alerts("--pause", "soon").exit_code == 2


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with webhook_receiver() as receiver:
        yield receiver


def test_a_test_alert(rig: Rig, receiver: Receiver) -> None:
    failed = rig.alerts("--test")
    assert isinstance(failed.exception, UserError)
    assert "[audit.alerts]" in str(failed.exception)
    rig.settle(f'[audit.alerts]\nwebhook = "{receiver.url}"\n')
    assert "has taken a test" in rig.alerts("--test").output
    receiver.mood = "refuses"
    failed = rig.alerts("--test")
    assert isinstance(failed.exception, UserError)
    assert "answered 500" in str(failed.exception)


def test_waiting_ends_with_what_a_scheduler_understands(rig: Rig) -> None:
    through = ("--edge", EDGE, "--through", "2026-01-01T12:00")
    unknown = rig.wait(*through)
    assert (unknown.exit_code, "nothing is known" in unknown.output) == (4, True)
    mark = {"edge": EDGE, "horizon": NOON, "at": NOON}
    rig.put(watermarks, topic="clicks", through=NOON - 1, holes=[[NOON - 5, "LOSS", False]], **mark)
    rig.put(watermarks, topic="views", through=NOON, holes=[], **mark)
    held = rig.wait(*through)
    assert held.exit_code == 4
    assert "11:59:59Z is LOSS" in held.output
    done = rig.wait(*through, topic="views")
    assert done.exit_code == 0
    assert "complete through 2026-01-01T12:00:00Z" in done.output


def test_a_misspelt_edge_is_not_waited_for(rig: Rig) -> None:
    failed = rig.wait("--edge", "dc1-to-agregate", "--through", "0")
    assert isinstance(failed.exception, UserError)
    assert EDGE in str(failed.exception)


class Time:
    """Passes only by sleeping."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_it_looks_again_until_it_is_there() -> None:
    at, marks = Time(), iter([None, {"through": 5}, {"through": 10}])
    assert watching.wait_for(lambda: next(marks), 10, 60, at, at.sleep) == {"through": 10}
    assert at.now == 2


def test_it_waits_no_longer_than_it_was_told() -> None:
    at = Time()
    assert watching.wait_for(lambda: {"through": 1}, 10, 2.5, at, at.sleep) == {"through": 1}
    assert at.now == 2.5


def test_a_store_that_comes_back_is_waited_for() -> None:
    at = Time()

    def read() -> dict[str, Any]:
        if at.now < 3:
            raise OperationalError("select", {}, Exception("gone"))
        return {"through": 10}

    assert watching.wait_for(read, 10, 60, at, at.sleep) == {"through": 10}
    at.now = 0
    with pytest.raises(UserError, match="cannot be read"):
        watching.wait_for(read, 10, 2, at, at.sleep)
