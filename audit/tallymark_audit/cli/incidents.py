"""``tallymark audit incidents`` and ``age``: what went wrong when, and whether the audit is as of
now."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final, Unpack

import click
from rich.table import Table
from sqlalchemy import Connection

from tallymark.clock import now_ms
from tallymark.deployment import load
from tallymark.shell.output import print_table
from tallymark_audit.cli import options
from tallymark_audit.cli.known_names import check_known
from tallymark_audit.model.time_format import duration, utc
from tallymark_audit.store import open_store
from tallymark_audit.store.counted.incidents import GIVEN_UP, UNCLEAN_ELECTION
from tallymark_audit.store.reading.age import AuditAge, audit_age
from tallymark_audit.store.reading.incidents import WhichIncidents, WindowIncident, incident_page
from tallymark_audit.store.reading.queries import all_collectors
from tallymark_audit.store.reading.records import WhichRecords, log_event_page
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.tables import plain

STATES: Final = ("OPEN", "ACCEPTED", "REPAIRED", "EXPLAINED", "RESOLVED")
BEHIND: Final = 4
"""The exit code of ``age`` while the audit is behind, as of a wait in vain."""


@click.command()
@options.listed(STATES)
@click.option(
    "--logs",
    "of_logs",
    is_flag=True,
    help="What happened to logs instead: unclean elections, records given up, cut and re-created "
    "logs, gaps.",
)
def incidents(of_logs: bool, **given: Unpack[options.Listed]) -> None:
    """What went wrong, from first sight to its end: one line a run of bad windows, newest first.

    They stay when the windows are good again, so what was wrong yesterday is still found. Unclean
    elections are listed below them.
    """
    if of_logs:
        _logs(given)
        return
    place = given["edge"], given["topic"]
    which = WhichIncidents(given["states"], (), *place, given["start"], given["end"])
    deployment = load(given["settings"])
    with open_store(deployment.audit_store) as store, store.read() as connection:
        check_known(connection, deployment, *place)
        found = incident_page(connection, which, None, given["limit"])
        replicas = _log_events(connection, given, (UNCLEAN_ELECTION, GIVEN_UP))
    if given["as_json"]:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
    elif found:
        print_table(_table(found))
    elif not replicas:
        click.echo("nothing went wrong")
    if replicas and not given["as_json"]:
        print_table(_log_table(replicas))


def _logs(given: options.Listed) -> None:
    deployment = load(given["settings"])
    with open_store(deployment.audit_store) as store, store.read() as connection:
        check_known(connection, deployment, given["edge"], given["topic"])
        found = _log_events(connection, given)
    if given["as_json"]:
        click.echo(json.dumps(found, indent=2))
    elif found:
        print_table(_log_table(found))
    else:
        click.echo("nothing happened to logs")


def _log_events(
    connection: Connection, given: options.Listed, kinds: Sequence[str] = ()
) -> list[Row]:
    which = WhichRecords(given["start"], given["end"], None, given["topic"], None, kinds)
    return log_event_page(connection, which, None, given["limit"])


def _log_table(found: Iterable[Row]) -> Table:
    table = Table("at", "cluster", "log", "offsets", "what", "why", box=None)
    for row in found:
        first, end = row["from_offset"], row["to_offset"]
        table.add_row(
            utc(row["at"]),
            plain(row["cluster"]),
            plain(f"{row['topic']}-{row['partition']}"),
            f"{first}-{end - 1}" if end > first >= 0 else str(first) if first >= 0 else "",
            row["kind"],
            plain(row["reason"]),
        )
    return table


def _table(found: Iterable[WindowIncident]) -> Table:
    """One line an incident; ``ever`` is the most that was wrong, the others are of now."""
    table = Table(
        "id", "opened", "edge", "topic", "kind", "state", "windows", "first", "last",
        "missing (ever)", "duplicates (ever)", "unclaimed (ever)", "closed", "by", box=None,
    )  # fmt: skip
    for one in found:
        table.add_row(
            str(one.id),
            utc(one.opened_at),
            plain(one.edge),
            plain(one.topic),
            one.kind,
            one.state,
            str(one.windows),
            utc(one.first_window),
            utc(one.last_window),
            _of(one.missing, one.worst_missing),
            _of(one.duplicates, one.worst_duplicates),
            _of(one.unclaimed, one.worst_unclaimed),
            utc(one.closed_at) if one.closed_at else "",
            plain(one.repaired_by),
        )
    return table


def _of(now: int, ever: int) -> str:
    return f"{now} ({ever})" if now or ever else ""


@click.command()
@options.settings
@options.as_json
def age(settings: str | None, as_json: bool) -> None:
    """Whether the audit is as of now: when each collector last committed, and which are behind.

    Exits with 4 while a cluster is not counted: what is shown of later windows is not known then.
    """
    deployment, now = load(settings), now_ms()
    with open_store(deployment.audit_store) as store, store.read() as connection:
        found = audit_age(connection, deployment, now)
        rows = {row["cluster"]: row for row in all_collectors(connection)}
    if as_json:
        click.echo(json.dumps({**asdict(found), "ok": found.ok}, indent=2))
    else:
        print_table(_ages(found, rows, [one.name for one in deployment.clusters], now))
        click.echo(verdict(found))
    if not found.ok:
        sys.exit(BEHIND)


def _ages(found: AuditAge, rows: dict[str, Row], clusters: Iterable[str], now: int) -> Table:
    table = Table("cluster", "collector", "last commit", "ago", "state", box=None)
    behind = {one.cluster: one for one in found.behind}
    for name in clusters:
        row, late = rows.get(name), behind.get(name)
        last = row["heartbeat"] if row else 0
        why = f"{late.why}, counted through {_moment(late.counted_through_ms)}" if late else "ok"
        if late and late.partitions:
            why += f", {late.partitions} partitions behind"
        ago = duration(now - last) if last else ""
        table.add_row(plain(name), plain(row["owner"] if row else ""), _moment(last), ago, why)
    return table


def _moment(ms: int) -> str:
    return utc(ms) if ms > 0 else "never"


def verdict(found: AuditAge) -> str:
    """Whether the audit is as of now, in a line. Pure."""
    if found.ok:
        return f"the audit is as of now: counted through {_moment(found.judged_through_ms)}"
    names = ", ".join(plain(one.cluster) for one in found.behind)
    stuck = all(one.why == "behind" for one in found.behind)
    return (
        f"UNKNOWN since {_moment(found.judged_through_ms)}: the audit of {names} is behind by more "
        f"than {duration(found.allowed_ms)}; "
        + ("its collector runs: its log says why" if stuck else "is its collector running?")
    )
