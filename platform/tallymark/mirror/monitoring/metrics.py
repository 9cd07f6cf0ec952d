"""A mirror's lag and counts for Prometheus, on a port of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tallymark.client.core.metrics_page import MetricsPage
from tallymark.mirror.monitoring.lag import MirrorState
from tallymark.net.web.access import WebAccess

PREFIX: Final = "tallymark_mirror_"
_COUNTS: Final = (
    ("records_copied", "copied", "Records that the target has acknowledged."),
    ("bytes_copied", "copied_bytes", "Bytes of their batches, as they went over the wire."),
    ("records_passed_whole", "whole", "Copied records in batches that were not opened."),
    ("records_returned", "returned", "Records left out because they had come from the target."),
)
_LAGS: Final = (
    ("lag_records", "records", "Records of the partition that the target has not acknowledged."),
    ("lag_bytes", "size", "Their bytes, estimated by those copied so far."),
    ("lag_seconds", "seconds", "Age of the oldest of them that was read."),
)


class MirrorMetrics(MetricsPage):
    """Serves ``/metrics`` from construction to ``close``. UserError where the port is taken.

    ``states`` is called at each scrape, in another thread; what it returns must not change."""

    def __init__(
        self,
        states: Callable[[], Sequence[MirrorState]],
        host: str,
        port: int,
        access: WebAccess | None = None,
    ) -> None:
        super().__init__(_States(states), host, port, "mirror-metrics", access)


class _States(Collector):
    def __init__(self, states: Callable[[], Sequence[MirrorState]]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        return iter(families(self._states()))


def families(states: Sequence[MirrorState]) -> list[Metric]:
    """The metrics of these mirrors. Pure."""
    found: list[Metric] = []
    for name, field, text in _COUNTS:
        counter = CounterMetricFamily(PREFIX + name, text, labels=["mirror"])
        for state in states:
            counter.add_metric([state.name], getattr(state, field))
        found.append(counter)
    gaps = CounterMetricFamily(
        PREFIX + "gaps",
        "Stretches of offsets that could not be copied, by reason.",
        labels=["mirror", "reason"],
    )
    for state in states:
        for reason, count in sorted(state.gaps.items()):
            gaps.add_metric([state.name, reason], count)
    found.append(gaps)
    open_batches = GaugeMetricFamily(
        PREFIX + "batches_in_flight", "Handed to the target, not acknowledged.", labels=["mirror"]
    )
    for state in states:
        open_batches.add_metric([state.name], state.open_batches)
    found.append(open_batches)
    stopped = GaugeMetricFamily(
        PREFIX + "partition_damaged",
        "1 for a partition that waits: a batch cannot be read, or the target refuses it.",
        labels=["mirror", "topic", "partition"],
    )
    for state in states:
        for one in state.stopped:
            stopped.add_metric([state.name, one.topic, str(one.partition)], 1)
    found.append(stopped)
    for name, field, text in _LAGS:
        gauge = GaugeMetricFamily(PREFIX + name, text, labels=["mirror", "topic", "partition"])
        for state in states:
            for lag in state.lags:
                value = getattr(lag, field)
                if value is not None:
                    gauge.add_metric([state.name, lag.topic, str(lag.partition)], value)
        found.append(gauge)
    return found
