"""An edge with its surroundings, and both its sides put paired each other under one name. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tallymark_audit.judge.assemble import Observations, mirror_facts, producer_facts, renamed
from tallymark_audit.judge.copy_progress import GapOf, Parts, Passed, in_flight, reasons_of
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.edges import AUDIT_TOPIC, origins, passes
from tallymark_audit.model.sides import CellFacts, Claim, Observation, merge_observations

Known = Mapping[str, Collection[str]]
"""The topics there are, by cluster."""
ClusterTopic = tuple[str, str]
"""Cluster, and what it calls the topic."""


@dataclass(frozen=True, slots=True)
class Hop:
    """An edge with its surroundings. ``siblings``: the edges that end where it ends. ``origins``:
    by cluster mirrored into its downstream, that cluster and all that is mirrored into it."""

    edge: Edge
    siblings: tuple[Edge, ...]
    origins: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    @property
    def renames(self) -> bool:
        """Whether a topic may be called otherwise on another side of the edge."""
        mirrors = [one.mirror for one in self.siblings if one.mirror]
        if self.edge.kind == "mirror":
            mirrors = [self.edge.mirror] if self.edge.mirror else []
        return any(one.renames or one.rename != "{topic}" for one in mirrors)

    def upstreams(self, topic: str, known: Known) -> dict[str, tuple[str, ...]]:
        """From which clusters the topic (the edge's name of it) is mirrored into the edge's
        downstream, and what each calls it."""
        if self.edge.reported:
            return {}
        there = self.edge.downstream_topic(topic)
        found: dict[str, tuple[str, ...]] = {}
        for edge in self.siblings:
            if edge.kind == "mirror":
                # What is not known upstream yet may have been there: it keeps its name mostly.
                candidates = {*known.get(edge.upstream, ()), there}
                if edge == self.edge:
                    candidates.add(topic)
                names = [t for t in edge.upstream_topics(there, candidates) if passes(edge, t)]
                if names:
                    found[edge.upstream] = (*found.get(edge.upstream, ()), *names)
        return found

    def owes(self, topic: str, known: Known) -> bool:
        """Whether the topic crosses the edge. Where a mirror's upstream does not have the topic, it
        does so only if no other topic there has that name downstream."""
        edge = self.edge
        if not passes(edge, topic):
            return False
        there = known.get(edge.upstream, ())
        if edge.kind != "mirror" or topic in there:
            return True
        return not edge.upstream_topics(edge.downstream_topic(topic), there)

    def topics_of(self, cluster: str, topic: str, known: Known) -> tuple[str, ...]:
        """The topics of the edge that a change of a cluster's ``topic`` concerns."""
        edge = self.edge
        if edge.kind == "mirror":
            names = known.get(edge.upstream, ())
            here = edge.upstream_topics(topic, names) if cluster == edge.downstream else ()
            return tuple({*here, *([topic] if cluster == edge.upstream else [])})
        if edge.reported or cluster == edge.downstream:
            return (topic,)
        return tuple(
            {
                one.downstream_topic(topic)
                for one in self.siblings
                if one.kind == "mirror" and one.upstream == cluster and passes(one, topic)
            }
        )

    def places(self, topic: str, known: Known) -> tuple[ClusterTopic, ...]:
        """The places whose counts and claims can change a verdict on this edge."""
        edge = self.edge
        if edge.reported:
            return ((edge.upstream, topic),)
        if edge.kind == "mirror":
            return ((edge.downstream, edge.downstream_topic(topic)), (edge.upstream, topic))
        ups = self.upstreams(topic, known)
        return ((edge.downstream, topic), *((up, name) for up in ups for name in ups[up]))

    def sides(self, topic: str, known: Known) -> tuple[list[ClusterTopic], list[ClusterTopic]]:
        """What has to be counted downstream, and upstream, before the hop is judged."""
        edge = self.edge
        if edge.reported:
            return [(edge.upstream, AUDIT_TOPIC)], [(edge.upstream, topic)]
        down = [(edge.downstream, edge.downstream_topic(topic))]
        if edge.kind == "mirror":
            return down, [(edge.upstream, topic)]
        # Where mirrors end too, UNCLAIMED also needs every upstream to have been counted.
        return down, [(edge.downstream, AUDIT_TOPIC), *self.places(topic, known)[1:]]

    def clusters(self) -> tuple[str, ...]:
        """The clusters of :meth:`places`, whatever the topic."""
        edge = self.edge
        if edge.reported:
            return (edge.upstream,)
        if edge.kind == "mirror":
            return (edge.downstream, edge.upstream)
        return (edge.downstream, *(one.upstream for one in self.siblings if one.kind == "mirror"))

    def may_be_home(self) -> frozenset[str]:
        """The clusters whose producers may have sent records that are seen on the edge."""
        return frozenset({self.edge.downstream}).union(*self.origins.values())

    def homes(self, reported_on: Mapping[str, str]) -> dict[str, str]:
        """From where the records of an instance come to the edge's downstream: the neighbour that
        leads to the cluster it reports on, or the downstream itself."""
        found: dict[str, str] = {}
        for instance, cluster in reported_on.items():
            if cluster == self.edge.downstream:
                found[instance] = cluster
                continue
            ways = [up for up, above in self.origins.items() if cluster in above]
            if ways:
                found[instance] = cluster if cluster in ways else ways[0]
        return found


def hops_into(edges: Sequence[Edge], cluster: str) -> tuple[Hop, ...]:
    """The hops that the cluster's collector judges."""
    into = tuple(edge for edge in edges if edge.home == cluster)
    above = {
        edge.upstream: origins(
            [one for one in edges if one.upstream != cluster or one.kind != "mirror"],
            edge.upstream,
        )
        for edge in into
        if edge.kind == "mirror"
    }
    return tuple(Hop(edge, into, above) for edge in into)


@dataclass(frozen=True, slots=True)
class Sides:
    """What both sides of an edge between clusters hold in one window, under their own names.

    ``above``: what each place has that is mirrored into the downstream; ``parts``: where in its
    logs the edge's own upstream has it. ``homes``: on which cluster an instance reports.
    ``passed``: how far the mirror has come in each partition upstream; what it brought is counted
    up to ``counted_through`` (ms). ``gaps``: what it could not copy."""

    downstream: Observations
    claims: Mapping[CellKey, Claim]
    above: Mapping[ClusterTopic, Observations]
    parts: Parts
    homes: Mapping[str, str]
    passed: Mapping[int, Passed]
    counted_through: int
    gaps: Sequence[GapOf] = ()


def paired(hop: Hop, topic: str, sides: Sides) -> list[CellFacts]:
    """The cells of one window of a producer's or a mirror's edge; ``topic`` is the edge's name."""
    here, said = renamed(sides.downstream, topic), renamed(sides.claims, topic)
    ups, homes = _by_cluster(sides.above, topic), hop.homes(sides.homes)
    if hop.edge.kind == "producer":
        return producer_facts(said, here, ups, homes)
    behind = in_flight(sides.parts, sides.passed, sides.counted_through)
    reasons = reasons_of(sides.parts, sides.gaps)
    return mirror_facts(hop.edge, ups, here, homes, said, behind, reasons)


def _by_cluster(
    above: Mapping[ClusterTopic, Observations], topic: str
) -> dict[str, dict[CellKey, Observation]]:
    found: dict[str, dict[CellKey, Observation]] = {}
    for (cluster, _), cells in above.items():
        mine, known = renamed(cells, topic), found.get(cluster)
        found[cluster] = (
            merge_observations([*known.values(), *mine.values()]) if known is not None else mine
        )
    return found
