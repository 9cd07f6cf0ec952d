"""A load of a deployment: which topics, which tables, and what is reported to the audit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tallymark.client.core.security.deployment import connection_settings
from tallymark.clock import now_ms
from tallymark.deployment import Cluster, Deployment
from tallymark.errors import UserError
from tallymark_audit.repair.plan_file import read_plan
from tallymark_audit.repair.reloads import reloads_of
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.lake.opening import Lake, lake_of, lake_settings
from tallymark_spark_jobs.lake.table import Commit
from tallymark_spark_jobs.load.landing import Lander
from tallymark_spark_jobs.load.logs import topics_of
from tallymark_spark_jobs.load.names import run_name
from tallymark_spark_jobs.load.outcome import Outcome
from tallymark_spark_jobs.load.repairs import repair
from tallymark_spark_jobs.load.reporting import report
from tallymark_spark_jobs.load.run import run_load
from tallymark_spark_jobs.load.shapes import LoadSettings, TopicLoad
from tallymark_spark_jobs.load.upkeep import keep_up
from tallymark_spark_jobs.load.writing.formats import RAW, RowFormat


@dataclass(frozen=True, slots=True)
class LoadJob:
    """What is asked for. ``clusters``: by name, empty for all that the settings load; ``topics``: a
    regular expression; ``since`` (ms): where partitions begin that no table knows. ``joins`` and
    ``sweeps``: join small files, and delete those that no commit names, afterwards."""

    deployment: Deployment
    clusters: tuple[str, ...] = ()
    topics: str | None = None
    since: int | None = None
    accept_gap: bool = False
    max_rows: int | None = None
    rows_per_commit: int = 50_000_000
    joins: bool = False
    sweeps: bool = False
    as_of: int = field(default_factory=now_ms)

    @property
    def lake(self) -> Lake:
        """The lake of the settings. UserError: they have none."""
        return lake_of(self.deployment)

    def settings(self, at_least_tasks: int = 1) -> LoadSettings:
        """How this run loads."""
        lake = lake_settings(self.deployment)
        return LoadSettings(
            run=run_name(self.as_of),
            window_ms=self.deployment.audit.window_ms,
            contents=self.deployment.audit.content_check,
            target_bytes=lake.target_file_mb << 20,
            late_after_ms=lake.late_after_ms,
            accept_gap=self.accept_gap,
            max_rows=self.max_rows,
            rows_per_commit=self.rows_per_commit,
            at_least_tasks=at_least_tasks,
        )


def run_repair(
    job: LoadJob, loads: Sequence[TopicLoad], plan: Path, lander: Lander, steps: Steps
) -> Outcome:
    """Load again what a plan of ``tallymark audit repair`` says that the lake lacks. UserError: the
    plan cannot be read, or holds nothing of the topics of the job."""
    by_topic = {(load.cluster, load.topic): load for load in loads}
    reloads = [
        (by_topic[one.cluster, one.topic], one.offsets)
        for one in reloads_of(read_plan(plan).items)
        if (one.cluster, one.topic) in by_topic
    ]
    if not reloads:
        raise UserError(
            f"{plan} names no offsets that a table of this lake lacks",
            "tallymark audit repair --plan FILE writes a plan of what is missing now",
        )
    unreported: dict[tuple[str, str], str] = {}

    def tell(load: TopicLoad, commit: Commit) -> None:
        _tell(job, load, unreported)

    settings = job.settings()
    with steps.step("repair", f"loading again what {len(reloads)} tables lack"):
        results = [repair(load, offsets, settings, lander, tell) for load, offsets in reloads]
    told = tuple(unreported.values())
    return Outcome(settings.run, job.as_of, tuple(results), dict(steps.seconds), told)


def topics_to_load(job: LoadJob) -> list[TopicLoad]:
    """Every topic of the job with its table and its bounds, which are fixed from now on. UserError:
    a cluster cannot be reached, or ``topics`` names nothing that is there."""
    lake = job.lake
    found = [
        TopicLoad(
            cluster.name,
            topic,
            tuple(logs),
            (table := lake.table(cluster.name, topic)),
            table.storage,
            connection_settings(cluster),
            _format(job.deployment, topic),
        )
        for cluster in clusters_of(job)
        for topic, logs in topics_of(job.deployment, cluster, job.topics, job.since).items()
    ]
    if not found and job.topics is not None:
        raise UserError(
            f"no topic that is loaded is called {job.topics!r}",
            "see tallymark topics list; topics of [lake] and of [audit] say which are loaded",
        )
    return found


def run_job(
    job: LoadJob, loads: Sequence[TopicLoad], lander: Lander, steps: Steps, at_least_tasks: int = 1
) -> Outcome:
    """Load, and report. What a run before this one committed and did not report comes first."""
    unreported: dict[tuple[str, str], str] = {}

    def tell(load: TopicLoad, commit: Commit | None = None) -> None:
        _tell(job, load, unreported)

    settings = job.settings(at_least_tasks)
    with steps.step("report", "reporting earlier loads to the audit"):
        for load in loads:
            tell(load)
    results = run_load(loads, settings, lander, steps, tell)
    kept = keep_up(loads, settings, steps, joins=job.joins, sweeps=job.sweeps)
    told = tuple(unreported.values())
    return Outcome(settings.run, job.as_of, tuple(results), dict(steps.seconds), told, kept)


def _tell(job: LoadJob, load: TopicLoad, unreported: dict[tuple[str, str], str]) -> None:
    why = report(job.deployment, load.cluster, load.topic, load.table, load.storage)
    unreported.pop((load.cluster, load.topic), None)
    if why:
        unreported[load.cluster, load.topic] = why


def _format(deployment: Deployment, topic: str) -> RowFormat:
    if not re.fullmatch(lake_settings(deployment).avro_topics, topic):
        return RAW
    from tallymark_spark_jobs.load.writing.avro_format import avro_format  # imports fastavro

    return avro_format(deployment, topic)


def clusters_of(job: LoadJob) -> Iterator[Cluster]:
    """The clusters that the job loads. UserError: one that is asked for is not loaded."""
    loaded: Mapping[str, Cluster] = {one.name: one for one in job.deployment.lake_clusters}
    for name in job.clusters or loaded:
        if name not in loaded:
            raise UserError(
                f"the cluster {name} is not loaded",
                f"[lake] loads {', '.join(loaded) or 'none'}; see clusters there",
            )
        yield loaded[name]
