"""The metric families of the audit for Prometheus: from the store, and from what a collector has
counted. Pure; :mod:`tallymark_audit.metrics.source` reads the store.

Labels are names of the settings, topics, states and jobs: no window, server, instance or offset.
``_total`` and ``_bucket`` count the messages of the current day (UTC) and start again at midnight,
which Prometheus takes as a counter's reset.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from tallymark_audit.alerts.alerter import Counts
from tallymark_audit.collector.counters import Counters
from tallymark_audit.judge.damage import Damaged
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import Edge, EdgeTopic
from tallymark_audit.store.counted.openings import Overflowed
from tallymark_audit.store.reading.alarms.watching import MILLIONTHS, StateTally, WrongWindows
from tallymark_audit.store.schema.rows import Row, holes_of

PREFIX: Final = "tallymark_audit_"
BUCKETS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600
)  # fmt: skip
"""Upper bounds of the latency histogram, in seconds."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from the store, at one moment: ``tallies`` of the last 24 hours, ``today``
    of the present day (UTC)."""

    edges: Sequence[Edge]
    tallies: Sequence[StateTally] = ()
    today: Sequence[StateTally] = ()
    missing: Sequence[WrongWindows] = ()
    excess: Sequence[WrongWindows] = ()
    unclaimed: Sequence[WrongWindows] = ()
    marks: Sequence[Row] = ()
    settle_ms: Mapping[EdgeTopic, int] = field(default_factory=dict[EdgeTopic, int])
    latency: Sequence[Row] = ()
    alerts: Mapping[tuple[str, str, str], int] = field(
        default_factory=dict[tuple[str, str, str], int]
    )
    heartbeats: Mapping[str, int] = field(default_factory=dict[str, int])
    silent: Mapping[str, int] = field(default_factory=dict[str, int])
    jobs: Sequence[Row] = ()
    damaged: Sequence[Damaged] = ()
    overflowed: Sequence[Overflowed] = ()


def families(reading: Reading) -> list[Metric]:
    """All families of what was read. Pure."""
    places = sorted(
        {(one.edge, one.topic) for one in reading.tallies}
        | {(row["edge"], row["topic"]) for row in reading.marks}
    )
    return [
        _wrong("missing_messages", "Messages claimed and not there.", places, reading.missing),
        _wrong("excess_messages", "Copies beyond the first.", places, reading.excess),
        _wrong("unclaimed_messages", "Seen, never claimed.", places, reading.unclaimed),
        *_by_window(reading.tallies),
        *_by_mark(reading),
        _messages(reading),
        _latency(reading.latency),
        *_watchers(reading),
        *_jobs(reading.jobs),
    ]


def _wrong(
    name: str, text: str, places: Iterable[EdgeTopic], found: Iterable[WrongWindows]
) -> GaugeMetricFamily:
    text = f"{text} In settled windows that are not accepted."
    gauge = GaugeMetricFamily(PREFIX + name, text, labels=["edge", "topic"])
    messages = {(one.edge, one.topic): one.messages for one in found}
    for place in sorted({*places, *messages}):
        gauge.add_metric(place, messages.get(place, 0))
    return gauge


def _by_window(tallies: Iterable[StateTally]) -> Iterator[Metric]:
    windows = GaugeMetricFamily(
        f"{PREFIX}windows",
        "Windows of the last 24 hours by state.",
        labels=["edge", "topic", "state"],
    )
    worst: dict[EdgeTopic, int] = {}
    for one in tallies:
        windows.add_metric([one.edge, one.topic, one.state], one.windows)
        if one.share is not None:
            place = one.edge, one.topic
            worst[place] = min(worst.get(place, MILLIONTHS), one.share)
    ratio = GaugeMetricFamily(
        f"{PREFIX}completeness_ratio",
        "What is there of what was claimed, in the worst window of the last 24 hours; rounded "
        "down, and 1 only when all of them are complete.",
        labels=["edge", "topic"],
    )
    for place, share in sorted(worst.items()):
        ratio.add_metric(place, share / MILLIONTHS)
    yield windows
    yield ratio


def _by_mark(reading: Reading) -> Iterator[Metric]:
    labels = ["edge", "topic"]
    through = GaugeMetricFamily(
        f"{PREFIX}watermark_timestamp_seconds",
        "Complete through this time, without a gap.",
        labels=labels,
    )
    holes = GaugeMetricFamily(
        f"{PREFIX}watermark_holes", "Windows that hold the watermark, up to 100.", labels=labels
    )
    settle = GaugeMetricFamily(
        f"{PREFIX}settle_seconds", "How long windows are left to settle.", labels=labels
    )
    for row in reading.marks:
        place = row["edge"], row["topic"]
        through.add_metric(place, row["through"] / 1000)
        holes.add_metric(place, sum(not accepted for _, _, accepted in holes_of(row)))
        if place in reading.settle_ms:
            settle.add_metric(place, reading.settle_ms[place] / 1000)
    yield through
    yield holes
    yield settle


def _messages(reading: Reading) -> CounterMetricFamily:
    """Claims of producers' edges, and of every edge what arrived: several mirrors into one cluster
    add up."""
    edges = {edge.name: edge for edge in reading.edges}
    sums: dict[tuple[str, str, str], int] = defaultdict(int)
    for one in reading.today:
        edge = edges.get(one.edge)
        if edge is None:
            continue
        if edge.kind == "producer":
            sums[edge.downstream, "producer", one.topic] += one.claimed
        tier = edge.downstream if edge.reported else "cluster"
        sums[edge.home, tier, one.topic] += one.observed
    counter = CounterMetricFamily(
        f"{PREFIX}messages",
        "Messages stamped today (UTC), each once: claimed, or seen, by tier.",
        labels=["cluster", "tier", "topic"],
    )
    for labels, count in sorted(sums.items()):
        counter.add_metric(labels, count)
    return counter


def _latency(rows: Iterable[Row]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(
        f"{PREFIX}delivery_latency_seconds",
        "From a record's time until it was read there, of records read today while caught up; "
        "right to 2 %.",
        labels=["tier", "topic"],
    )
    for row in rows:
        buckets, total = histogram(sketches.from_list(row["sketch"]))
        family.add_metric([row["edge"], row["topic"]], buckets, total)
    return family


def histogram(sketch: Mapping[int, int]) -> tuple[list[tuple[str, float]], float]:
    """A sketch of ms as a histogram of seconds: cumulative counts by upper bound, and the sum."""
    found: list[tuple[str, float]] = []
    for bound in BUCKETS:
        last = sketches.bucket_of(bound * 1000)
        below = sum(count for bucket, count in sketch.items() if bucket <= last)
        found.append((f"{float(bound)}", float(below)))
    found.append(("+Inf", float(sum(sketch.values()))))
    total = sum(sketches.value_of(bucket) * count for bucket, count in sketch.items())
    return found, total / 1000


def _watchers(reading: Reading) -> Iterator[Metric]:
    alerts = GaugeMetricFamily(
        f"{PREFIX}alerts",
        "Alerts that are not over.",
        labels=["alertname", "severity", "status"],
    )
    for labels, count in sorted(reading.alerts.items()):
        alerts.add_metric(labels, count)
    beats = GaugeMetricFamily(
        f"{PREFIX}collector_heartbeat_timestamp_seconds",
        "When the cluster's collector last committed.",
        labels=["cluster"],
    )
    for cluster, at in sorted(reading.heartbeats.items()):
        beats.add_metric([cluster], at / 1000)
    silent = GaugeMetricFamily(
        f"{PREFIX}silent_reporters",
        "Reporters that have neither closed nor been heard of lately, up to 1000.",
        labels=["cluster"],
    )
    for cluster, count in sorted(reading.silent.items()):
        silent.add_metric([cluster], count)
    damaged = GaugeMetricFamily(
        f"{PREFIX}damaged_partitions",
        "Partitions in which a batch was found within a day that cannot be read, nor counted.",
        labels=["cluster", "topic"],
    )
    partitions = {(one.cluster, one.topic, one.partition) for one in reading.damaged}
    places = Counter((cluster, topic) for cluster, topic, _ in partitions)
    for place, count in sorted(places.items()):
        damaged.add_metric(place, count)
    yield alerts
    yield beats
    yield silent
    yield damaged
    yield _overflowed(reading.overflowed)


def _overflowed(found: Iterable[Overflowed]) -> CounterMetricFamily:
    family = CounterMetricFamily(
        f"{PREFIX}overflow_records",
        "Records of more new runs, or windows far from now, than are kept: counted, not told "
        "apart.",
        labels=["cluster", "topic"],
    )
    records: Counter[EdgeTopic] = Counter()
    for one in found:
        records[one.cluster, one.topic] += one.records
    for place, count in sorted(records.items()):
        family.add_metric(place, count)
    return family


def _jobs(rows: Iterable[Row]) -> Iterator[Metric]:
    last = GaugeMetricFamily(
        "tallymark_job_last_success_timestamp_seconds",
        "When a job last came to its end.",
        labels=["job"],
    )
    lasted = GaugeMetricFamily(
        "tallymark_job_duration_seconds", "How long its last run took.", labels=["job"]
    )
    for row in rows:
        last.add_metric([row["job"]], row["finished_at"] / 1000)
        lasted.add_metric([row["job"]], (row["finished_at"] - row["started_at"]) / 1000)
    yield last
    yield lasted


def state_families(store_can_be_read: bool) -> Iterator[Metric]:
    """The version of Tallymark, and whether the store could be read."""
    build = {"version": version("tallymark")}
    yield InfoMetricFamily("tallymark_build", "Which Tallymark this is.", build)
    text = "Whether the audit store could be read."
    yield GaugeMetricFamily(f"{PREFIX}up", text, value=float(store_can_be_read))


def own_families(cluster: str, counters: Counters, posts: Counts) -> Iterator[Metric]:
    """What a collector has counted since it started, and what its alerter has posted."""
    for name, text in _COUNTS:
        family = CounterMetricFamily(f"tallymark_collector_{name}", text, labels=["cluster"])
        family.add_metric([cluster], getattr(counters, name))
        yield family
    for name, text in _STANDS:
        gauge = GaugeMetricFamily(f"tallymark_collector_{name}", text, labels=["cluster"])
        gauge.add_metric([cluster], float(getattr(counters, name)))
        yield gauge
    family = CounterMetricFamily(
        "tallymark_collector_alert_posts",
        "Posts to the webhook, by what became of them.",
        labels=["cluster", "outcome"],
    )
    family.add_metric([cluster, "taken"], posts.posts)
    family.add_metric([cluster, "failed"], posts.failed_posts)
    yield family


def merged(several: Iterable[Iterable[Metric]]) -> Iterator[Metric]:
    """The families of several collectors, each family once."""
    found: dict[str, Metric] = {}
    for families_of_one in several:
        for family in families_of_one:
            known = found.setdefault(family.name, family)
            if known is not family:
                known.samples += family.samples
    return iter(found.values())


_COUNTS: Final = (
    ("records", "Records counted."),
    ("bytes", "Their bytes."),
    ("unstamped", "Records without a stamp."),
    ("overflowed", "Records of more runs or windows than are kept, which are only counted."),
    ("malformed", "Records whose stamp cannot be read."),
    ("skewed", "Records stamped too far from the time they were appended."),
    ("aborted", "Records of aborted transactions."),
    ("events", "Monitoring events taken in."),
    ("bad_events", "Records of the audit topic that are no events."),
    ("commits", "Commits to the audit store."),
    ("refused", "Commits refused since another collector has taken over."),
    ("failures", "Rounds in which the cluster or the store could not be used."),
)
_STANDS: Final = (
    ("partitions", "Partitions that this collector counts."),
    ("lag", "Offsets of them that it has not counted yet."),
    ("in_charge", "Whether it judges and alerts for the cluster."),
)
