"""``tallymark reconcile``."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click
from rich.console import Console

from tallymark.clock import now_ms
from tallymark.deployment import load
from tallymark.errors import UserError
from tallymark.shell.target import clusters_named
from tallymark_spark_jobs.cli.shared import SparkOptions, engine_of, spark_options
from tallymark_spark_jobs.reconcile.shapes.period import parse_period

if TYPE_CHECKING:
    from tallymark_spark_jobs.engine.progress import Steps
    from tallymark_spark_jobs.engine.running import Engine
    from tallymark_spark_jobs.reconcile.outcome import Outcome
    from tallymark_spark_jobs.reconcile.run import Job

WAIT_SECONDS = 120.0
STDOUT = Path("-")
_FROM = "Date or time, UTC, or 2h: two hours ago. Default: yesterday."
MARKDOWN = (".md", ".markdown")
WIDTH = 130
"""Into a file or a narrow window whole lines are better than cut ones."""


class _Options(SparkOptions):
    """What the command line gave, by the names of the parameters."""

    settings: str | None
    clusters: tuple[str, ...]
    bootstraps: tuple[str, ...]
    start: str | None
    end: str | None
    recheck_days: int
    everything: bool
    topics: str | None
    wait: float
    json_file: Path | None
    report: Path | None
    repair_plan: Path | None
    dry_run: bool
    trust_load_counts: bool


@click.command("reconcile")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
@click.option("--cluster", "clusters", multiple=True, help="Only it, and what is mirrored into it.")
@click.option(
    "-b",
    "--bootstrap-server",
    "bootstraps",
    multiple=True,
    metavar="HOST:PORT,...",
    help="In place of its name: the cluster of the settings that is there.",
)
@click.option("--from", "start", metavar="TIME", help=_FROM)
@click.option("--to", "end", metavar="TIME", help="Excluded. Default: now.")
@click.option(
    "--recheck-days",
    type=click.IntRange(0, 3650),
    default=0,
    metavar="N",
    help="Judge so many days before that again, for what came late.",
)
@click.option("--all", "everything", is_flag=True, help="Everything that the logs hold, up to now.")
@click.option(
    "-t", "--topic", "topics", metavar="REGEX", help="Only topics whose whole name matches."
)
@spark_options
@click.option(
    "--wait",
    type=float,
    is_flag=False,
    flag_value=WAIT_SECONDS,
    default=0.0,
    metavar="[SECONDS]",
    help=f"Wait for windows to settle, at most so long ({WAIT_SECONDS:g} without a number).",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, allow_dash=True),
    is_flag=False,
    flag_value=Path("-"),
    metavar="[FILE]",
    help="Print the result as JSON, and nothing else; or write it to a file.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what is shown here: Markdown if the name ends in .md, else HTML.",
)
@click.option(
    "--repair-plan",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write what is to be copied again, for: tallymark audit repair --apply --plan FILE.",
)
@click.option(
    "--trust-load-counts",
    is_flag=True,
    help="Do not count again what loads into the lake have counted; what is not complete by their"
    " counts is counted all the same.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would be read and how long it takes, without Spark."
)
def reconcile(**given: Unpack[_Options]) -> None:
    """Reconcile with Spark: count the data of every cluster, judge every window of every edge.

    Names each lost message by server, sequence and upstream offset, and writes the verdicts to the
    audit store. Exits with 0 when all is complete, 3 with discrepancies, 4 when something cannot
    be decided yet, 1 on an error.
    """
    from tallymark_spark_jobs.engine.session import require_spark

    require_spark()  # before anything is imported that needs the extra
    from tallymark_spark_jobs.engine.progress import Steps
    from tallymark_spark_jobs.reconcile.html import with_completeness
    from tallymark_spark_jobs.reconcile.markdown import to_markdown
    from tallymark_spark_jobs.reconcile.report import print_outcome

    job = _job(given)
    json_file, report = given["json_file"], given["report"]
    if given["dry_run"]:
        _forecast(job, json_file)
        return
    outcome = run(job, engine_of(given), Steps(lambda text: click.echo(text, err=True)))
    _write(json_file, outcome)
    console = Console(
        record=report is not None,
        width=max(WIDTH, Console().width),
        file=io.StringIO() if json_file == STDOUT else None,  # standard output has the JSON
    )
    print_outcome(console, outcome)
    if report is not None:
        is_markdown = report.suffix.lower() in MARKDOWN
        page = "" if is_markdown else with_completeness(console.export_html(), outcome)
        _save(report, to_markdown(outcome) if is_markdown else page)
    if given["repair_plan"] is not None:
        _plan_repair(job, outcome, given["repair_plan"])
    sys.exit(int(outcome.state))


def _job(given: _Options) -> Job:
    """What the options ask for."""
    from tallymark_spark_jobs.reconcile.run import Job

    deployment = load(given["settings"])
    names = clusters_named(deployment, given["clusters"], given["bootstraps"])
    try:
        deployment = deployment.of_clusters(names)
    except KeyError as error:
        raise UserError(str(error.args[0]), "name one of them") from None
    window_ms = deployment.audit.window_ms
    limits = given["start"], given["end"], given["everything"]
    period = parse_period(*limits, window_ms, now_ms(), given["recheck_days"])
    lateness_ms = deployment.audit.settle_max_ms
    return Job(
        deployment,
        period,
        given["topics"],
        given["wait"],
        lateness_ms,
        trust_load_counts=given["trust_load_counts"],
    )


def run(job: Job, engine: Engine, steps: Steps) -> Outcome:
    """Start Spark, reconcile, stop Spark. UserError for all that a person can mend."""
    from tallymark_audit.store import open_store
    from tallymark_spark_jobs.engine.running import refuse_lost_store, spark_job
    from tallymark_spark_jobs.engine.session import require_spark
    from tallymark_spark_jobs.reconcile.reading.survey import survey
    from tallymark_spark_jobs.reconcile.run import reconcile as run_job

    require_spark()
    refuse_lost_store(job.deployment)
    survey(job.deployment, job.topics)  # says what is unreachable before Spark takes its time
    with (
        open_store(job.deployment.audit_store) as store,
        spark_job("tallymark-reconcile", job.deployment.log_dir, engine, steps) as spark,
    ):
        return run_job(spark, job, store, steps)


def _forecast(job: Job, json_file: Path | None) -> None:
    """What ``--dry-run`` shows."""
    from tallymark_audit.store import open_store
    from tallymark_spark_jobs.reconcile.forecast import forecast, lines_of, to_json

    with open_store(job.deployment.audit_store) as store:
        found = forecast(job, store)
    text = json.dumps(to_json(found), indent=1)
    if json_file is not None and json_file != STDOUT:
        _save(json_file, text + "\n")
    click.echo(text if json_file == STDOUT else "\n".join(lines_of(found)))


def _plan_repair(job: Job, outcome: Outcome, path: Path) -> None:
    """The plan that repairs what the store now lacks in the period, as ``tallymark audit repair``
    makes it."""
    from tallymark_audit.repair.plan import make_repair_plan
    from tallymark_audit.repair.plan_file import write_plan
    from tallymark_audit.store import open_store

    period = job.period
    with open_store(job.deployment.audit_store) as store, store.read() as connection:
        plan = make_repair_plan(connection, outcome.edges, now_ms(), period.start, period.end)
    write_plan(plan, path)


def _write(path: Path | None, outcome: Outcome) -> None:
    from tallymark_spark_jobs.reconcile.outcome import to_json

    if path == STDOUT:
        click.echo(json.dumps(to_json(outcome), indent=1))
    elif path is not None:
        _save(path, json.dumps(to_json(outcome), indent=1) + "\n")


def _save(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", "give another file") from error
