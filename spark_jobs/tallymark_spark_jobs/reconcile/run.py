"""The nightly reconciliation: count the data of every cluster, judge every edge, name what is lost.

::

    survey ──► scan (Spark: count cells, read claims) ──► decide ──► search (Spark: find the lost)
                                                            │              │
                        store ◄── record ◄── outcome ◄──────┴──────────────┘

Idempotent: a run writes verdicts by window, so running it again for the same range replaces them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark_audit.judge.verdicts import Verdict
from tallymark_audit.store import Store
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.reconcile import ledger
from tallymark_spark_jobs.reconcile.claims import Claims
from tallymark_spark_jobs.reconcile.decide import all_edges, decide
from tallymark_spark_jobs.reconcile.outcome import Outcome, idle_through
from tallymark_spark_jobs.reconcile.period import Period
from tallymark_spark_jobs.reconcile.search import Identity, LogSpan, search_plan
from tallymark_spark_jobs.reconcile.spark_facts import Facts
from tallymark_spark_jobs.reconcile.survey import ClusterSurvey, survey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tallymark_spark_jobs.reconcile.scan import Scan

AGAIN_SECONDS = 2.0
"""Between two looks while windows settle."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to reconcile. ``topics``: a regular expression that narrows the deployment's own.
    ``wait_seconds``: how long to wait, at most, for windows to settle."""

    deployment: Deployment
    period: Period
    topics: str | None = None
    wait_seconds: float = 0.0


def reconcile(spark: SparkSession, job: Job, store: Store, steps: Steps) -> Outcome:
    """Judge the period and record the result.

    Raises UserError for a cluster that cannot be reached and whatever a Spark action fails with."""
    started, deadline = now_ms(), time.monotonic() + job.wait_seconds
    _wait_for_the_end(job, steps, deadline)
    while True:
        outcome = _look(spark, job, store, steps)
        if not outcome.settling or time.monotonic() >= deadline:
            break
        steps.say("some windows are still settling: looking again")
        time.sleep(min(AGAIN_SECONDS, max(0.0, deadline - time.monotonic())))
    with steps.step("record", f"recording {len(outcome.verdicts):,} verdicts"):
        ledger.record(store, replace(outcome, seconds=steps.seconds), started, now_ms())
        found = ledger.disagreements(store, outcome)
    return replace(outcome, disagreements=found, seconds=dict(steps.seconds))


def _wait_for_the_end(job: Job, steps: Steps, deadline: float) -> None:
    """Looking before the last window has had its settle time would be in vain."""
    settled = job.period.end + job.deployment.audit.settle_min_ms
    left = min((settled - now_ms()) / 1000, deadline - time.monotonic())
    if left > 0:
        with steps.step("wait", f"waiting {left:.0f} s for the last windows to settle"):
            time.sleep(left)


def _began(clusters: Sequence[ClusterSurvey], store: Store) -> dict[tuple[str, str], int]:
    """Since when (ms) the log of a topic is another one than before, or lacks a partition."""
    return {
        (cluster.name, topic): at
        for cluster in clusters
        for topic, at in ledger.began_anew(store, cluster.name).items()
    }


def _retained_from(
    clusters: Sequence[ClusterSurvey], began: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], int]:
    """Before when (ms) records of a topic may be gone: retention took them, or the topic was
    deleted and made again, or has fewer partitions."""
    found = dict(began)
    for cluster in clusters:
        for topic, at in cluster.retained_from.items():
            place = cluster.name, topic
            found[place] = max(found.get(place, at), at)
    return found


def _look(spark: SparkSession, job: Job, store: Store, steps: Steps) -> Outcome:
    from tallymark_spark_jobs.reconcile.scan import observations, parts, scan

    deployment, period, as_of = job.deployment, job.period, now_ms()
    audit = deployment.audit
    clusters = survey(deployment, job.topics)
    names = ", ".join(cluster.name for cluster in clusters)
    with steps.step("count", f"counting {period} in {names}"):
        read = scan(spark, clusters, period, audit.window_ms, audit.content_check)
    messages = sum(run["messages"] for run in read.runs if not run["aborted"])
    with steps.step("judge", f"judging {messages:,} messages"):
        observed, began = observations(read.runs), _began(clusters, store)
        facts = Facts(
            as_of=as_of,
            observed=observed,
            books=read.claims.books,
            retired=ledger.retired_reporters(store),
            changed=ledger.last_changes(store, observed),
            parts=parts(read.runs),
            damaged=read.damaged,
            late=ledger.lateness(store, as_of),
            owed_from=ledger.owed_from(store, deployment, {topic for _, topic in observed}),
            retained_from=_retained_from(clusters, began),
            began=began,
        )
        decision = decide(deployment, facts, _topics(job, clusters, read.claims), period)
    return Outcome(
        period=period,
        as_of=as_of,
        verdicts=decision.verdicts,
        places=_find(spark, deployment, clusters, read, decision.verdicts, steps),
        deferred=ledger.collector_states(store, decision.deferred),
        idle=idle_through(read.claims.books, period.end, as_of),
        damaged_events=read.claims.damaged,
        damaged=read.damaged,
        edges=all_edges(deployment, read.claims.books),
    )


def _topics(job: Job, clusters: Sequence[ClusterSurvey], claims: Claims) -> set[str]:
    """The topics that exist, and those that have only claims: a lost topic is a loss."""
    wanted = re.compile(job.topics or ".*")
    there = {topic for cluster in clusters for topic in cluster.topics}
    claimed = {topic for book in claims.books.values() for topic in book.topics()}
    return there | {topic for topic in claimed if wanted.fullmatch(topic)}


def _find(
    spark: SparkSession,
    deployment: Deployment,
    clusters: Sequence[ClusterSurvey],
    read: Scan,
    verdicts: Sequence[Verdict],
    steps: Steps,
) -> dict[Identity, list[LogSpan]]:
    plan = search_plan(verdicts, read.runs, all_edges(deployment, read.claims.books))
    if not plan:
        return {}
    from tallymark_spark_jobs.reconcile.evidence import find_places

    with steps.step("find", f"looking for what is missing in {', '.join(plan)}"):
        return find_places(spark, clusters, plan)
