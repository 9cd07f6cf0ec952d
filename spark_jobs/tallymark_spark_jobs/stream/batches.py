"""A micro-batch is a load: from where the tables end up to where the batch ends.

Spark replays a batch that it did not commit. The commit of the table is keyed by offsets: what a
replayed batch, or another load beside it, has brought already is not planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tallymark.clock import now_ms
from tallymark_spark_jobs.load.job import LoadJob, topics_to_load
from tallymark_spark_jobs.load.names import part_of
from tallymark_spark_jobs.load.outcome import Outcome
from tallymark_spark_jobs.load.reporting import report
from tallymark_spark_jobs.load.run import run_load

if TYPE_CHECKING:
    from tallymark_spark_jobs.engine.progress import Steps
    from tallymark_spark_jobs.lake.table import Commit
    from tallymark_spark_jobs.load.landing import Lander
    from tallymark_spark_jobs.load.planning import LogState
    from tallymark_spark_jobs.load.shapes import TopicLoad

Ends = Mapping[tuple[str, str, int], tuple[int, int]]
"""Of a batch, by topic, its id and the partition: where the stream began (-1: not known), and the
offset behind the last one of the batch."""


def load_batch(job: LoadJob, ends: Ends, lander: Lander, steps: Steps, tasks: int = 1) -> Outcome:
    """Load up to ``ends`` and report to the audit. What is wrong with a partition is in the
    outcome. UserError: the brokers or the table cannot be reached."""
    job = replace(job, as_of=now_ms())
    there = topics_to_load(job)
    loads = until(there, ends)
    settings = job.settings(tasks)
    if not reaches(there, ends):
        # The run's time says up to when everything is in the table: only the last batch knows.
        settings = replace(settings, run=part_of(settings.run))
    unreported: dict[str, str] = {}

    def tell(load: TopicLoad, commit: Commit | None = None) -> None:
        why = report(job.deployment, load.cluster, load.topic, load.table, load.storage)
        unreported.pop(load.topic, None)
        if why:
            unreported[load.topic] = why

    for load in loads:
        tell(load)
    results = run_load(loads, settings, lander, steps, tell)
    seconds = dict(steps.seconds)
    return Outcome(settings.run, job.as_of, tuple(results), seconds, tuple(unreported.values()))


def until(loads: Iterable[TopicLoad], ends: Ends) -> list[TopicLoad]:
    """The loads with the logs that the batch has, each up to the batch's end. A partition that the
    table does not know begins where the stream began: what retention has deleted since is lost."""
    found: list[TopicLoad] = []
    for load in loads:
        logs = tuple(_up_to(log, *ends[_place(log)]) for log in load.logs if _place(log) in ends)
        if logs:
            found.append(replace(load, logs=logs))
    return found


def reaches(loads: Sequence[TopicLoad], ends: Ends) -> bool:
    """Whether the batch ends where the logs of its topics end now."""
    topics = {(topic, topic_id) for topic, topic_id, _ in ends}
    return all(
        ends.get(_place(log), (-1, -1))[1] >= log.end
        for load in loads
        for log in load.logs
        if (log.key.topic, log.key.topic_id) in topics
    )


def _up_to(log: LogState, begin: int, end: int) -> LogState:
    return replace(log, begin=log.begin if begin < 0 else begin, end=min(log.end, end))


def _place(log: LogState) -> tuple[str, str, int]:
    return log.key.topic, log.key.topic_id, log.key.partition
