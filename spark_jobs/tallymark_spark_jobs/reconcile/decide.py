"""Judge every edge from Spark's own counts and claims. Pure: no Spark, no store, no clock.

The rule is the audit's (:func:`tallymark_audit.judge.verdicts.judge`), as is the way both sides of
an edge are put beside each other (:mod:`tallymark_audit.judge.assemble`); only the counting is
Spark's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tallymark.deployment import Deployment
from tallymark_audit.collector.window_facts import learned_settle_ms
from tallymark_audit.events.claim_book import ClaimBook
from tallymark_audit.judge.apart import judge_apart
from tallymark_audit.judge.assemble import consumer_facts
from tallymark_audit.judge.damage import Damage, Damaged
from tallymark_audit.judge.hops import Hop, Known, Place, Sides, beside, hops_into
from tallymark_audit.judge.passing import (
    GAP_MEANS,
    STOPPED,
    GapOf,
    Part,
    Passed,
    Stop,
    Word,
    in_flight,
    mirror_of,
    owing,
    standing_still,
    unreported,
)
from tallymark_audit.judge.verdicts import Clock, ReporterFacts, Verdict, judge, undecidable
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.edges import (
    AUDIT_TOPIC,
    collision,
    derive_edges,
    discovered_group,
    is_audited,
)
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import CellFacts, Claim, Observation, merge_observations
from tallymark_audit.store.facts import processed_cells, put_together
from tallymark_spark_jobs.reconcile.claims import homes
from tallymark_spark_jobs.reconcile.period import Period

Cells = dict[CellKey, Observation]
ByWindow = dict[int, Cells]
Window = tuple[str, str, int]
"""Edge, topic, start (ms)."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a run knows. ``as_of`` (ms): when the ends of the logs were fixed.

    ``observed``: by cluster and topic; ``parts``: the same by partition, as far as offsets are
    known. ``late``: by counter and topic, how late records come (a sketch of ms). ``owed_from``:
    by edge and topic, since when (ms) the edge owes the topic, if not always. ``retired``: by
    cluster, reporters that a person has ended. ``changed``: by cluster, topic and window, when (ms)
    a collector last saw a count or claim change; it only makes a verdict wait, it never makes one.
    ``retained_from``: by cluster and topic, the time (ms) before which records may have expired.
    ``damaged``: partitions that cannot be read to their end. ``began``: by cluster and topic, when
    (ms) it was made again, if it was."""

    as_of: int
    observed: Mapping[tuple[str, str], ByWindow]
    books: Mapping[str, ClaimBook]
    retired: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    changed: Mapping[tuple[str, str], Mapping[int, int]] = field(
        default_factory=dict[tuple[str, str], Mapping[int, int]]
    )
    retained_from: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    parts: Mapping[tuple[str, str], Mapping[int, Mapping[CellKey, list[Part]]]] = field(
        default_factory=dict[tuple[str, str], Mapping[int, Mapping[CellKey, list[Part]]]]
    )
    late: Mapping[tuple[str, str], sketches.Sketch] = field(
        default_factory=dict[tuple[str, str], sketches.Sketch]
    )
    owed_from: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    damaged: Sequence[Damaged] = ()
    began: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])


@dataclass(frozen=True, slots=True)
class Decision:
    """``deferred``: windows whose data is no longer all there; the collector's verdict stands."""

    verdicts: tuple[Verdict, ...]
    deferred: tuple[Window, ...]


def decide(deployment: Deployment, facts: Facts, topics: Iterable[str], period: Period) -> Decision:
    """The verdicts of every window of the period that holds anything, on every edge."""
    edges = all_edges(deployment, facts.books)
    wanted = sorted(topic for topic in set(topics) if is_audited(topic, deployment.audit.topics))
    verdicts: list[Verdict] = []
    deferred: list[Window] = []
    known = _topics_by_cluster(facts)
    claims = _claims_by_window(facts.books)
    judge_of = _Judge(deployment, facts, claims, homes(facts.books), known)
    for cluster in deployment.clusters:
        for hop in hops_into(edges, cluster.name):
            for topic in (topic for topic in wanted if hop.owes(topic, known)):
                before = judge_of.retained_from(hop, topic)
                owed = facts.owed_from.get((hop.edge.name, topic), 0)
                known_of = judge_of.windows(hop, topic, period)
                windows = sorted(at for at in known_of if at >= owed or not owed)
                judged = partial(
                    judge_apart, hop.edge, topic, judge=partial(judge_of.judged, hop, topic)
                )
                old = judged([at for at in windows if at < before])
                deferred += [(hop.edge.name, topic, one.window) for one in old]
                verdicts += judged([at for at in windows if at >= before])
    order = {edge.name: at for at, edge in enumerate(edges)}
    verdicts.sort(key=lambda one: (order[one.edge], one.topic, one.window))
    return Decision(tuple(verdicts), tuple(deferred))


def all_edges(deployment: Deployment, books: Mapping[str, ClaimBook]) -> tuple[Edge, ...]:
    """The edges of the settings, and of the groups that only their reports tell of."""
    edges = derive_edges(deployment)
    declared = {edge.name for edge in edges}
    found = [
        discovered_group(cluster, group, _read_by(book, group))
        for cluster, book in sorted(books.items())
        for group in sorted({one.consumer_group for one in book.reporters.values()} - {""})
    ]
    return (*edges, *(edge for edge in found if edge.name not in declared))


def _read_by(book: ClaimBook, group: str) -> set[str]:
    return {claim.key.topic for claim in book.processed(group)}


def _topics_by_cluster(facts: Facts) -> dict[str, set[str]]:
    known: dict[str, set[str]] = defaultdict(set)
    for cluster, topic in facts.observed:
        known[cluster].add(topic)
    return known


ClaimsByWindow = Mapping[tuple[str, str], Mapping[int, dict[CellKey, Claim]]]


@dataclass(frozen=True, slots=True)
class _Judge:
    """The facts, in the order in which edges ask for them."""

    deployment: Deployment
    facts: Facts
    claims: ClaimsByWindow
    homes: Mapping[str, str]
    known: Known

    def windows(self, hop: Hop, topic: str, period: Period) -> set[int]:
        """The windows of the period in which anything is known of either side of the edge."""
        edge = hop.edge
        if edge.kind == "consumer":
            done = self._book(edge.upstream).processed(edge.group)
            windows = {claim.key.window for claim in done if claim.key.topic == topic}
            windows |= self._observed(edge.upstream, topic).keys()
        else:
            there = edge.downstream_topic(topic)
            windows = {*self._observed(edge.downstream, there)}
            windows.update(self.claims.get((edge.downstream, there), {}))
            for up, name in self._above(hop, topic):
                windows.update(self._observed(up, name))
        return {at for at in windows if period.holds(at)}

    def judged(self, hop: Hop, topic: str, windows: Sequence[int]) -> list[Verdict]:
        """The verdicts of those of these windows that have a cell, oldest first. Whatever error:
        one of them cannot be judged, see :func:`.apart.judge_apart`."""
        of_kind = self._of_group if hop.edge.kind == "consumer" else self._of_cluster
        cells = of_kind(hop, topic, windows)
        return self._verdicts(hop, topic, {at: found for at, found in cells.items() if found})

    def _above(self, hop: Hop, topic: str) -> list[Place]:
        """What is mirrored into the edge's downstream under the topic's name."""
        above = hop.upstreams(topic, self.known)
        return [(up, name) for up, names in above.items() for name in names]

    def _of_cluster(
        self, hop: Hop, topic: str, windows: Sequence[int]
    ) -> dict[int, list[CellFacts]]:
        edge = hop.edge
        there = edge.downstream_topic(topic)
        seen = self._observed(edge.downstream, there)
        said = self.claims.get((edge.downstream, there), {})
        above = {place: self._observed(*place) for place in self._above(hop, topic)}
        parts = self.facts.parts.get((edge.upstream, topic), {})
        passed, gaps = self._passed(edge, topic), self._gaps(edge, topic)
        return {
            at: beside(
                hop,
                topic,
                Sides(
                    seen.get(at, {}),
                    said.get(at, {}),
                    {place: found.get(at, {}) for place, found in above.items()},
                    parts.get(at, {}),
                    self.homes,
                    passed,
                    self.facts.as_of,
                    gaps,
                ),
            )
            for at in windows
        }

    def _of_group(self, hop: Hop, topic: str, windows: Sequence[int]) -> dict[int, list[CellFacts]]:
        edge, wanted = hop.edge, set(windows)
        held = self._observed(edge.upstream, topic)
        done: dict[int, list[Observation]] = defaultdict(list)
        filtered: dict[int, dict[CellKey, RangeSet]] = defaultdict(dict)
        doubted: dict[int, dict[CellKey, RangeSet]] = defaultdict(dict)
        book = self._book(edge.upstream)
        for claim in book.processed(edge.group):
            key = claim.key
            if key.topic == topic and key.window in wanted:
                done[key.window] += processed_cells(claim)
                put_together(filtered[key.window], key, claim.filtered)
                put_together(doubted[key.window], key, claim.in_doubt)
        parts = self.facts.parts.get((edge.upstream, topic), {})
        passed = self._passed(edge, topic)
        owed = owing(self._words(edge, topic), self._members(edge, topic))
        return {
            at: consumer_facts(
                held.get(at, {}),
                merge_observations(done.get(at, [])),
                filtered.get(at, {}),
                in_flight(parts.get(at, {}), passed, self.facts.as_of),
                doubted.get(at, {}),
                unreported(parts.get(at, {}), owed),
            )
            for at in windows
        }

    def _members(self, edge: Edge, topic: str) -> list[ReporterFacts]:
        """The runs of the edge's group that report on the topic, or are at work on it."""
        book = self._book(edge.home)
        here = book.topics().get(topic, set()) | {
            at.reporter for at in book.copied if at.topic == topic
        }
        return self._facts_of(edge, self._carriers(edge) & here)

    def _words(self, edge: Edge, topic: str) -> list[Word]:
        copied = self._book(edge.home).copied
        return [
            Word(place.reporter, place.partition, offset, at)
            for place, (at, offset) in copied.items()
            if place.topic == topic
        ]

    def _carriers(self, edge: Edge) -> set[str]:
        """The reporters that carry messages over the edge."""
        if edge.kind == "mirror":
            return {mirror_of(edge)}
        reporters = self._book(edge.upstream).reporters.values()
        return {one.reporter for one in reporters if one.consumer_group == edge.group}

    def _passed(self, edge: Edge, topic: str) -> dict[int, Passed]:
        """How far the edge has been carried. Spark reads the data after that was told, so what is
        not there by then is not under way."""
        if edge.kind == "producer":
            return {}
        carriers, found = self._carriers(edge), dict[int, Passed]()
        for place, (at, offset) in self._book(edge.home).copied.items():
            if place.reporter in carriers and place.topic == topic:
                known = found.get(place.partition)
                if known is None or at >= known.at:
                    found[place.partition] = Passed(offset, at)
        if edge.kind == "mirror" and not self._tells(edge):
            parts = self.facts.parts.get((edge.upstream, topic), {})
            # A mirror that tells nothing is taken to have had the time it needs.
            return {
                part.partition: Passed(1 << 62)
                for cells in parts.values()
                for some in cells.values()
                for part in some
            }
        return {partition: Passed(at.offset) for partition, at in found.items()}

    def _tells(self, edge: Edge) -> bool:
        """Whether the edge's mirror says how far it has copied."""
        return any(place.reporter == mirror_of(edge) for place in self._book(edge.home).copied)

    def _gaps(self, edge: Edge, topic: str) -> list[GapOf]:
        if edge.kind != "mirror":
            return []
        return [
            GapOf(gap.partition, gap.first_offset, gap.last_offset, GAP_MEANS[gap.reason])
            for reporter, gap in self._book(edge.home).gaps
            if reporter == mirror_of(edge) and gap.topic == topic and gap.reason in GAP_MEANS
        ]

    def _verdicts(
        self, hop: Hop, topic: str, cells: Mapping[int, list[CellFacts]]
    ) -> list[Verdict]:
        """Of these windows, oldest first."""
        known = self.known.get(hop.edge.upstream, ())
        why = collision(hop.edge, topic, known) if hop.edge.kind == "mirror" else ""
        if why:
            return [undecidable(hop.edge, topic, at, cells[at], why) for at in sorted(cells)]
        reporters, damage = self._reporters(hop, topic, cells.values()), self._damage(hop, topic)
        return [
            judge(hop.edge, topic, at, found, reporters, self._clock(hop, topic, at), damage)
            for at, found in sorted(cells.items())
        ]

    def _damage(self, hop: Hop, topic: str) -> Damage:
        """The logs of the hop that cannot be read to their end."""
        down, up = (
            tuple(one for one in self.facts.damaged if (one.cluster, one.topic) in sides)
            for sides in hop.sides(topic, self.known)
        )
        edge = hop.edge
        if edge.kind != "mirror":
            return Damage(down, up)
        stops = [
            Stop(gap.partition, gap.first_offset, gap.at)
            for reporter, gap in self._book(edge.home).gaps
            if (reporter, gap.topic, gap.reason) == (mirror_of(edge), topic, STOPPED)
        ]
        began = self.facts.began.get((edge.upstream, topic), 0)
        passed = self._passed(edge, topic)
        return Damage(down, up, tuple(standing_still(edge, topic, stops, passed, began)))

    def retained_from(self, hop: Hop, topic: str) -> int:
        """Windows that begin earlier may have lost records to retention on either side."""
        places = [*hop.places(topic, self.known), (hop.edge.home, AUDIT_TOPIC)]
        if hop.edge.kind == "mirror":
            places.pop()  # what its reports tell is told again and again
        return max(self.facts.retained_from.get(place, -(1 << 63)) for place in places)

    def _observed(self, cluster: str, topic: str) -> ByWindow:
        return self.facts.observed.get((cluster, topic), {})

    def _book(self, cluster: str) -> ClaimBook:
        return self.facts.books.get(cluster) or ClaimBook()

    def _reporters(
        self, hop: Hop, topic: str, cells: Iterable[Sequence[CellFacts]]
    ) -> list[ReporterFacts]:
        edge, book = hop.edge, self._book(hop.edge.home)
        publishing = book.topics().get(topic, set())
        if edge.kind == "mirror":
            names = self._carriers(edge) if self._tells(edge) else set[str]()
        elif edge.kind == "consumer":
            return self._members(edge, topic)
        else:
            seen = {one.key.instance for some in cells for one in some if one.key.stamped}
            names = {
                name
                for name, reporter in book.reporters.items()
                if reporter.tier == "producer" and (name in publishing or reporter.instance in seen)
            }
        return self._facts_of(edge, names)

    def _facts_of(self, edge: Edge, names: set[str]) -> list[ReporterFacts]:
        book = self._book(edge.home)
        retired = self.facts.retired.get(edge.home, frozenset())
        return [
            reporter.facts(retired=name in retired)
            for name, reporter in book.reporters.items()
            if name in names
        ]

    def _clock(self, hop: Hop, topic: str, window: int) -> Clock:
        audit, at = self.deployment.audit, self.facts.as_of
        changes = (
            self.facts.changed.get(place, {}).get(window, 0)
            for place in hop.places(topic, self.known)
        )
        return Clock(
            now=at,
            window_ms=audit.window_ms,
            settle_ms=learned_settle_ms(audit, self.facts.late.get(_counter(hop.edge, topic), {})),
            silence_ms=audit.silence_ms,
            downstream_through=at,  # everything there was then has been counted
            upstream_through=at,
            changed=max(changes, default=0),
        )


def _counter(edge: Edge, topic: str) -> Place:
    """Under what the lateness of an edge's topic is kept."""
    counter = edge.name if edge.kind == "consumer" else edge.downstream
    return counter, edge.downstream_topic(topic)


def _claims_by_window(books: Mapping[str, ClaimBook]) -> ClaimsByWindow:
    found: dict[tuple[str, str], dict[int, dict[CellKey, Claim]]] = {}
    for cluster, book in books.items():
        for key, claim in book.claims().items():
            by_window = found.setdefault((cluster, key.topic), defaultdict(dict))
            by_window[key.window][key] = claim
    return found
