"""Up to when the absence of records means that there were none: for all topics of all edges of a
cluster, with a few questions for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Connection

from tallymark.deployment import AuditSettings
from tallymark_audit.collector.judging.window_facts import SettleTimes
from tallymark_audit.judge.hops import ClusterTopic, Hop, Known
from tallymark_audit.store.counted import facts


@dataclass(slots=True)
class Horizons:
    """The horizons in one snapshot, at ``now`` (ms). A topic whose rows make no sense raises only
    for itself, as its windows do."""

    connection: Connection
    settings: AuditSettings
    now: int
    _known: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    _counted: dict[str, facts.CountedThrough] = field(
        default_factory=dict[str, facts.CountedThrough]
    )
    _reported: dict[str, dict[str, list[int]]] = field(
        default_factory=dict[str, dict[str, list[int]]]
    )
    _settle: dict[str, SettleTimes] = field(default_factory=dict[str, SettleTimes])

    def of(self, hop: Hop, topic: str) -> int:
        """Up to when (ms) every counter of the topic on the hop has counted and every reporter has
        reported, less the time that windows are left to settle."""
        edge = hop.edge
        horizon = self.counted(hop, topic)
        if edge.kind == "producer":
            if edge.downstream not in self._reported:
                told = facts.reported_through(self.connection, edge.downstream)
                self._reported[edge.downstream] = told
            horizon = min([horizon, *self._reported[edge.downstream].get(topic, ())])
        return max(0, horizon)

    def counted(self, hop: Hop, topic: str) -> int:
        """The same for the counters alone."""
        known: Known = {cluster: self.topics(cluster) for cluster in hop.clusters()}
        counted = [self._through(place) for side in hop.sides(topic, known) for place in side]
        return min(self.now, *counted) - self.settle_ms(hop, topic)

    def settle_ms(self, hop: Hop, topic: str) -> int:
        """How long windows of the topic on the hop are left to settle."""
        if hop.edge.name not in self._settle:
            settle = SettleTimes(self.connection, hop, self.settings, self.now)
            self._settle[hop.edge.name] = settle
        return self._settle[hop.edge.name].of(topic)

    def topics(self, cluster: str) -> frozenset[str]:
        """The topics that the cluster's collector knows."""
        if cluster not in self._known:
            self._known[cluster] = facts.topics_on(self.connection, cluster)
        return self._known[cluster]

    def _through(self, place: ClusterTopic) -> int:
        cluster, topic = place
        if cluster not in self._counted:
            self._counted[cluster] = facts.CountedThrough(self.connection, cluster)
        return self._counted[cluster].of(topic)
