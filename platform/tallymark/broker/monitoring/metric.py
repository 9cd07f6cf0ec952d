"""The metrics of a broker: with one number, or with one for each value of labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

PREFIX: Final = "tallymark_broker_"
Row: TypeAlias = tuple[tuple[str, ...], float]
"""The values of the labels, and the number."""


def gauge(name: str, text: str, value: float) -> Metric:
    """What goes up and down."""
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def counter(name: str, text: str, value: float) -> Metric:
    """What only goes up."""
    return CounterMetricFamily(PREFIX + name, text, value=value)


def gauges(name: str, text: str, labels: tuple[str, ...], rows: Iterable[Row]) -> Metric:
    """:func:`gauge` for each row."""
    family = GaugeMetricFamily(PREFIX + name, text, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def counters(name: str, text: str, labels: tuple[str, ...], rows: Iterable[Row]) -> Metric:
    """:func:`counter` for each row."""
    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family
