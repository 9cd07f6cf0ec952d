"""``tallymark audit alerts`` and ``wait``: the alerts, and waiting until everything has arrived."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import click
from rich.table import Table
from sqlalchemy.exc import SQLAlchemyError

from tallymark.deployment import Deployment, load
from tallymark.errors import UserError
from tallymark.shell.output import print_line, print_table
from tallymark.untrusted import escaped
from tallymark_audit.alerts.alerter import post_test
from tallymark_audit.cli import options
from tallymark_audit.collector.collector import wall_clock
from tallymark_audit.decisions import Decider
from tallymark_audit.model.cells import GROUP
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.model.time_format import utc
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.judged import alerts as stored
from tallymark_audit.store.reading import paging
from tallymark_audit.store.schema.rows import Row, holes_of
from tallymark_audit.tables import plain

UNDECIDED: Final = 4
"""The exit code of ``wait`` in vain, as of a reconciliation that cannot be decided yet."""
POLL_SECONDS: Final = 1.0
GOING_ON: Final = ("pending", "firing")
_DURATION: Final = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Duration(click.ParamType[int]):
    """``90s``, ``30m``, ``2h`` or ``1d``, as seconds."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Seconds."""
        if isinstance(value, int):
            return value
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no duration: give 90s, 30m, 2h or 1d", param, ctx)
        return int(found[1]) * _SECONDS[found[2]]


@click.command()
@options.settings
@click.option("--all", "everything", is_flag=True, help="Those that are over, too.")
@options.newest("The newest so many.")
@click.option("--test", is_flag=True, help="Post an alert that says it is a test.")
@click.option("--pause", type=Duration(), help="Send no alerts for so long: 30m, 2h.")
@click.option("--resume", is_flag=True, help="End a pause.")
@options.as_json
def alerts(
    settings: str | None,
    everything: bool,
    limit: int,
    test: bool,
    pause: int | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Show what is wrong now, since when, and what was sent to the webhook.

    In a pause (a maintenance) alerts are listed and counted, but not sent; those that still go on
    at its end are sent then.
    """
    deployment = load(settings)
    if test:
        _post_test(deployment)
        return
    now = wall_clock()
    with open_store(deployment.audit_store) as store:
        if pause is not None or resume:
            Decider(store, deployment).pause(0 if resume else (pause or 0) * 1000)
        with store.read() as connection:
            statuses = () if everything else GOING_ON
            rows = paging.alert_page(connection, statuses, None, limit)
            until = stored.paused_until(connection)
    if as_json:
        paused = until if until > now else None
        click.echo(json.dumps({"paused_until": paused, "alerts": rows}, indent=2))
        return
    _show(rows)
    if until > now:
        click.echo(f"no alert is sent until {utc(until)}")


@click.command()
@options.settings
@click.option("--edge", required=True, help="The edge, as in dc1-to-aggregate.")
@click.option("-t", "--topic", required=True, help="The topic, as it is called upstream.")
@click.option(
    "--through", required=True, type=options.Time(), help="ISO (UTC), ms, or 10m: ten minutes ago."
)
@click.option(
    "--timeout", type=Duration(), default="1h", show_default=True, help="At most so long."
)
def wait(settings: str | None, edge: str, topic: str, through: int, timeout: int) -> None:
    """Wait until a topic is complete through a time, for schedulers.

    Exits with 0 when it is, with 4 when it is not by the end of the timeout, and says what holds
    it.
    """
    deployment = load(settings)
    _check_edge(deployment, edge)
    with open_store(deployment.audit_store) as store:
        row = wait_for(lambda: _read(store, edge, topic), through, timeout)
    if row is not None and row["through"] >= through:
        print_line(f"{topic} on {edge} is complete through {utc(row['through'])}")
        return
    click.echo(escaped(_still(edge, topic, row)), err=True)
    sys.exit(UNDECIDED)


def wait_for(
    read: Callable[[], Row | None],
    through: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Row | None:
    """The watermark as soon as it has come to ``through`` (ms), or as it is when the time is over.
    A store that is away meanwhile is waited for; UserError: it is so at the end."""
    deadline = clock() + seconds
    while True:
        left = deadline - clock()
        try:
            row = read()
        except SQLAlchemyError as error:
            if left <= 0:
                raise UserError(f"the audit store cannot be read: {error}", "see its log") from None
        else:
            if left <= 0 or (row is not None and row["through"] >= through):
                return row
        sleep(max(0.0, min(POLL_SECONDS, left)))


def _read(store: Store, edge: str, topic: str) -> Row | None:
    with store.read() as connection:
        rows = paging.watermarks_of(connection, [(edge, topic)])
    return rows[0] if rows else None


def _check_edge(deployment: Deployment, edge: str) -> None:
    """A misspelt edge would be waited for in vain. Groups are also found by themselves."""
    names = [one.name for one in derive_edges(deployment)]
    if edge not in names and f"-to-{GROUP}" not in edge:
        raise UserError(f"there is no edge {edge!r}", f"there are: {', '.join(names)}")


def _still(edge: str, topic: str, row: Row | None) -> str:
    if row is None:
        return f"nothing is known of {topic} on {edge} yet"
    holes = [
        f"{utc(window)} is {state}" for window, state, accepted in holes_of(row) if not accepted
    ]
    why = f"; {holes[0]}" if holes else ""
    return f"{topic} on {edge} is complete through {utc(row['through'])} only{why}"


def _post_test(deployment: Deployment) -> None:
    refused = post_test(deployment)
    if refused is not None:
        raise UserError(
            f"the test alert was not taken: {refused.reason}",
            "see webhook under [audit.alerts] in the settings",
        )
    click.echo("the webhook has taken a test alert")


def _show(rows: list[Row]) -> None:
    if not rows:
        click.echo("nothing is wrong")
        return
    table = Table("since", "alert", "about", "status", "told", "what", box=None)
    for row in rows:
        labels = row["labels"]
        about = [text for name, text in labels.items() if name not in ("alertname", "severity")]
        ended = f" {utc(row['ends_at'])}" if row["status"] == "resolved" else ""
        table.add_row(
            utc(row["starts_at"]),
            plain(row["rule"].removeprefix("Tallymark")),
            plain(" ".join(about)),
            row["status"] + ended,
            row["told"] or "not yet",
            plain(row["annotations"].get("summary", "")),
        )
    print_table(table)
