"""Which offsets of every log a look reads: fixed once on the driver.

The period bounds the reading at both ends. Records come in the order of their time, more or less:
behind the first record that is ``lateness`` younger than the period's end, none of the period is
expected. Where one is known to have come later than that, since a collector saw it, the log is read
on until then; and where messages are missing, to its end, before they are called lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

from tallymark.client import Admin, SimpleConsumer, TopicInfo
from tallymark.client.core.security.deployment import ConnectionSettings
from tallymark.client.reading.isolation import Isolation
from tallymark.errors import TallymarkError, UserError
from tallymark.protocol.schema import ZERO_UUID
from tallymark_spark_jobs.reconcile.reading.open_transactions import OpenAt, named
from tallymark_spark_jobs.reconcile.reading.survey import TIMEOUT_MS, ClusterSurvey
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.resolve import Stretch
from tallymark_spark_jobs.source.planning import Span

A_TASK: Final = 1_000_000
"""Offsets that one task reads, at most."""
WORTH_A_TASK: Final = 50_000
"""Fewer offsets are not worth a task of their own."""


class Planned(NamedTuple):
    """A span, and the cluster that has it."""

    cluster: str
    span: Span


class Unread(NamedTuple):
    """Offsets ``first`` to ``last`` of a log, behind the period, which were not read."""

    cluster: str
    topic: str
    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What is read, of which clusters, and what behind it is not."""

    connections: Mapping[str, ConnectionSettings] = field(repr=False)
    spans: tuple[Planned, ...]
    unread: tuple[Unread, ...] = ()
    open: tuple[OpenAt, ...] = ()

    @property
    def offsets(self) -> int:
        """How many offsets are read."""
        return sum(one.span.offsets for one in self.spans)

    def tasks(self, parallelism: int, most: int = A_TASK) -> list[list[Planned]]:
        """The spans, cut for so many tasks at least as far as that is worth it, neighbours
        together: a task connects to few clusters."""
        wanted = min(parallelism, self.offsets // WORTH_A_TASK)
        each = max(1, min(most, -(-self.offsets // max(1, wanted))))
        found: list[list[Planned]] = []
        room = 0
        for cluster, span in self.spans:
            start = span.start
            while start < span.end:
                if room <= 0:
                    found.append([])
                    room = each
                end = min(span.end, start + room)
                found[-1].append(Planned(cluster, replace(span, start=start, end=end)))
                room -= end - start
                start = end
        return found


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far logs are read. ``lateness_ms``: how much later than the period's end records may
    have been written; None: logs are read to their ends. ``changed``: by cluster and topic, when
    (ms) a collector last saw a window of the period change."""

    period: Period
    lateness_ms: int | None
    changed: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def until(self, cluster: str, topic: str) -> int | None:
        """The time (ms) that bounds the reading of a topic."""
        if self.lateness_ms is None:
            return None
        return max(self.period.end, self.changed.get((cluster, topic), 0)) + self.lateness_ms


def read_plan(clusters: Sequence[ClusterSurvey], bounds: Bounds) -> ReadPlan:
    """Ask every cluster once where its logs are to be read. UserError names one that cannot be
    asked."""
    spans: list[Planned] = []
    unread: list[Unread] = []
    waits: list[OpenAt] = []
    for cluster in clusters:
        if not cluster.topics:
            continue
        try:
            with _consumer(cluster) as consumer, _consumer(cluster, "read_uncommitted") as other:
                there, open_here = consumer.topics(), list[OpenAt]()
                for topic in cluster.topics:
                    written = other.end_offsets(topic)  # first: what is written now is not open
                    for span, end in _spans(consumer, cluster.name, there[topic], bounds):
                        spans.append(Planned(cluster.name, span))
                        if end > span.end:
                            place = cluster.name, topic, span.partition
                            unread.append(Unread(*place, span.end, end - 1))
                        elif written.get(span.partition, 0) > end:
                            open_here.append(OpenAt(cluster.name, topic, span.partition, end))
                waits += named(open_here, other, partial(_admin, cluster))
        except UserError:
            raise
        except (TallymarkError, OSError, KeyError) as error:
            raise UserError(
                f"cluster {cluster.name} cannot be read: {error}", "see that its brokers run"
            ) from error
    connections = {cluster.name: cluster.connection for cluster in clusters}
    kept = tuple(one for one in spans if one.span.offsets > 0)
    return ReadPlan(connections, kept, tuple(unread), tuple(waits))


def plan_of(
    connections: Mapping[str, ConnectionSettings],
    stretches: Iterable[Stretch],
    known: Iterable[Planned] = (),
) -> ReadPlan:
    """The plan that reads these stretches and nothing else, of the logs that were planned
    before."""
    spans = {(one.cluster, one.span.topic, one.span.partition): one.span for one in known}
    found: list[Planned] = []
    for cluster, topic, partition, first, last in stretches:
        span = spans.get((cluster, topic, partition), Span(topic, partition, 0, 0))
        found.append(Planned(cluster, replace(span, start=first, end=last + 1)))
    return ReadPlan(connections, tuple(found))


def audit_plan(clusters: Collection[ClusterSurvey], topic: str) -> ReadPlan:
    """All that there is of the audit topics."""
    spans: list[Planned] = []
    for cluster in clusters:
        if cluster.has_claims:
            with _consumer(cluster) as consumer:
                first, last = consumer.start_offsets(topic), consumer.end_offsets(topic)
            spans += [
                Planned(cluster.name, Span(topic, partition, first.get(partition, 0), end))
                for partition, end in sorted(last.items())
                if end > first.get(partition, 0)
            ]
    return ReadPlan({cluster.name: cluster.connection for cluster in clusters}, tuple(spans))


def _consumer(cluster: ClusterSurvey, isolation: Isolation = "read_committed") -> SimpleConsumer:
    # What of a transaction that is still open is not there yet.
    return SimpleConsumer(
        **cluster.connection,
        client_id="tallymark-reconcile",
        request_timeout_ms=TIMEOUT_MS,
        isolation=isolation,
    )


def _admin(cluster: ClusterSurvey) -> Admin:
    settings = cluster.connection
    return Admin(**settings, client_id="tallymark-reconcile", request_timeout_ms=TIMEOUT_MS)


def _spans(
    consumer: SimpleConsumer, cluster: str, topic: TopicInfo, bounds: Bounds
) -> Iterable[tuple[Span, int]]:
    """The span to read of each partition, and where its log ends."""
    first, last = consumer.start_offsets(topic.name), consumer.end_offsets(topic.name)
    until, since = bounds.until(cluster, topic.name), bounds.period.start
    for partition in topic.partitions:
        start, end = first.get(partition, 0), last.get(partition, 0)
        begin, stop = start, end
        if start < end and since is not None:
            at = consumer.offset_for_time(topic.name, partition, since)
            begin = end if at is None else max(start, at)
        if begin < end and until is not None:
            at = consumer.offset_for_time(topic.name, partition, until)
            stop = end if at is None else min(end, at)
        epoch = consumer.leader_epoch(topic.name, partition)
        known = "" if topic.topic_id == ZERO_UUID else str(topic.topic_id)
        span = Span(topic.name, partition, begin, max(begin, stop), known, epoch)
        yield span, end
