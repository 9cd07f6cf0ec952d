"""``tallymark stream-load``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from tallymark.deployment import load as load_settings
from tallymark_spark_jobs.cli.shared import SparkOptions, engine_of, require_lake, spark_options

if TYPE_CHECKING:
    from tallymark_spark_jobs.load.job import LoadJob

CHECKPOINTS = "_checkpoints"
"""The folder of the lake for them. No cluster can have this name."""
MOST = 5_000_000


class _Options(SparkOptions):
    """What the command line gave, by the names of the parameters."""

    settings: str | None
    clusters: tuple[str, ...]
    topics: str | None
    accept_gap: bool
    every: float
    available_now: bool
    most: int | None
    checkpoint: str | None


@click.command("stream-load")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
@click.option("--cluster", "clusters", multiple=True, help="Only it, of those that are loaded.")
@click.option(
    "-t", "--topic", "topics", metavar="REGEX", help="Only topics whose whole name matches."
)
@click.option(
    "--every",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="The time from one batch to the next.",
)
@click.option(
    "--available-now", is_flag=True, help="Load all that is there now, in batches, and end."
)
@click.option(
    "--max-offsets",
    "most",
    type=click.IntRange(1),
    metavar="N",
    help="Offsets of a batch, all partitions together; needs PySpark 4.2."
    f"  [default: {MOST}, before PySpark 4.2 no limit]",
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    help="Where Spark keeps how far the stream is.  [default: _checkpoints in the lake]",
)
@click.option(
    "--accept-gap",
    is_flag=True,
    help="Load on behind offsets that were deleted before they were loaded, or that cannot be read,"
    " and record them as lost.",
)
@spark_options
def stream_load(**given: Unpack[_Options]) -> None:
    """Load topics into the lake as they come: every message exactly once, a commit a batch.

    Each batch is what tallymark load does, up to where the batch ends; both may run beside each
    other, and a batch that comes again after a crash changes nothing. Exits with 0 when it was
    stopped or everything is loaded, 3 when offsets need a decision, 4 when all is loaded but the
    audit could not be notified, 1 on an error.
    """
    job = _job(given)
    from tallymark_spark_jobs.engine.progress import Steps
    from tallymark_spark_jobs.engine.running import spark_job
    from tallymark_spark_jobs.source.streaming.stream_reader import has_limits
    from tallymark_spark_jobs.stream.query import LoadStream, StoppedError, StreamSettings

    steps = Steps(lambda text: click.echo(text, err=True))
    settings = StreamSettings(
        None if given["settings"] is None else str(Path(given["settings"]).absolute()),
        given["checkpoint"] or f"{str(job.deployment.lake_path).rstrip('/')}/{CHECKPOINTS}",
        None if given["available_now"] else given["every"],
        given["most"] or (MOST if has_limits() else 0),
    )
    with spark_job(
        "tallymark-stream-load", job.deployment.log_dir, engine_of(given), steps
    ) as spark:
        stream = LoadStream(spark, job, settings, click.echo)
        try:
            with _stops_on_sigterm():
                stream.run()
        except StoppedError as error:
            click.echo(f"stream-load: {error}", err=True)
            sys.exit(3)
        except KeyboardInterrupt:
            click.echo("stream-load: stopped", err=True)
    sys.exit(4 if stream.outcomes and stream.outcomes[-1].unreported else 0)


def _job(given: _Options) -> LoadJob:
    deployment = load_settings(given["settings"])
    require_lake(deployment, spark=True)
    from tallymark_spark_jobs.load.job import LoadJob, clusters_of

    job = LoadJob(deployment, given["clusters"], given["topics"], accept_gap=given["accept_gap"])
    list(clusters_of(job))
    return job


@contextmanager
def _stops_on_sigterm() -> Iterator[None]:
    """As on Ctrl+C: systemd and Kubernetes stop a service so."""

    def stop(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
