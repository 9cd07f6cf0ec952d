"""The metrics of a broker in Prometheus's types, built for every scrape.

Labels are bounded: APIs, error names, states, and those topics that have a label in
:class:`~tallymark.broker.metrics.counters.BrokerMetrics`. Names end in their unit; counters end in
``_total``. Counters begin at 0 with the process, those of a topic with its label.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final

from prometheus_client.core import (
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from tallymark.broker.metrics.counters import (
    BOUNDS,
    HELD_OUTCOMES,
    ApiMetrics,
    BrokerMetrics,
    UpkeepMetrics,
)
from tallymark.broker.monitoring.metric import PREFIX, Row, counter, counters, gauge, gauges
from tallymark.broker.monitoring.replicas import LedReplicas, replicas
from tallymark.broker.monitoring.transactions import OpenInLogs, open_in_logs, transactions
from tallymark.broker.security.acl_authorizer import AclAuthorizer
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import TABLE
from tallymark.protocol.api import ApiKey

_TURN: Final = 200
"""Partitions, or groups, that are read in one turn of the event loop."""


@dataclass(slots=True)
class Logs:
    """Sums over the partitions that this broker leads or follows. ``sizes`` is bytes by topic
    label."""

    transactions: OpenInLogs
    led: int = 0
    followed: int = 0
    offline: int = 0
    segments: int = 0
    unflushed: int = 0
    producers: int = 0
    parked: int = 0
    replicas: LedReplicas = field(default_factory=LedReplicas)
    sizes: Counter[str] = field(default_factory=Counter[str])
    topics: set[str] = field(default_factory=set[str])


async def families(state: BrokerState) -> list[Metric]:
    """Everything that is measured, read in small turns of the event loop."""
    logs = await _logs(state)
    state.metrics.keep(logs.topics | state.image.topics.keys())
    return [
        *_broker(state),
        *_requests(state.metrics),
        *_traffic(state.metrics),
        *_partitions(state, logs),
        *replicas(state.metrics, logs.replicas),
        *_upkeep(state.metrics.upkeep),
        *_recovery(state),
        await _groups(state),
        *await transactions(state, logs.transactions),
        *_coordinators(state),
        *_security(state),
    ]


async def _logs(state: BrokerState) -> Logs:
    found = Logs(open_in_logs(state), offline=len(state.partitions.offline()))
    waiting: set[object] = set()
    for number, partition in enumerate(state.partitions):
        log = partition.log
        if log.is_offline:
            found.offline += 1
        elif state.partitions.get(partition.topic, partition.index) is partition:
            found.led += 1
            found.transactions.add(partition, state.metrics.label(partition.topic))
        else:
            found.followed += 1
        found.topics.add(partition.topic)
        found.sizes[state.metrics.label(partition.topic)] += log.size
        found.segments += log.segment_count
        found.unflushed += log.end_offset - log.recovery_point
        found.producers += len(log.producers)
        waiting |= partition.waiting
        found.replicas.add(partition)
        if number % _TURN == _TURN - 1:
            await asyncio.sleep(0)
    found.parked = len(waiting)
    return found


def _broker(state: BrokerState) -> Iterator[Metric]:
    image, settings = state.image, state.settings
    info = InfoMetricFamily("tallymark_build", "The version that runs.")
    info.add_metric([], {"version": version("tallymark")})
    yield info
    info = InfoMetricFamily(PREFIX[:-1], "Which broker this is.")
    info.add_metric([], {"node_id": str(settings.node_id), "cluster_id": image.cluster_id})
    yield info
    yield gauge("cluster_brokers", "Live brokers of the cluster.", len(image.brokers))
    yield gauge(
        "is_controller",
        "Whether this broker is the cluster's controller.",
        int(image.controller_id == settings.node_id),
    )
    yield gauge("cluster_topics", "Topics of the cluster.", len(image.topics))
    yield gauge(
        "cluster_leaderless_partitions",
        "Partitions of the cluster that have no leader: they cannot be read or written.",
        sum(each.leader < 0 for topic in image.topics.values() for each in topic.partitions),
    )
    quota = state.metrics.connections
    if quota is not None:
        yield gauge("connections", "Connections that are open.", quota.open)
        yield counter("refused_connections", "Connections turned away at a limit.", quota.refused)


def _requests(metrics: BrokerMetrics) -> Iterator[Metric]:
    yield _by_api("requests", "Requests that came.", list(metrics.apis.values()), "requests")
    apis = [api for api in metrics.apis.values() if api.requests]
    yield _by_api("request_bytes", "Their bytes, headers apart.", apis, "received_bytes")
    yield _by_api("response_bytes", "Bytes of the answers.", apis, "sent_bytes")
    errors = list[Row]()
    seconds = HistogramMetricFamily(
        f"{PREFIX}request_seconds",
        "From the arrival of a request to its answer, parked time included.",
        labels=("api",),
    )
    for api in apis:
        for code, count in sorted(api.errors.items()):
            row = TABLE.get(code)
            name = str(code) if row is None else row.name
            errors.append(((api.key.name.lower(), name), count))
        seconds.add_metric((api.key.name.lower(),), _cumulative(api), sum_value=api.seconds)
    yield counters("errors", "Error codes in answers, by name.", ("api", "error"), errors)
    yield seconds
    yield counter(
        "bad_requests",
        "Requests that could not be decoded, or are not served.",
        metrics.bad_requests,
    )
    yield counter(
        "failed_requests", "Requests that met an error of the broker.", metrics.failed_requests
    )


def _cumulative(api: ApiMetrics) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), api.buckets, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets


def _traffic(metrics: BrokerMetrics) -> Iterator[Metric]:
    named = metrics.topics()
    for name, text, attribute in (
        ("topic_received_messages", "Messages appended.", "received_messages"),
        ("topic_received_bytes", "Bytes of batches appended.", "received_bytes"),
        ("topic_sent_bytes", "Bytes of batches sent to consumers.", "sent_bytes"),
        ("topic_replicated_bytes", "Bytes of batches copied from leaders.", "replicated_bytes"),
    ):
        rows = [((label,), getattr(traffic, attribute)) for label, traffic in named]
        yield counters(name, text, ("topic",), rows)


def _partitions(state: BrokerState, logs: Logs) -> Iterator[Metric]:
    yield gauges(
        "partitions",
        "Partitions that are this broker's to lead or follow; offline ones lie on a failed disk.",
        ("state",),
        ((("led",), logs.led), (("followed",), logs.followed), (("offline",), logs.offline)),
    )
    sizes = (((label,), size) for label, size in sorted(logs.sizes.items()))
    yield gauges("topic_log_bytes", "Bytes of the logs here.", ("topic",), sizes)
    yield gauge("log_segments", "Segments of the logs here.", logs.segments)
    yield gauge("unflushed_messages", "Messages that a power failure could take.", logs.unflushed)
    yield gauge(
        "idempotent_producers", "Producer ids remembered, each once a partition.", logs.producers
    )
    yield gauge("parked_fetches", "Fetches that wait for messages.", logs.parked)
    offline = state.logs.offline_dirs if state.logs is not None else {}
    yield gauge("offline_log_dirs", "Data directories whose disk has failed.", len(offline))


def _upkeep(counts: UpkeepMetrics) -> Iterator[Metric]:
    yield counter("flushes", "Flushes of a partition to its disk.", counts.flushes)
    yield counter("flush_seconds", "What they took.", counts.flush_seconds)
    yield counter("flush_failures", "Flushes that failed.", counts.flush_failures)
    yield counter(
        "retention_segments", "Segments deleted by time or size.", counts.retention_segments
    )
    yield counter("cleaner_runs", "Compactions of a log.", counts.cleaner_runs)
    yield counter("cleaner_seconds", "What they took.", counts.cleaner_seconds)
    yield counter("cleaner_failures", "Compactions that failed.", counts.cleaner_failures)
    yield counter(
        "cleaner_removed_records", "Records they removed.", counts.cleaner_removed_records
    )
    yield counter(
        "cleaner_whole_batches",
        "Batches that they met and left as they are: what does not decode, or holds too much.",
        counts.cleaner_whole_batches,
    )


def _recovery(state: BrokerState) -> Iterator[Metric]:
    manager = state.logs
    opened = [] if manager is None else [manager.get(*key) for key in manager]
    recovered = [log.recovered for log in opened if log is not None and log.recovered is not None]
    yield gauge(
        "recovered_logs", "Logs that were not closed cleanly before this start.", len(recovered)
    )
    yield gauge(
        "recovery_truncated_bytes",
        "Bytes that this start cut off, as no batch holds them.",
        sum(found.cut for found in recovered),
    )


async def _groups(state: BrokerState) -> Metric:
    counts = Counter[str]()
    for shard in state.group_shards.shards():
        async for group in in_turns(shard.groups(), _TURN):
            counts[group.state.value] += 1
    rows = (((name,), count) for name, count in sorted(counts.items()))
    return gauges("groups", "Consumer groups coordinated here.", ("state",), rows)


def _coordinators(state: BrokerState) -> Iterator[Metric]:
    counts = state.group_shards.metrics
    yield counter("coordinator_loads", "Partitions of groups that were replayed.", counts.loads)
    yield counter("coordinator_load_seconds", "What they took.", counts.load_seconds)
    yield counter(
        "coordinator_load_failures", "Partitions that could not be replayed.", counts.load_failures
    )
    yield counters(
        "coordinator_held_answers",
        "Answers that had to wait until what they tell was committed, by how the wait ended.",
        ("outcome",),
        (((outcome,), counts.held[outcome]) for outcome in HELD_OUTCOMES),
    )
    yield counter(
        "coordinator_held_seconds", "What these answers waited, together.", counts.held_seconds
    )


def _security(state: BrokerState) -> Iterator[Metric]:
    denials = list[Row]()
    if isinstance(state.authorizer, AclAuthorizer):
        held = sorted(state.authorizer.denials.counts.items())
        denials = [((operation.name, kind.name), count) for (operation, kind), count in held]
    labels = ("operation", "resource")
    yield counters("denials", "What the access lists denied.", labels, denials)
    trail, lines = state.metrics.trail, list[Row]()
    if trail is not None:
        lines = [
            ((where, outcome), counts[where])
            for outcome, counts in (("written", trail.written), ("dropped", trail.dropped))
            for where in ("file", "topic")
        ]
    labels = ("resource", "outcome")
    yield counters("admin_trail", "Lines of the admin trail.", labels, lines)
    logins = [((outcome,), count) for outcome, count in sorted(state.logins.counts.items())]
    yield counters("logins", "SASL log-ins.", ("outcome",), logins)
    throttled = [
        ((ApiKey(key).name.lower(),), count)
        for key, count in sorted(state.security.throttled.items())
    ]
    text = "Answers that a quota held back."
    yield counters("throttled_requests", text, ("api",), throttled)


def _by_api(name: str, text: str, apis: list[ApiMetrics], attribute: str) -> Metric:
    rows = (((api.key.name.lower(),), getattr(api, attribute)) for api in apis)
    return counters(name, text, ("api",), rows)
