"""``tallymark load``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click

from tallymark.clock import now_ms
from tallymark.deployment import load as load_settings
from tallymark.errors import UserError
from tallymark_audit.model.time_format import parse_time
from tallymark_spark_jobs.cli.shared import SparkOptions, engine_of, require_lake, spark_options

if TYPE_CHECKING:
    from tallymark_spark_jobs.engine.progress import Steps
    from tallymark_spark_jobs.engine.running import Engine
    from tallymark_spark_jobs.load.job import LoadJob
    from tallymark_spark_jobs.load.outcome import Outcome

STDOUT = Path("-")


class _Options(SparkOptions):
    """What the command line gave, by the names of the parameters."""

    settings: str | None
    clusters: tuple[str, ...]
    topics: str | None
    since: str | None
    max_rows: int | None
    accept_gap: bool
    repair: Path | None
    compact: bool
    sweep: bool
    here: bool
    dry_run: bool
    json_file: Path | None


@click.command("load")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
@click.option("--cluster", "clusters", multiple=True, help="Only it, of those that are loaded.")
@click.option(
    "-t", "--topic", "topics", metavar="REGEX", help="Only topics whose whole name matches."
)
@click.option(
    "--since",
    metavar="TIME",
    help="Where partitions begin that were never loaded: date or time, UTC, or 2h: two hours ago."
    "  [default: their beginning]",
)
@click.option(
    "--max-rows", type=click.IntRange(1), metavar="N", help="Leave what is beyond for the next run."
)
@click.option(
    "--accept-gap",
    is_flag=True,
    help="Load on behind offsets that were deleted before they were loaded, or that cannot be read,"
    " and record them as lost.",
)
@click.option(
    "--repair",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PLAN",
    help="Load again only what this plan of tallymark audit repair says that the lake lacks.",
)
@click.option("--compact", is_flag=True, help="Then join small files of the tables.")
@click.option(
    "--sweep", is_flag=True, help="Then delete files that no commit names, older than a week."
)
@click.option("--here", is_flag=True, help="In this process, without Spark: for small loads.")
@spark_options
@click.option("--dry-run", is_flag=True, help="Show what would be loaded, and load nothing.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, allow_dash=True),
    is_flag=False,
    flag_value=STDOUT,
    metavar="[FILE]",
    help="Print the result as JSON, and nothing else; or write it to a file.",
)
def load(**given: Unpack[_Options]) -> None:
    """Load topics into the lake: every message exactly once, in one commit a table.

    Begins where the tables end and ends where the logs end now. It may be stopped, killed and
    started again at any time, and run twice at once. Exits with 0 when everything is loaded, 3 when
    offsets are left that need a decision, 4 when all is loaded but the audit could not be notified
    or files not be joined, 1 on an error.
    """
    job = _job(given)
    from tallymark_spark_jobs.engine.progress import Steps
    from tallymark_spark_jobs.load.outcome import lines_of, to_json

    if given["dry_run"]:
        _preview(job, given["json_file"])
        return
    steps = Steps(lambda text: click.echo(text, err=True))
    if given["repair"] is not None:
        outcome = _repaired(job, given["repair"], steps)
    else:
        outcome = _here(job, steps) if given["here"] else _on_spark(job, engine_of(given), steps)
    _show(to_json(outcome), lines_of(outcome), given["json_file"])
    _tell_lineage(job, outcome)
    sys.exit(int(outcome.state))


def _job(given: _Options) -> LoadJob:
    """What the options ask for."""
    deployment = load_settings(given["settings"])
    require_lake(deployment, spark=not (given["here"] or given["dry_run"] or given["repair"]))
    from tallymark_spark_jobs.load.job import LoadJob

    return LoadJob(
        deployment,
        given["clusters"],
        given["topics"],
        None if given["since"] is None else parse_time(given["since"], now_ms()),
        given["accept_gap"],
        given["max_rows"],
        joins=given["compact"],
        sweeps=given["sweep"],
    )


def _here(job: LoadJob, steps: Steps) -> Outcome:
    from tallymark_spark_jobs.load.job import run_job, topics_to_load
    from tallymark_spark_jobs.load.landing import land_here

    return run_job(job, topics_to_load(job), land_here, steps)


def _repaired(job: LoadJob, plan: Path, steps: Steps) -> Outcome:
    """Without Spark: a repair reads few records."""
    from tallymark_spark_jobs.load.job import run_repair, topics_to_load
    from tallymark_spark_jobs.load.landing import land_here

    return run_repair(job, topics_to_load(job), plan, land_here, steps)


def _on_spark(job: LoadJob, engine: Engine, steps: Steps) -> Outcome:
    """Spark is started once it is known that there is something to load."""
    from tallymark_spark_jobs.engine.running import spark_job
    from tallymark_spark_jobs.load.job import run_job, topics_to_load
    from tallymark_spark_jobs.load.landing import land_here
    from tallymark_spark_jobs.load.on_spark import lander_on
    from tallymark_spark_jobs.load.run import plan_only

    loads = topics_to_load(job)
    plans = plan_only(loads, job.settings())
    if not any(plan.ranges for plan in plans):
        return run_job(job, loads, land_here, steps)
    rows = sum(plan.offsets for plan in plans)
    with spark_job("tallymark-load", job.deployment.log_dir, engine, steps, rows) as spark:
        cores = spark.sparkContext.defaultParallelism
        return run_job(job, loads, lander_on(spark), steps, cores)


def _tell_lineage(job: LoadJob, outcome: Outcome) -> None:
    """What was written, to a catalogue of lineage, where the environment names one."""
    from tallymark_spark_jobs.engine.openlineage import LoadedTable, run_event, send

    tables = [
        LoadedTable(
            server=job.deployment.cluster(one.cluster).bootstrap_servers.partition(",")[0],
            topic=one.topic,
            location=one.location,
            rows=one.rows,
            bytes=one.bytes,
            files=one.files,
            version=one.commits[-1].version if one.commits else None,
            missing=(*(f"{gap}: {why}" for gap, why in one.lost), *one.problems.values()),
        )
        for one in outcome.results
    ]
    namespace = os.environ.get("OPENLINEAGE_NAMESPACE", job.deployment.name)
    event = run_event("tallymark-load", outcome.run, now_ms(), namespace, tables)
    if failed := send(event, os.environ):
        click.echo(failed, err=True)


def _preview(job: LoadJob, file: Path | None) -> None:
    from tallymark_spark_jobs.load import preview
    from tallymark_spark_jobs.load.job import topics_to_load
    from tallymark_spark_jobs.load.run import plan_only

    loads = topics_to_load(job)
    told = preview.to_json(loads, plan_only(loads, job.settings()))
    _show(told, list(preview.lines_of(told)), file)


def _show(told: dict[str, Any], lines: list[str], file: Path | None) -> None:
    text = json.dumps(told, indent=1)
    if file == STDOUT:
        click.echo(text)
        return
    for line in lines:
        click.echo(line)
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}", "give another file") from error
