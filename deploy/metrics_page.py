"""Prints docs/metrics.md from what a broker reports: ``python deploy/metrics_page.py``."""

from __future__ import annotations

import sys
from typing import Final

from prometheus_client.core import Metric

from tallymark.broker.monitoring.families import families
from tallymark.testing.memory_broker import MemoryBroker

HEAD: Final = """# The metrics of a broker

What `/metrics` of a broker reports ([watching a broker](operations.md#watching-a-broker) says how
to open it, and what to look at). Counters begin at 0 with the process. Beside these it reports its
status, the lag of its event loop, and what `prometheus_client` knows of any process. Alerting
rules: `deploy/prometheus-rules.yml`.

This page is made from the code: `python deploy/metrics_page.py > docs/metrics.md`.

| metric | type | labels | what |
|---|---|---|---|
"""


def metrics_page() -> str:
    """The whole page."""
    with MemoryBroker() as broker:
        assert broker.broker is not None
        assert broker.broker.state is not None
        found = broker.call(families(broker.broker.state))
    return HEAD + "".join(sorted(map(_row, found)))


def _row(metric: Metric) -> str:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    labels = ", ".join(f"`{each}`" for each in getattr(metric, "_labelnames", ()))
    return f"| `{name}` | {metric.type} | {labels} | {metric.documentation} |\n"


if __name__ == "__main__":
    sys.stdout.write(metrics_page())
