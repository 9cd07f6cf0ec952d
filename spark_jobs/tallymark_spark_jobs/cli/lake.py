"""``tallymark lake``: what is in the lake, and its upkeep. No Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tallymark.clock import now_ms
from tallymark.deployment import load
from tallymark.errors import UserError
from tallymark_audit.model.time_format import utc
from tallymark_spark_jobs.cli.lake_check import check

if TYPE_CHECKING:
    from tallymark_spark_jobs.lake.committing import CommittedTable
    from tallymark_spark_jobs.lake.opening import Lake
    from tallymark_spark_jobs.lake.table import Commit

_MB = 1 << 20
_HOUR_MS = 3_600_000

_settings = click.option("--settings", type=click.Path(), help="The settings file.")
_cluster = click.option("--cluster", help="Only the tables of this cluster.")
_topic = click.option("-t", "--topic", help="Only the tables of this topic.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, an object a line.")


@click.group("lake")
def lake() -> None:
    """Look into the lake, and keep its files in order."""


lake.add_command(check)


@lake.command("tables")
@_settings
@_cluster
@_topic
@_as_json
def tables(settings: str | None, cluster: str | None, topic: str | None, as_json: bool) -> None:
    """List the tables: version, rows, files and size."""
    for name, table in _tables(_lake(settings), cluster, topic):
        snapshot = table.open()
        files = list(snapshot.files())
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        told = {
            "table": name,
            "version": snapshot.version,
            "rows": rows,
            "files": len(files),
            "bytes": size,
            "location": table.location,
        }
        text = f"{name}: version {snapshot.version}, {rows:,} rows in {len(files):,} files"
        _tell(told, f"{text}, {size / _MB:,.1f} MB", as_json)


@lake.command("history")
@_settings
@_cluster
@_topic
@click.option("--since", default=0, type=click.IntRange(0), help="The first version shown.")
@_as_json
def history(
    settings: str | None, cluster: str | None, topic: str | None, since: int, as_json: bool
) -> None:
    """What each version of a table brought, oldest first."""
    for name, table in _tables(_lake(settings), cluster, topic):
        for commit in table.history(since):
            _tell(_of_commit(name, commit), _line(name, commit), as_json)


@lake.command("files")
@_settings
@_cluster
@_topic
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="Only this day, 2026-01-31, UTC.")
@click.option("--hour", type=click.IntRange(0, 23), help="Only this hour, 08.")
def files(
    settings: str | None,
    cluster: str | None,
    topic: str | None,
    date: datetime | None,
    hour: int | None,
) -> None:
    """The addresses of the files that hold the rows, for any program that reads Parquet.

    The folder itself holds more: files of tasks that died, and those that were joined."""
    from tallymark_spark_jobs.lake.reading import addresses

    day, of_day = date and f"{date:%Y-%m-%d}", None if hour is None else f"{hour:02}"
    for _, table in _tables(_lake(settings), cluster, topic):
        for address in addresses(
            table.storage,
            table.open(),
            lambda place: day in (None, place.date) and of_day in (None, place.hour),
        ):
            click.echo(address)


@lake.command("compact")
@_settings
@_cluster
@_topic
@_as_json
def compact_command(
    settings: str | None, cluster: str | None, topic: str | None, as_json: bool
) -> None:
    """Join small files up to lake.target_file_mb. Loads may run beside it."""
    from tallymark_spark_jobs.lake.compaction import compact

    deployment = load(settings)
    target = deployment.lake.target_file_mb * _MB if deployment.lake else 0
    for name, table in _tables(_lake(settings), cluster, topic):
        done = compact(table, target, job=f"compact {now_ms()}")
        told: dict[str, Any] = {"table": name}
        told.update((key, getattr(done, key)) for key in type(done).__slots__)
        text = f"{name}: {done.files_before:,} files became {done.files_after:,}"
        if done.given_up:
            text += f"; {done.given_up:,} were changed by others in the meantime"
        _tell(told, text, as_json)


@lake.command("sweep")
@_settings
@_cluster
@_topic
@click.option(
    "--older-than-hours",
    "hours",
    default=168,
    show_default=True,
    type=click.IntRange(1),
    help="Files that are younger stay: longer than any load takes.",
)
@click.option(
    "--history-days",
    default=365,
    show_default=True,
    type=click.IntRange(1),
    help="Iceberg: versions that are older are forgotten first, and what they had counted.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@_as_json
def sweep_command(
    settings: str | None,
    cluster: str | None,
    topic: str | None,
    hours: int,
    history_days: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete files that no version of a table names: those of tasks that died."""
    from tallymark_spark_jobs.lake.committing import Raced
    from tallymark_spark_jobs.lake.sweep import sweep

    for name, table in _tables(_lake(settings), cluster, topic):
        if not dry_run:
            with suppress(Raced):  # it is done the next time
                table.forget(history_days)
        swept = sweep(table, hours * _HOUR_MS, dry_run=dry_run)
        told = {"table": name, "files": list(swept.files), "bytes": swept.bytes}
        verb = "would be deleted" if dry_run else "deleted"
        text = f"{name}: {len(swept.files):,} files {verb}, {swept.bytes / _MB:,.1f} MB"
        _tell(told, text, as_json)


def _lake(settings: str | None) -> Lake:
    """The lake of the settings. UserError: there is none."""
    from tallymark_spark_jobs.lake.opening import Lake

    deployment = load(settings)
    if deployment.lake is None:
        raise UserError(
            "the settings have no lake", "add a table [lake]; an empty one is enough to begin"
        )
    return Lake(deployment.lake_path, deployment.lake.format)


def _tables(
    lake: Lake, cluster: str | None, topic: str | None
) -> Iterator[tuple[str, CommittedTable[Any]]]:
    """The tables that were asked for. UserError: there is none."""
    found = False
    for each in lake.tables():
        if cluster in (None, each[0]) and topic in (None, each[1]):
            found = True
            yield "/".join(each), lake.table(*each)
    if not found:
        asked = "/".join(name for name in (cluster, topic) if name)
        raise UserError(f"{lake.path}: there is no table{f' of {asked}' if asked else ''} yet")


def _of_commit(name: str, commit: Commit) -> dict[str, Any]:
    return {
        "table": name,
        **{key: getattr(commit, key) for key in type(commit).__slots__ if key != "detail"},
        "ranges": [
            {"topic": key.topic, "partition": key.partition, "start": start, "end": end}
            for key, start, end in commit.ranges
        ],
    }


def _line(name: str, commit: Commit) -> str:
    text = f"{name} version {commit.version}: {utc(commit.at_ms)} {commit.operation}"
    if commit.operation in ("load", "repair"):
        text += f", {commit.rows:,} rows of {len(commit.ranges):,} partitions"
    for count, what in (
        (commit.late, "late"),
        (commit.quarantined, "in quarantine"),
        (commit.gaps, "offsets without a record"),
        (commit.expired, "lost before they were loaded"),
    ):
        text += f", {count:,} {what}" if count else ""
    return f"{text} ({commit.job})"


def _tell(told: dict[str, Any], text: str, as_json: bool) -> None:
    click.echo(json.dumps(told) if as_json else text)
    sys.stdout.flush()
