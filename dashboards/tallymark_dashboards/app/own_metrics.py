"""Metrics of the dashboards themselves, beside those of the audit: requests by outcome, seconds of
pages, open live connections, the age of each cluster's snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallymark_dashboards.frame.registry import PAGES

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Seconds."""
OTHER: Final = "other"


class OwnMetrics:
    """Counts requests; the labels are our own routes, so that clients cannot add any.

    ``viewers``: how many look on live; ``snapshots``: by cluster, when (ms) its state was read, 0
    is never; ``now`` in ms."""

    def __init__(
        self,
        registry: CollectorRegistry,
        viewers: Callable[[], int],
        snapshots: Callable[[], Mapping[str, int]],
        now: Callable[[], int],
    ) -> None:
        self._requests = Counter(
            "tallymark_dashboards_requests",
            "Requests, by route and status.",
            ["route", "code"],
            registry=registry,
        )
        self._seconds = Histogram(
            "tallymark_dashboards_render_seconds",
            "How long a page took, from its request to its last byte.",
            ["page"],
            buckets=BUCKETS,
            registry=registry,
        )
        registry.register(_Now(viewers, snapshots, now))

    def note(self, route: str, code: int, seconds: float) -> None:
        """A request that has ended."""
        self._requests.labels(route, str(code)).inc()
        page = next((one.name for one in PAGES.values() if one.path == route), None)
        if page is not None:
            self._seconds.labels(page).observe(seconds)


class Measured:
    """Notes each request in ``metrics``. It stands directly around the routes."""

    def __init__(self, app: ASGIApp, metrics: OwnMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, code = time.monotonic(), 500

        async def sending(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._metrics.note(_route(scope), code, time.monotonic() - began)


class _Now(Collector):
    """What is read when Prometheus asks."""

    def __init__(
        self,
        viewers: Callable[[], int],
        snapshots: Callable[[], Mapping[str, int]],
        now: Callable[[], int],
    ) -> None:
        self._viewers, self._snapshots, self._now = viewers, snapshots, now

    def collect(self) -> Iterable[Metric]:
        """The gauges."""
        viewers = GaugeMetricFamily(
            "tallymark_dashboards_live_viewers", "Pages that are open and live."
        )
        viewers.add_metric([], self._viewers())
        yield viewers
        age = GaugeMetricFamily(
            "tallymark_dashboards_snapshot_age_seconds",
            "How long ago the state of a cluster was read; none where it never was.",
            labels=["cluster"],
        )
        now = self._now()
        for cluster, at in sorted(self._snapshots().items()):
            if at:
                age.add_metric([cluster], max(0, now - at) / 1000)
        yield age


def _route(scope: Mapping[str, Any]) -> str:
    """The path of the route, with the names of its parameters in place of their values."""
    return str(getattr(scope.get("route"), "path", OTHER))
