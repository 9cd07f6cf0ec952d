"""One look at the clusters: count the windows that are asked for, and judge them.

::

    survey ──► what to read ──► claims ──► count ──► judge ──► find the offsets of what is missing

What is small is judged on the driver, in one group; else in tasks, by topic and window, and cells
with many ranges are compared by their digests before their ranges are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark_audit.model.cells import EdgeWindow
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.store import Store
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.reconcile import ledger
from tallymark_spark_jobs.reconcile.judging.decide import all_edges
from tallymark_spark_jobs.reconcile.judging.groups import Judged, Shared, families, with_gaps
from tallymark_spark_jobs.reconcile.judging.spark_facts import Facts
from tallymark_spark_jobs.reconcile.outcome import Outcome, idle_through
from tallymark_spark_jobs.reconcile.reading.claims import FEW_EVENTS, Claims, claims_by_client
from tallymark_spark_jobs.reconcile.reading.damages import damaged, expired, joined, open_notes
from tallymark_spark_jobs.reconcile.reading.loaded_counts import LoadedCounts, loaded_counts
from tallymark_spark_jobs.reconcile.reading.read_plan import (
    Bounds,
    ReadPlan,
    audit_plan,
    plan_of,
    read_plan,
)
from tallymark_spark_jobs.reconcile.reading.survey import ClusterSurvey, survey
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.search import Identity, LogSpan
from tallymark_spark_jobs.reconcile.shapes.tallies import ClusterTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tallymark_spark_jobs.reconcile.reading.count_tasks import SpanNote

SMALL = 500_000
"""So many offsets are judged on the driver: even if each were a run of its own, they fit."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to reconcile. ``topics``: a regular expression that narrows the deployment's own.
    ``wait_seconds``: how long to wait, at most, for windows to settle. ``lateness_ms``: how far
    behind the period logs are read, see :class:`~.reading.read_plan.Bounds`; None: to their ends.
    ``small``: up to so many offsets are judged on the driver. ``trust_load_counts``: see
    :mod:`~.reading.loaded_counts`."""

    deployment: Deployment
    period: Period
    topics: str | None = None
    wait_seconds: float = 0.0
    lateness_ms: int | None = None
    small: int = SMALL
    trust_load_counts: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """What one look is for. ``windows``: only these; None: all of the period. ``topics``: only
    these, by any name that a cluster has for them. ``to_the_end``: read all that lies behind.
    ``distrust``: count all of it, whatever loads have counted."""

    period: Period
    windows: frozenset[EdgeWindow] | None = None
    topics: frozenset[str] | None = None
    to_the_end: bool = False
    distrust: bool = False


@dataclass(frozen=True, slots=True)
class Sight:
    """The outcome of a look, and the family of each topic."""

    outcome: Outcome
    family: Mapping[str, str] = field(default_factory=dict[str, str])


def look(spark: SparkSession, job: Job, store: Store, steps: Steps, ask: Ask) -> Sight:
    """Read what is asked for, judge it, and find what is missing."""
    from tallymark_spark_jobs.reconcile import counting_pass

    deployment, as_of = job.deployment, now_ms()
    clusters = _narrowed(survey(deployment, job.topics), ask)
    changed = ledger.changes_of(store, clusters, ask.period)
    # The audit topics first: what they report as carried is then in the data.
    reports = audit_plan(clusters, AUDIT_TOPIC)
    bounds = Bounds(ask.period, None if ask.to_the_end else job.lateness_ms, newest(changed))
    plan = read_plan(clusters, bounds)
    waits = plan.open
    names = ", ".join(cluster.name for cluster in clusters)
    loaded = _loaded(job, ask, plan)
    plan = loaded.plan
    work = counting_pass.Work(spark, job, ask.period, plan, reports, loaded.seen)
    try:
        with steps.step("claims", f"reading {reports.offsets:,} audit events", reports.offsets):
            claims = (
                claims_by_client(reports, deployment.audit.window_ms, ask.period)
                if reports.offsets <= FEW_EVENTS and work.is_small
                else work.claims()
            )
        topics = _topics(job, ask, clusters, claims)
        check_known(job.topics, topics, claims)
        with steps.step("count", f"counting {ask.period} in {names}", plan.offsets) as step:
            notes = [*work.count(), *open_notes(waits)]
            step.note = f"{sum(note.messages for note in notes):,} messages"
        shared = _shared(job, ask, store, clusters, changed, claims, notes, as_of)
        family = families(topics, shared.edges)
        with steps.step("judge", "judging") as step:
            judged = work.judge(shared, family)
            step.note = f"{len(judged.verdicts):,} windows"
        judged = _kept(judged, ask)
        places = _find(spark, plan, judged, steps, work.parallelism)
    finally:
        work.close()
    outcome = Outcome(
        period=ask.period,
        as_of=as_of,
        verdicts=tuple(judged.verdicts),
        places=places,
        deferred=ledger.collector_states(store, judged.deferred),
        idle=idle_through(claims.books, ask.period.end, as_of),
        damaged_events=claims.damaged,
        damaged=tuple(shared.facts.damaged),
        edges=shared.edges,
        unread=plan.unread,
        notes=tuple(_trusted(loaded)),
    )
    return Sight(outcome, family)


def _loaded(job: Job, ask: Ask, plan: ReadPlan) -> LoadedCounts:
    """The plan, without what loads have counted if they are to be trusted."""
    if not job.trust_load_counts or ask.distrust or ask.to_the_end:
        return LoadedCounts(plan)
    return loaded_counts(job.deployment, plan, ask.period)


def _trusted(loaded: LoadedCounts) -> Iterator[str]:
    if loaded.offsets:
        yield (
            f"{loaded.offsets:,} offsets were not counted again: their counts are those of the "
            "load (--trust-load-counts)"
        )


def _narrowed(clusters: Sequence[ClusterSurvey], ask: Ask) -> list[ClusterSurvey]:
    if ask.topics is None:
        return list(clusters)
    return [
        replace(one, topics=tuple(name for name in one.topics if name in ask.topics))
        for one in clusters
    ]


def newest(changed: Mapping[ClusterTopic, Mapping[int, int]]) -> dict[ClusterTopic, int]:
    """By cluster and topic, when (ms) any of its windows last changed."""
    return {place: max(times.values()) for place, times in changed.items() if times}


def _shared(
    job: Job,
    ask: Ask,
    store: Store,
    clusters: Sequence[ClusterSurvey],
    changed: Mapping[ClusterTopic, Mapping[int, int]],
    claims: Claims,
    notes: Sequence[SpanNote],
    as_of: int,
) -> Shared:
    """All that a judgement needs besides cells and claims."""
    known: dict[str, set[str]] = {}
    for note in notes:
        if note.newest >= 0 or note.messages:
            known.setdefault(note.cluster, set()).add(note.topic)
    began = _began(clusters, store)
    gone = expired(notes, as_of)
    gone |= {(name, AUDIT_TOPIC): min(at, as_of) for name, at in claims.expired.items()}
    topics = {topic for names in known.values() for topic in names}
    facts = Facts(
        as_of=as_of,
        observed={},
        books=claims.books,
        retired=ledger.retired_reporters(store),
        changed=changed,
        damaged=joined([*damaged(notes), *claims.unread]),
        late=ledger.lateness(store, as_of),
        owed_from=ledger.owed_from(store, job.deployment, topics),
        retained_from=_retained_from(clusters, began, gone),
        began=began,
        known=known,
        publishing=claims.publishing,
        spread=frozenset((note.cluster, note.topic) for note in notes if note.spread),
    )
    edges = all_edges(job.deployment, claims.books, claims.publishing)
    return Shared(job.deployment, ask.period, edges, facts, with_gaps(claims.books, edges))


def _began(clusters: Sequence[ClusterSurvey], store: Store) -> dict[ClusterTopic, int]:
    """Since when (ms) the log of a topic is another one than before, or lacks a partition."""
    return {
        (cluster.name, topic): at
        for cluster in clusters
        for topic, at in ledger.began_anew(store, cluster.name).items()
    }


def _retained_from(
    clusters: Sequence[ClusterSurvey],
    began: Mapping[ClusterTopic, int],
    gone: Mapping[ClusterTopic, int],
) -> dict[ClusterTopic, int]:
    """Before when (ms) records of a topic may be gone: retention took them, before the run or
    while it read; or the topic was deleted and made again, or has fewer partitions."""
    found = dict(began)
    for place, at in gone.items():
        found[place] = max(found.get(place, at), at)
    for cluster in clusters:
        for topic, at in cluster.retained_from.items():
            place = cluster.name, topic
            found[place] = max(found.get(place, at), at)
    return found


def _topics(job: Job, ask: Ask, clusters: Sequence[ClusterSurvey], claims: Claims) -> set[str]:
    """The topics that exist, and those that have only claims: a lost topic is a loss."""
    wanted = re.compile(job.topics or ".*")
    there = {topic for cluster in clusters for topic in cluster.topics}
    claimed = {topic for topic in claims.topics() if wanted.fullmatch(topic)}
    return there | (claimed if ask.topics is None else claimed & ask.topics)


def check_known(pattern: str | None, topics: set[str], claims: Claims) -> None:
    """UserError where no cluster has a topic of that pattern, and no reporter ever had one: nothing
    would be judged, and that nothing is missing would be true of a misspelt name, too."""
    if pattern is None or topics:
        return
    wanted = re.compile(pattern)
    reported = (topic for by_topic in claims.publishing.values() for topic in by_topic)
    if not any(map(wanted.fullmatch, reported)):
        raise UserError(
            f"no topic that is audited matches {pattern!r} as a whole",
            "see: tallymark audit overview",
        )


def _kept(judged: Judged, ask: Ask) -> Judged:
    """What was asked for; a period has other windows and edges, too."""
    wanted = ask.windows
    if wanted is None:
        return judged
    return replace(
        judged,
        verdicts=[v for v in judged.verdicts if (v.edge, v.topic, v.window) in wanted],
        deferred=[one for one in judged.deferred if one in wanted],
    )


def _find(
    spark: SparkSession, plan: ReadPlan, judged: Judged, steps: Steps, parallelism: int
) -> dict[Identity, list[LogSpan]]:
    if not judged.search:
        return {}
    from tallymark_spark_jobs.reconcile.reading.evidence import find_places

    stretches = [one for search in judged.search.values() for one in search.stretches]
    there = plan_of(plan.connections, stretches, plan.spans)
    text = f"looking for what is missing in {', '.join(judged.search)}"
    with steps.step("find", text, there.offsets):
        return find_places(spark, there, judged.search, parallelism)
