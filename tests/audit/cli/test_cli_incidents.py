"""``tallymark audit incidents`` and ``age``: after a repair the command line showed 100 % and no
trace of what had been lost; with every collector stopped it showed the same ticks for hours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prepared_store import Prepared, deployment_in, prepare

from tallymark.clock import now_ms
from tallymark.deployment import dump_toml
from tallymark.errors import UserError
from tallymark_audit.cli import alerts
from tallymark_audit.cli import incidents as happened
from tallymark_audit.cli import repair as mending
from tallymark_audit.cli import verdicts as looking
from tallymark_audit.model.time_format import utc
from tallymark_audit.store import open_store
from tallymark_audit.store.reading.age import AuditAge, SilentCollector

Run = Callable[..., Result]
Filled = tuple[Prepared, Run]


@pytest.fixture(scope="module", params=["", "dc1"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Filled]:
    folder: Path = tmp_path_factory.mktemp("store")
    deployment = deployment_in(folder)
    settings = folder / "deployment.toml"
    settings.write_text(dump_toml(deployment), encoding="utf-8")

    def run(command: Any, *arguments: str) -> Result:
        found = CliRunner().invoke(command, ["--settings", str(settings), *arguments])
        if isinstance(found.exception, UserError):
            raise found.exception
        return found

    with open_store(deployment.audit_store) as store:
        yield prepare(store, deployment, now_ms(), hours=8, stopped=request.param), run


def test_what_was_repaired_is_still_listed(filled: Filled) -> None:
    prepared, run = filled
    (loss,) = json.loads(run(happened.incidents, "--json", "--topic", "orders").output)
    assert (loss["kind"], loss["state"], loss["worst_missing"]) == ("LOSS", "REPAIRED", 12)
    assert loss["first_window"] == prepared.repaired
    told = run(happened.incidents, "--topic", "orders").output
    assert "REPAIRED" in told
    assert "0 (12)" in told
    assert "REPAIRED" not in run(happened.incidents, "--state", "OPEN").output


@pytest.mark.parametrize("command", [happened.incidents, looking.verdicts, mending.repair])
def test_a_misspelt_name_is_no_good_answer(filled: Filled, command: Any) -> None:
    """``audit incidents --topic oders`` said "nothing went wrong", and ended with 0."""
    _, run = filled
    with pytest.raises(UserError, match="knows no topic 'oders'; names like it: orders") as error:
        run(command, "--topic", "oders")
    assert error.value.exit_code == 1
    with pytest.raises(UserError, match="knows no topic '-'; see: tallymark audit overview"):
        run(command, "--topic", "-")
    with pytest.raises(UserError, match=r"no edge 'dc1-to-agr.*dc1-to-aggregate"):
        run(command, "--edge", "dc1-to-agregate")


@pytest.mark.parametrize("limit", ["0", "-1", "1000001"])
@pytest.mark.parametrize("command", [happened.incidents, looking.verdicts, alerts.alerts])
def test_a_limit_has_bounds(command: Any, limit: str) -> None:
    """``--limit -1`` printed all that SQLite holds, and ended with an error of PostgreSQL."""
    refused = CliRunner().invoke(command, ["--limit", limit])
    assert (refused.exit_code, "1<=x<=1000000" in refused.output) == (2, True)


def test_names_of_strangers_do_not_control_the_terminal(filled: Filled) -> None:
    _, run = filled
    told = run(happened.incidents).output + run(looking.overview).output
    assert "\u202e" not in told
    assert "\x1b" not in told


def test_who_is_silent_is_named(filled: Filled, request: pytest.FixtureRequest) -> None:
    _, run = filled
    stopped = request.node.callspec.params["filled"]
    found, told = run(happened.age), json.loads(run(happened.age, "--json").output)
    assert [one["cluster"] for one in told["behind"]] == ([stopped] if stopped else [])
    assert told["ok"] is not bool(stopped)
    assert found.exit_code == (happened.BEHIND if stopped else 0)
    last = found.output.splitlines()[-1]
    assert last.startswith(f"UNKNOWN since {utc(told['judged_through_ms'])}: the audit of dc1") == (
        stopped == "dc1"
    )


def test_a_collector_that_runs_is_not_asked_for() -> None:
    """The disk of the store was full: the collector had committed five seconds ago, and the command
    asked whether it was running."""
    stuck = SilentCollector("dc1", "collector-dc1", "behind", 2000, 1000, 21)
    silent = SilentCollector("dc2", "collector-dc2", "silent", 1000, 1000)
    assert happened.verdict(AuditAge((stuck,), 1000, 7000)).endswith(
        "behind by more than 7 s; its collector runs: its log says why"
    )
    assert happened.verdict(AuditAge((stuck, silent), 1000, 7000)).endswith(
        "is its collector running?"
    )


def test_the_tables_add_up(filled: Filled) -> None:
    _, run = filled
    for command in (looking.overview, looking.verdicts):
        for row in json.loads(run(command, "--json").output):
            parts = (row[name] for name in ("observed", "pending", "missing", "explained"))
            assert row["claimed"] == sum(parts)
