"""``tallymark lake check``: are the rows that were loaded still there? No Spark."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tallymark.clock import now_ms
from tallymark.deployment import load
from tallymark.errors import UserError

if TYPE_CHECKING:
    from tallymark_spark_jobs.load.checking.check import TableCheck

DIFFERENT = 3
UNREPORTED = 4


@click.command("check")
@click.option("--settings", type=click.Path(), help="The settings file.")
@click.option("--cluster", help="Only the tables of this cluster.")
@click.option("-t", "--topic", help="Only the tables of this topic.")
@click.option(
    "--from",
    "start",
    metavar="TIME",
    help="Date or time, UTC, or 2h: two hours ago. Default: yesterday.",
)
@click.option("--to", "end", metavar="TIME", help="Excluded. Default: now.")
@click.option("--all", "everything", is_flag=True, help="Everything that the tables hold.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, an object a line.")
def check(
    settings: str | None,
    cluster: str | None,
    topic: str | None,
    start: str | None,
    end: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Count the rows of tables again, from their files.

    A load reports what its commits brought. This finds what became of it: rows that are gone, rows
    that are there twice, files that are lost, and with audit.content_check values that changed.
    What is not as the commits say is reported to the audit: the hop into the lake has LOSS or
    DUPLICATION then, and tallymark audit repair loads lost rows again. Exits with 0 when all is as
    it was loaded, 3 when it is not, 4 when the audit could not be notified, 1 on an error.
    """
    from tallymark_spark_jobs.lake.opening import lake_of
    from tallymark_spark_jobs.load.checking.check import check_table, lines_of
    from tallymark_spark_jobs.reconcile.shapes.period import parse_period

    deployment = load(settings)
    lake = lake_of(deployment)
    now = now_ms()
    period = parse_period(start, end, everything, deployment.audit.window_ms, now)
    loaded = {one.name for one in deployment.lake_clusters}
    found: list[TableCheck] = []
    for where, name in lake.tables():
        if where not in loaded or cluster not in (None, where) or topic not in (None, name):
            continue
        table = lake.table(where, name)
        bounds = period.start, period.end
        one = check_table(deployment, where, name, table, table.storage, bounds, now)
        found.append(one)
        click.echo(json.dumps(to_json(one)) if as_json else "\n".join(lines_of(one)))
        sys.stdout.flush()
    if not found:
        raise UserError(f"{lake.path}: there is no such table yet of a cluster that is loaded")
    if any(one.unreported for one in found):
        sys.exit(UNREPORTED)
    sys.exit(DIFFERENT if any(one.cells for one in found) else 0)


def to_json(one: TableCheck) -> dict[str, Any]:
    """What ``--json`` prints of a table."""
    told = asdict(one)
    told["cells"] = [
        {
            **each.key._asdict(),
            "missing": each.missing,
            "extra": each.extra,
            "changed": each.changed,
        }
        for each in one.cells
    ]
    return told
