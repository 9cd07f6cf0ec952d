"""What pages ask: the newest state of every cluster and of the registry.

States are immutable and exchanged as a whole, so a reader needs no lock and sees no half-written
state; it keeps what it has taken for as long as it renders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import TypeAlias

from tallymark.deployment import Deployment
from tallymark_audit.repair.gone import LogStarts
from tallymark_dashboards.snapshots.registry_shapes import RegistryState
from tallymark_dashboards.snapshots.shapes import (
    WORST_LAST,
    ClusterState,
    CoursePoint,
    Delay,
    GroupPartition,
    Status,
    TopicLag,
)

Courses: TypeAlias = Callable[[str], tuple[CoursePoint, ...]]


class Snapshots:
    """One per process. ``version`` grows whenever there is something else to be seen."""

    def __init__(self, clusters: Iterable[ClusterState], registry: RegistryState) -> None:
        self._clusters: Mapping[str, ClusterState] = {one.name: one for one in clusters}
        self._lags = {one.name: _by_topic(one) for one in self._clusters.values()}
        self._registry = registry
        self._courses: dict[str, Courses] = {}
        self._lock = Lock()  # held while a state is replaced; readers take no lock
        self.version = 0

    @classmethod
    def of(cls, deployment: Deployment) -> Snapshots:
        """Of a deployment of which nothing was read yet."""
        clusters = (ClusterState(one.name, one.bootstrap_servers) for one in deployment.clusters)
        return cls(clusters, RegistryState(deployment.registry.url))

    @property
    def clusters(self) -> tuple[ClusterState, ...]:
        """Every cluster, in the order of the settings."""
        return tuple(self._clusters.values())

    @property
    def registry(self) -> RegistryState:
        """The schema registry."""
        return self._registry

    def cluster(self, name: str) -> ClusterState | None:
        """The cluster of that name; None: the settings have none."""
        return self._clusters.get(name)

    def lag_of(self, topic: str, cluster: str = "") -> tuple[TopicLag, ...]:
        """The groups that have committed offsets of the topic, or consume it, the worst first; of
        one cluster, or ("") of all that have a topic of this name."""
        names = (cluster,) if cluster else tuple(self._clusters)
        found = [one for name in names for one in self._lags.get(name, {}).get(topic, ())]
        return tuple(sorted(found, key=_worst_first))

    def log_starts(self, cluster: str, topic: str) -> LogStarts:
        """Where the logs of a topic begin; nothing where that was not read."""
        state = self._clusters.get(cluster)
        known = state.topics.value.get(topic) if state else None
        if known is None or not known.ends_at:
            return LogStarts()
        starts = {one.partition: one.start for one in known.partitions if one.start is not None}
        return LogStarts(starts, known.ends_at)

    def course_of(self, cluster: str, group: str) -> tuple[CoursePoint, ...]:
        """The lag of a group over the last hours, the oldest first; empty where nothing is known of
        it."""
        courses = self._courses.get(cluster)
        return courses(group) if courses else ()

    def courses_from(self, cluster: str, courses: Courses) -> None:
        """Set the function that returns the lags of a cluster's groups over the last hours."""
        self._courses[cluster] = courses

    def put(self, state: ClusterState) -> None:
        """Take the cluster's new state."""
        lags = _by_topic(state)
        with self._lock:
            changed = state != self._clusters.get(state.name)
            self._clusters = {**self._clusters, state.name: state}
            self._lags = {**self._lags, state.name: lags}
            self.version += changed

    def put_registry(self, state: RegistryState) -> None:
        """Take the registry's new state."""
        with self._lock:
            changed = state != self._registry
            self._registry = state
            self.version += changed


def _by_topic(cluster: ClusterState) -> Mapping[str, list[TopicLag]]:
    found: dict[str, list[TopicLag]] = {}
    for group in cluster.all_groups:
        parts: dict[str, list[GroupPartition]] = {}
        for one in group.partitions:
            parts.setdefault(one.topic, []).append(one)
        for topic, some in parts.items():
            lag = TopicLag(cluster.name, group.group, total(some), longest(some), worst(some))
            found.setdefault(topic, []).append(lag)
    return found


def total(partitions: Iterable[GroupPartition]) -> int | None:
    """The lag of all in messages; None: not known for any."""
    known = [one.lag for one in partitions if one.lag is not None]
    return sum(known) if known else None


def longest(partitions: Iterable[GroupPartition]) -> Delay | None:
    """The longest delay; None: not known for any."""
    known = [one.delay for one in partitions if one.delay is not None]
    return max(known, key=lambda one: (one.ms, one.least), default=None)


def worst(partitions: Iterable[GroupPartition]) -> Status:
    """The worst status; UNKNOWN of no partition at all."""
    found = {one.status for one in partitions}
    return max(found, key=WORST_LAST.index, default=Status.UNKNOWN)


def _worst_first(one: TopicLag) -> tuple[int, int, str, str]:
    lag = -1 if one.lag is None else one.lag
    return -WORST_LAST.index(one.status), -lag, one.cluster, one.group
