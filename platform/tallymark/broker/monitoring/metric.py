"""A metric of a broker with one number."""

from __future__ import annotations

from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

PREFIX: Final = "tallymark_broker_"


def gauge(name: str, text: str, value: float) -> Metric:
    """What goes up and down."""
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def counter(name: str, text: str, value: float) -> Metric:
    """What only goes up."""
    return CounterMetricFamily(PREFIX + name, text, value=value)
