"""The broker's counters: plain numbers that only the event loop adds to.

Nothing here depends on Prometheus. The metrics page reads these numbers
(:mod:`tallymark.broker.monitoring.families`); an addition costs tens of nanoseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallymark.errors import CODES
from tallymark.net.limits.connection_quota import ConnectionQuota
from tallymark.protocol.api import ApiKey
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.throttle import ReplicationThrottle

BOUNDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Upper bounds of the latency histogram, in seconds, inclusive; there is one more bucket above the
last."""

OTHER_TOPICS: Final = "(other)"
"""The label of all topics without a label of their own. No topic can have this name."""


class ApiMetrics:
    """One API's requests. ``buckets[i]`` counts answers that took at most ``BOUNDS[i]`` seconds
    from the arrival of the request, the time a fetch or a join was parked included."""

    __slots__ = ("buckets", "errors", "key", "received_bytes", "requests", "seconds", "sent_bytes")

    def __init__(self, key: ApiKey) -> None:
        self.key = key
        self.requests = 0
        self.received_bytes = 0
        """Bytes of requests without their header."""
        self.sent_bytes = 0
        """Bytes of responses."""
        self.seconds = 0.0
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.errors: dict[int, int] = {}
        """Error codes in responses -> how often; one response may contain many."""

    def answered(self, seconds: float, size: int) -> None:
        """A response of ``size`` bytes is ready."""
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds
        self.sent_bytes += size

    def failed(self, code: int) -> None:
        """A response contains this error code."""
        self.errors[code] = self.errors.get(code, 0) + 1


class TopicTraffic:
    """The traffic to and from a topic, over all its partitions."""

    __slots__ = ("received_bytes", "received_messages", "replicated_bytes", "sent_bytes")

    def __init__(self) -> None:
        self.received_messages = 0
        self.received_bytes = 0
        """Bytes of record batches that were appended."""
        self.sent_bytes = 0
        """Bytes of record batches in fetch answers."""
        self.replicated_bytes = 0
        """Bytes of record batches that were copied from leaders."""


class UpkeepMetrics:
    """Counters of the broker's background work."""

    __slots__ = (
        "cleaner_failures",
        "cleaner_removed_records",
        "cleaner_runs",
        "cleaner_seconds",
        "cleaner_whole_batches",
        "flush_failures",
        "flush_seconds",
        "flushes",
        "retention_segments",
    )

    def __init__(self) -> None:
        self.flushes = 0
        self.flush_seconds = 0.0
        self.flush_failures = 0
        self.retention_segments = 0
        """Segments deleted by time or size."""
        self.cleaner_runs = 0
        self.cleaner_seconds = 0.0
        self.cleaner_failures = 0
        self.cleaner_removed_records = 0
        self.cleaner_whole_batches = 0
        """Batches that compactions left as they are: they cannot be decoded, or contain too much.
        """


@dataclass(slots=True)
class ReplicationMetrics:
    """What the leaders on this broker did with their followers."""

    sent_bytes: int = 0
    """Bytes of record batches in answers to followers."""
    isr_changes: Counter[str] = field(default_factory=Counter[str])
    """By outcome: "shrink", "expand", "settle" (a state was written again, since the outcome of a
    change was not known), "refused", "unknown"."""
    unclean_elections: int = 0
    given_up: Counter[str] = field(default_factory=Counter[str])
    """Committed records that were cut: "saved" before, or "not-saved"."""
    """Partitions that got a leader which may lack records from this broker, as the controller or
    for an operator."""

    def elected_unclean(self, partition: TopicPartition) -> None:
        """This partition did."""
        self.unclean_elections += 1


class FollowersNow(NamedTuple):
    """How the copying of replicas from their leaders goes. ``connected`` and ``disconnected`` count
    the fetchers with and without a connection to their leader; ``aside`` partitions by the name of
    the error for which they are set aside. ``max_lag`` is Kafka's MaxLag: of all partitions the
    most records below the leader's high watermark that are not here yet."""

    connected: int
    disconnected: int
    followed: int
    aside: Counter[str]
    max_lag: int


@dataclass(slots=True)
class CoordinatorMetrics:
    """What the coordinators on this broker did: loads of their partitions, and answers that had to
    wait until what they tell is committed. Answers that leave at once are not counted."""

    loads: int = 0
    load_seconds: float = 0.0
    load_failures: int = 0
    held: Counter[str] = field(default_factory=Counter[str])
    """By one of :data:`HELD_OUTCOMES`: "late" when it was not committed in time, "lost" with the
    lead, "refused" for any other error."""
    held_seconds: float = 0.0

    def loaded(self, seconds: float) -> None:
        """A partition was replayed."""
        self.loads += 1
        self.load_seconds += seconds

    def answered(self, seconds: float, code: int) -> None:
        """An answer that waited has left, with this error code."""
        self.held[_BY_CODE.get(code, "refused")] += 1
        self.held_seconds += seconds


HELD_OUTCOMES: Final = ("committed", "late", "lost", "refused")
_BY_CODE: Final = {
    CODES["NONE"]: "committed",
    CODES["COORDINATOR_NOT_AVAILABLE"]: "late",
    CODES["NOT_COORDINATOR"]: "lost",
}


@dataclass(slots=True)
class TrailMetrics:
    """Lines of the admin trail, by ``file`` and ``topic``."""

    written: Counter[str] = field(default_factory=Counter[str])
    dropped: Counter[str] = field(default_factory=Counter[str])
    """Lines that are in neither, or in the other one only."""


class BrokerMetrics:
    """All counters of one broker. The first ``max_topics`` topics get a label of their own; all
    others share :data:`OTHER_TOPICS`."""

    def __init__(self, max_topics: int = 200) -> None:
        self.apis: dict[ApiKey, ApiMetrics] = {}
        self.connections: ConnectionQuota | None = None
        """Counts the connections of all listeners."""
        self.upkeep = UpkeepMetrics()
        self.replication = ReplicationMetrics()
        self.following: Callable[[], FollowersNow] | None = None
        """None where nothing is copied from other brokers."""
        self.throttles: Mapping[str, ReplicationThrottle] = {}
        """The limits of KIP-73 by ``leader`` and ``follower``; empty where nothing is copied."""
        self.trail: TrailMetrics | None = None
        """None where there is no admin trail."""
        self.bad_requests = 0
        """Requests that cannot be decoded or are not served; they closed their connection."""
        self.failed_requests = 0
        """Requests on which the broker itself failed; they closed their connection."""
        self._max_topics = max_topics
        self._topics: dict[str, TopicTraffic] = {}
        self._others = TopicTraffic()

    def api(self, key: ApiKey) -> ApiMetrics:
        """The counters of an API."""
        found = self.apis.get(key)
        if found is None:
            found = self.apis[key] = ApiMetrics(key)
        return found

    def topic(self, name: str) -> TopicTraffic:
        """The counters of a topic, or the shared ones where it has no label."""
        found = self._topics.get(name)
        if found is None:
            if len(self._topics) >= self._max_topics:
                return self._others
            found = self._topics[name] = TopicTraffic()
        return found

    def label(self, name: str) -> str:
        """The label of a topic."""
        return name if name in self._topics else OTHER_TOPICS

    def keep(self, topics: Container[str]) -> None:
        """Free the labels of all topics but ``topics``: the others were deleted."""
        for name in [name for name in self._topics if name not in topics]:
            del self._topics[name]

    def topics(self) -> list[tuple[str, TopicTraffic]]:
        """Every label with its counters; :data:`OTHER_TOPICS` only once it has counted
        something."""
        found = sorted(self._topics.items())
        if self._others.received_bytes or self._others.sent_bytes:
            found.append((OTHER_TOPICS, self._others))
        return found
