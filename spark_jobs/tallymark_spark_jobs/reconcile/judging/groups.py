"""Judge one group of topics and windows. Pure: the same function on the driver and in tasks.

A *family* is the topics that mirrors make of one another by renaming: a verdict on one of them
needs no others. A group is a family in some windows; all that is judged in it is what was counted
and claimed there, and the few facts that all groups share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tallymark.deployment import Deployment
from tallymark_audit.events.claim_book import ClaimBook
from tallymark_audit.judge.verdicts import Verdict
from tallymark_audit.model.cells import CellKey, Edge, EdgeWindow
from tallymark_audit.model.sides import Claim
from tallymark_spark_jobs.reconcile.judging.decide import decide
from tallymark_spark_jobs.reconcile.judging.spark_facts import Facts
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.resolve import CellAt, Stretch, resolve
from tallymark_spark_jobs.reconcile.shapes.search import Search, search_plan
from tallymark_spark_jobs.reconcile.shapes.tallies import (
    ClaimPart,
    ClusterTopic,
    Seen,
    observations,
    parts,
)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all groups share. ``facts`` are those without cells and claims; ``exact``: see
    :func:`tallymark_spark_jobs.reconcile.shapes.resolve.resolve`."""

    deployment: Deployment
    period: Period
    edges: tuple[Edge, ...]
    facts: Facts
    exact: frozenset[ClusterTopic] = frozenset()


@dataclass(slots=True)
class Judged:
    """The verdicts, where what they lack has to be looked for, the windows that are left to the
    collector, and the cells without which other windows of the group cannot be judged."""

    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    deferred: list[EdgeWindow] = field(default_factory=list[EdgeWindow])
    search: dict[str, Search] = field(default_factory=dict[str, Search])
    unresolved: dict[CellAt, tuple[Stretch, ...]] = field(
        default_factory=dict[CellAt, tuple[Stretch, ...]]
    )


def judge_group(
    shared: Shared, topics: Iterable[str], seen: Iterable[Seen], claims: Iterable[ClaimPart]
) -> Judged:
    """Judge these topics from what was counted and claimed of them."""
    books = _books(shared.facts.books, claims)
    found = resolve(seen, _claims(books), shared.exact)
    facts = replace(
        shared.facts, books=books, observed=observations(found.seen), parts=parts(found.seen)
    )
    waiting = {key.window for _, key in found.unresolved}
    decision = decide(
        shared.deployment, facts, topics, shared.period, shared.edges, frozenset(waiting)
    )
    return Judged(
        list(decision.verdicts),
        list(decision.deferred),
        search_plan(decision.verdicts, found.seen, shared.edges),
        dict(found.unresolved),
    )


def families(topics: Iterable[str], edges: Iterable[Edge]) -> dict[str, str]:
    """By topic, the name of its family: the first of its topics."""
    found = {name: name for name in topics}

    def root(name: str) -> str:
        while found.setdefault(name, name) != name:
            name = found[name]
        return name

    renaming = [edge for edge in edges if edge.mirror is not None]
    here = {(edge.upstream, name) for edge in renaming for name in found}
    for _ in {edge.upstream for edge in renaming}:  # no way through the mirrors is longer
        there: set[ClusterTopic] = set()
        for edge in renaming:
            for name in [name for cluster, name in here if cluster == edge.upstream]:
                other = edge.downstream_topic(name)
                if edge.mirror is None or other == name or not edge.mirror.copies(name):
                    continue
                there.add((edge.downstream, other))
                one, two = sorted((root(name), root(other)))
                found[two] = one
        here = there
    return {name: root(name) for name in list(found)}


def with_gaps(books: Mapping[str, ClaimBook], edges: Iterable[Edge]) -> frozenset[ClusterTopic]:
    """The places of which mirrors and loads may have reported that they could not copy some
    offsets."""
    return frozenset(
        (edge.upstream, gap.topic)
        for edge in edges
        if edge.home in books and edge.kind in ("mirror", "lake")
        for _, gap in books[edge.home].gaps
    )


def _books(known: Mapping[str, ClaimBook], claims: Iterable[ClaimPart]) -> dict[str, ClaimBook]:
    """The reporters with their claims, of each the newest revision."""
    books = {cluster: replace(book, parts=dict(book.parts)) for cluster, book in known.items()}
    for cluster, part, revision, claim in claims:
        parts = books.setdefault(cluster, ClaimBook()).parts
        if part not in parts or parts[part][0] < revision:
            parts[part] = (revision, claim)
    return books


def _claims(books: Mapping[str, ClaimBook]) -> dict[CellKey, list[Claim]]:
    found: dict[CellKey, list[Claim]] = {}
    for book in books.values():
        for key, claim in book.claims().items():
            found.setdefault(key, []).append(claim)
    return found
