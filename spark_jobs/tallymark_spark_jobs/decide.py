"""Judge every edge from Spark's own counts and claims. Pure: no Spark, no store, no clock.

The rule is the audit's (:func:`tallymark_audit.verdicts.judge`), as is the way both sides of an
edge are put beside each other (:mod:`tallymark_audit.assemble`); only the counting is Spark's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tallymark.deployment import Deployment
from tallymark_audit.assemble import mirror_facts, producer_facts
from tallymark_audit.cells import CellKey
from tallymark_audit.claims import ClaimBook
from tallymark_audit.edges import AUDIT_TOPIC, derive_edges, is_audited, passes
from tallymark_audit.judging import Hop, hops_into, settle_ms
from tallymark_audit.sides import CellFacts, Claim, Observation
from tallymark_audit.verdicts import Clock, ReporterFacts, Verdict, judge
from tallymark_spark_jobs.claims import homes
from tallymark_spark_jobs.period import Period

Cells = dict[CellKey, Observation]
ByWindow = dict[int, Cells]
Window = tuple[str, str, int]
"""Edge, topic, start (ms)."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a run knows. ``as_of`` (ms): when the ends of the logs were fixed.

    ``observed``: by cluster and topic. ``retired``: by cluster, reporters that a person has ended.
    ``changed``: by cluster, topic and window, when (ms) a collector last saw a count or claim
    change; it only makes a verdict wait, it never makes one. ``retained_from``: by cluster and
    topic, the time (ms) before which records may have expired."""

    as_of: int
    observed: Mapping[tuple[str, str], ByWindow]
    books: Mapping[str, ClaimBook]
    retired: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    changed: Mapping[tuple[str, str], Mapping[int, int]] = field(
        default_factory=dict[tuple[str, str], Mapping[int, int]]
    )
    retained_from: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])


@dataclass(frozen=True, slots=True)
class Decision:
    """``deferred``: windows whose data is no longer all there; the collector's verdict stands."""

    verdicts: tuple[Verdict, ...]
    deferred: tuple[Window, ...]


def decide(deployment: Deployment, facts: Facts, topics: Iterable[str], period: Period) -> Decision:
    """The verdicts of every window of the period that holds anything, on every edge."""
    edges = derive_edges(deployment)
    wanted = sorted(topic for topic in set(topics) if is_audited(topic, deployment.audit.topics))
    verdicts: list[Verdict] = []
    deferred: list[Window] = []
    judge_of = _Judge(deployment, facts, _claims_by_window(facts.books), homes(facts.books))
    for cluster in deployment.clusters:
        for hop in hops_into(edges, cluster.name):
            for topic in (topic for topic in wanted if passes(hop.edge, topic)):
                cells = judge_of.cells(hop, topic, period)
                before = judge_of.retained_from(hop, topic)
                deferred += [(hop.edge.name, topic, at) for at in sorted(cells) if at < before]
                kept = {at: found for at, found in cells.items() if at >= before}
                verdicts += judge_of.verdicts(hop, topic, kept)
    order = {edge.name: at for at, edge in enumerate(edges)}
    verdicts.sort(key=lambda one: (order[one.edge], one.topic, one.window))
    return Decision(tuple(verdicts), tuple(deferred))


ClaimsByWindow = Mapping[tuple[str, str], Mapping[int, dict[CellKey, Claim]]]


@dataclass(frozen=True, slots=True)
class _Judge:
    """The facts, in the order in which edges ask for them."""

    deployment: Deployment
    facts: Facts
    claims: ClaimsByWindow
    homes: Mapping[str, str]

    def cells(self, hop: Hop, topic: str, period: Period) -> dict[int, list[CellFacts]]:
        """Both sides of the edge, by window; windows without a cell are left out."""
        edge = hop.edge
        seen = self._observed(edge.downstream, topic)
        said = self.claims.get((edge.downstream, topic), {})
        ups = {name: self._observed(name, topic) for name in hop.upstreams(topic)}
        windows = {*seen, *said, *(at for found in ups.values() for at in found)}
        cells: dict[int, list[CellFacts]] = {}
        for at in filter(period.holds, windows):
            here, claimed = seen.get(at, {}), said.get(at, {})
            above = {name: found.get(at, {}) for name, found in ups.items()}
            if edge.kind == "producer":
                found = producer_facts(claimed, here, above, self.homes)
            else:
                found = mirror_facts(edge, above, here, self.homes, claimed)
            if found:
                cells[at] = found
        return cells

    def verdicts(self, hop: Hop, topic: str, cells: Mapping[int, list[CellFacts]]) -> list[Verdict]:
        reporters = self._reporters(hop, topic, cells.values())
        return [
            judge(hop.edge, topic, at, found, reporters, self._clock(hop, topic, at))
            for at, found in sorted(cells.items())
        ]

    def retained_from(self, hop: Hop, topic: str) -> int:
        """Windows that begin earlier may have lost records to retention on either side."""
        places = [(name, topic) for name in hop.clusters(topic)]
        if hop.edge.kind == "producer":
            places.append((hop.edge.downstream, AUDIT_TOPIC))
        return max(self.facts.retained_from.get(place, -(1 << 63)) for place in places)

    def _observed(self, cluster: str, topic: str) -> ByWindow:
        return self.facts.observed.get((cluster, topic), {})

    def _reporters(
        self, hop: Hop, topic: str, cells: Iterable[Sequence[CellFacts]]
    ) -> list[ReporterFacts]:
        if hop.edge.kind == "mirror":
            return []
        cluster = hop.edge.downstream
        book = self.facts.books.get(cluster)
        if book is None:
            return []
        publishing = book.topics().get(topic, set())
        seen = {one.key.instance for some in cells for one in some if one.key.stamped}
        retired = self.facts.retired.get(cluster, frozenset())
        return [
            reporter.facts(retired=name in retired)
            for name, reporter in book.reporters.items()
            if reporter.tier == "producer" and (name in publishing or reporter.instance in seen)
        ]

    def _clock(self, hop: Hop, topic: str, window: int) -> Clock:
        audit, at = self.deployment.audit, self.facts.as_of
        changes = (
            self.facts.changed.get((cluster, topic), {}).get(window, 0)
            for cluster in hop.clusters(topic)
        )
        return Clock(
            now=at,
            window_ms=audit.window_ms,
            settle_ms=settle_ms(audit),
            silence_ms=audit.silence_ms,
            downstream_through=at,  # everything there was then has been counted
            upstream_through=at,
            changed=max(changes, default=0),
        )


def _claims_by_window(books: Mapping[str, ClaimBook]) -> ClaimsByWindow:
    found: dict[tuple[str, str], dict[int, dict[CellKey, Claim]]] = {}
    for cluster, book in books.items():
        for key, claim in book.claims().items():
            by_window = found.setdefault((cluster, key.topic), defaultdict(dict))
            by_window[key.window][key] = claim
    return found
