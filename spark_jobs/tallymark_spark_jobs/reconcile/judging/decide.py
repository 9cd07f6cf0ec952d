"""Judge every edge from Spark's own counts and claims. Pure: no Spark, no store, no clock.

The rule is the audit's (:func:`tallymark_audit.judge.windows.judge_windows`), and so is the way its
facts are put together; only the counting and the reading of claims are Spark's.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tallymark.deployment import AuditSettings, Deployment
from tallymark_audit.events.claim_book import ClaimBook
from tallymark_audit.judge.apart import judge_apart
from tallymark_audit.judge.hops import Hop, Known, hops_into
from tallymark_audit.judge.verdicts import Verdict
from tallymark_audit.judge.windows import judge_windows
from tallymark_audit.model.cells import Edge, EdgeWindow
from tallymark_audit.model.edges import AUDIT_TOPIC, derive_edges, discovered_group, is_audited
from tallymark_spark_jobs.reconcile.judging.spark_facts import (
    NO_PUBLISHING,
    Facts,
    Publishing,
    SparkFacts,
)
from tallymark_spark_jobs.reconcile.shapes.period import Period


@dataclass(frozen=True, slots=True)
class Decision:
    """``deferred``: windows whose data is no longer complete; there the collector's verdict
    holds."""

    verdicts: tuple[Verdict, ...]
    deferred: tuple[EdgeWindow, ...]


def decide(
    deployment: Deployment,
    facts: Facts,
    topics: Iterable[str],
    period: Period,
    edges: tuple[Edge, ...] | None = None,
    leave_out: Container[int] = (),
) -> Decision:
    """The verdicts of every window of the period that holds anything, on every edge. ``edges``:
    where the facts have only some of the claims, all that there are; ``leave_out``: windows
    (starts, ms)."""
    edges = all_edges(deployment, facts.books, facts.publishing) if edges is None else edges
    wanted = sorted(topic for topic in set(topics) if is_audited(topic, deployment.audit.topics))
    verdicts: list[Verdict] = []
    deferred: list[EdgeWindow] = []
    source = SparkFacts(facts)
    for cluster in deployment.clusters:
        for hop in hops_into(edges, cluster.name):
            known = source.known(hop)
            for topic in (topic for topic in wanted if hop.owes(topic, known)):
                before = _retained_from(facts, hop, topic, known)
                owed = facts.owed_from.get((hop.edge.name, topic), 0)
                windows = sorted(
                    at
                    for at in _windows(source, hop, topic, known)
                    if period.holds(at) and at not in leave_out and (at >= owed or not owed)
                )
                judged = partial(_judged, source, hop, topic, deployment.audit, facts.as_of)
                old = judged([at for at in windows if at < before])
                deferred += [(hop.edge.name, topic, one.window) for one in old]
                verdicts += judged([at for at in windows if at >= before])
    order = {edge.name: at for at, edge in enumerate(edges)}
    verdicts.sort(key=lambda one: (order[one.edge], one.topic, one.window))
    return Decision(tuple(verdicts), tuple(deferred))


def all_edges(
    deployment: Deployment,
    books: Mapping[str, ClaimBook],
    publishing: Mapping[str, Publishing] = NO_PUBLISHING,
) -> tuple[Edge, ...]:
    """The edges of the settings, and of the groups that are known only from their reports."""
    edges = derive_edges(deployment)
    declared = {edge.name for edge in edges}
    found = [
        discovered_group(cluster, group, _read_by(book, group, publishing.get(cluster, {})))
        for cluster, book in sorted(books.items())
        for group in sorted({one.consumer_group for one in book.reporters.values()} - {""})
    ]
    return (*edges, *(edge for edge in found if edge.name not in declared))


def _read_by(book: ClaimBook, group: str, publishing: Publishing) -> set[str]:
    members = {
        name
        for name, one in book.reporters.items()
        if one.tier == "consumer" and one.consumer_group == group
    }
    told = {topic for topic, names in publishing.items() if not members.isdisjoint(names)}
    return told | {claim.key.topic for claim in book.processed(group)}


def _judged(
    source: SparkFacts,
    hop: Hop,
    topic: str,
    settings: AuditSettings,
    as_of: int,
    windows: Sequence[int],
) -> list[Verdict]:
    """The verdicts of those of these windows that have a cell, in their order. Whatever error: one
    of them cannot be judged, see :func:`tallymark_audit.judge.apart.judge_apart`."""
    return judge_apart(
        hop.edge,
        topic,
        windows,
        lambda some: judge_windows(source, hop, topic, some, settings, as_of, skip_empty=True),
    )


def _windows(source: SparkFacts, hop: Hop, topic: str, known: Known) -> set[int]:
    """The windows in which anything is known of either side of the edge."""
    edge = hop.edge
    if edge.reported:
        windows = {claim.key.window for claim in source.reported(edge, topic)}
        return windows.union(source.observed(edge.upstream, topic))
    there = edge.downstream_topic(topic)
    windows = {*source.observed(edge.downstream, there)}
    windows.update(source.claimed_windows(edge.downstream, there))
    for up, names in hop.upstreams(topic, known).items():
        for name in names:
            windows.update(source.observed(up, name))
    return windows


def _retained_from(facts: Facts, hop: Hop, topic: str, known: Known) -> int:
    """Windows that begin earlier may have lost records to retention on either side."""
    places = [*hop.places(topic, known), (hop.edge.home, AUDIT_TOPIC)]
    if hop.edge.kind == "mirror":
        places.pop()  # a mirror repeats its reports
    return max(facts.retained_from.get(place, -(1 << 63)) for place in places)
